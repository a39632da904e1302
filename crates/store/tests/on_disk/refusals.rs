//! A store that cannot be opened says why, and not one byte of it changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use sandkeep_store::{SqliteStore, Store, StoreError};

use super::store_with;

/// Name and bytes of every file but the lock.
fn bytes_of(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let read = |file: fs::DirEntry| {
        (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())
    };
    files.map(read).filter(|(name, _)| !name.ends_with(".lock")).collect()
}

/// Opens, expects a refusal, and checks that nothing was touched.
async fn refused(path: &Path) -> StoreError {
    let before = bytes_of(path.parent().unwrap());
    let error = SqliteStore::open(path).await.expect_err("it is refused");
    assert!(bytes_of(path.parent().unwrap()) == before, "{error}: files were changed");
    error
}

fn assert_damaged(error: &StoreError) {
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[tokio::test]
async fn a_truncated_store_is_refused_wherever_it_is_cut() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_with(&path, 300).await;
    let whole = fs::read(&path).unwrap();
    let length = whole.len();
    for keep in [0, 1, 99, 100, 4_095, 4_096, 40_960, length / 2, length - 4_096, length - 1] {
        fs::write(&path, &whole[..keep]).unwrap();
        assert_damaged(&refused(&path).await);
    }
    fs::write(&path, &whole).unwrap();
    let store = SqliteStore::open(&path).await.expect("the whole file still opens");
    assert_eq!(store.load().await.unwrap().records.len(), 300);
}

#[tokio::test]
async fn a_store_truncated_after_a_crash_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let live = home.path().join("live.db");
    store_with(&live, 300).await;
    // As a crash leaves it: taken while it is open, with a log that is not written back.
    let store = SqliteStore::open(&live).await.unwrap();
    for number in 300..310 {
        store.commit(sandkeep_store::Priority::Normal, super::made(number)).await.unwrap();
    }
    let crashed = tempfile::tempdir().unwrap();
    let path = crashed.path().join("store.db");
    let wal = crashed.path().join("store.db-wal");
    fs::copy(home.path().join("live.db-wal"), &wal).unwrap();
    let whole = fs::read(&live).unwrap();
    for keep in [0, 4_096, whole.len() / 3] {
        fs::write(&path, &whole[..keep]).unwrap();
        assert_damaged(&refused(&path).await);
    }
    fs::write(&path, &whole).unwrap();
    let reopened = SqliteStore::open(&path).await.expect("the whole copy opens");
    assert_eq!(reopened.load().await.unwrap().records.len(), 310);
}

#[tokio::test]
async fn garbage_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_with(&path, 300).await;
    let whole = fs::read(&path).unwrap();
    let mut scribbled = whole.clone();
    // Pages in the middle of the records.
    scribbled[8 * 4_096..60 * 4_096].fill(0xa5);
    for garbage in [vec![0x55; 1 << 20], vec![0; 1 << 20], b"{}".to_vec(), scribbled] {
        fs::write(&path, garbage).unwrap();
        assert_damaged(&refused(&path).await);
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_read_is_told_by_its_id() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    let id = store_with(&path, 3).await[1].id.clone();
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE record SET body = '{' WHERE id = ?1", [id.as_str()]).unwrap();
    drop(connection);
    let store = SqliteStore::open(&path).await.unwrap();
    let error = store.load().await.expect_err("it cannot be read");
    assert_damaged(&error);
    assert!(error.to_string().contains(id.as_str()), "{error}");
}

#[tokio::test]
async fn the_database_of_another_program_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = refused(&path).await;
    assert_damaged(&error);
    assert!(error.to_string().contains("another program"), "{error}");
}

#[tokio::test]
async fn a_log_without_its_database_is_no_fresh_start() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_with(&path, 3).await;
    fs::remove_file(&path).unwrap();
    assert_damaged(&refused(&path).await);
}

#[tokio::test]
async fn a_store_that_somebody_reads_with_a_tool_is_locked() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_with(&path, 3).await;
    let tool = Connection::open(&path).unwrap();
    tool.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = SqliteStore::open(&path).await.expect_err("it is in use");
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    drop(tool);
    SqliteStore::open(&path).await.expect("it is free again");
}

#[tokio::test]
async fn one_process_cannot_open_a_store_twice() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    let first = SqliteStore::open(&path).await.unwrap();
    let error = SqliteStore::open(&path).await.expect_err("it is in use");
    assert!(
        matches!(&error, StoreError::Locked { holder }
            if *holder == format!("process {}", std::process::id())),
        "{error:?}"
    );
    drop(first);
    SqliteStore::open(&path).await.expect("it is free once it is dropped");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_told() {
    let home = tempfile::tempdir().unwrap();
    let error = SqliteStore::open(home.path().join("no/store.db")).await.expect_err("no directory");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("no"), "{error}");
}
