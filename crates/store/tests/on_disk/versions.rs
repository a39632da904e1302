//! Stores of other versions, and copies put back.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use sandkeep_store::conformance::{event, record};
use sandkeep_store::{Priority, SqliteStore, Store, StoreError};

use super::{made, store_with};

/// The first schema, as it was released.
const FIRST: &str = include_str!("../../src/sqlite/migrations/0001-initial.sql");

fn store_of_the_first_version(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection.pragma_update(None, "application_id", 0x5364_4b70).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let mut sandbox = record(1);
    sandbox.revision = 1;
    connection
        .execute(
            "INSERT INTO record (id, revision, name, body) VALUES (?1, 1, ?2, ?3)",
            [sandbox.id.as_str(), sandbox.name.as_str(), &serde_json::to_string(&sandbox).unwrap()],
        )
        .unwrap();
    let event = event(Some(&sandbox), "made by an older version");
    connection
        .execute(
            "INSERT INTO event (sandbox, body) VALUES (?1, ?2)",
            [sandbox.id.as_str(), &serde_json::to_string(&event).unwrap()],
        )
        .unwrap();
}

fn version(path: &Path) -> u32 {
    let connection = Connection::open(path).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn an_older_store_is_migrated_and_a_copy_of_it_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_of_the_first_version(&path);
    let store = SqliteStore::open(&path).await.unwrap();
    let mut sandbox = record(1);
    sandbox.revision = 1;
    assert_eq!(store.load().await.unwrap().records, [sandbox.clone()]);
    assert_eq!(store.events(Some(&sandbox.id), 0, 10).await.unwrap().len(), 1);
    store.commit(Priority::Normal, made(2)).await.unwrap();
    drop(store);
    assert!(version(&path) > 1);
    let copy = home.path().join("store.db.schema-1");
    assert_eq!(version(&copy), 1, "the copy is as it was");
    let count = |path| -> u32 {
        let connection = Connection::open(path).unwrap();
        connection.query_row("SELECT COUNT(*) FROM record", [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count(&copy), count(&path)), (1, 2));
    SqliteStore::open(&path).await.expect("and it opens again");
}

#[tokio::test]
async fn a_migration_that_was_cut_off_is_done_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_of_the_first_version(&path);
    // The process died while it wrote the copy, and another time after it.
    fs::write(home.path().join("store.db.schema-1.new"), b"half a copy").unwrap();
    fs::write(home.path().join("store.db.schema-1"), b"an older try").unwrap();
    SqliteStore::open(&path).await.unwrap();
    assert!(version(&path) > 1);
    assert_eq!(version(&home.path().join("store.db.schema-1")), 1);
}

#[tokio::test]
async fn a_newer_store_is_refused_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_with(&path, 3).await;
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    match SqliteStore::open(&path).await {
        Err(StoreError::Newer { found: 99, known }) => assert!(known < 99),
        other => panic!("{other:?}"),
    }
    assert!(fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn yesterdays_copy_put_back_is_exactly_yesterday() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("store.db"), home.path().join("yesterday"));
    let yesterday = store_with(&path, 5).await;
    fs::copy(&path, &copy).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    for number in 5..400 {
        store.commit(Priority::Normal, made(number)).await.unwrap();
    }
    drop(store);
    // Only the database is put back; today's log still lies beside it.
    fs::copy(&copy, &path).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.load().await.unwrap().records, yesterday);
    assert_eq!(store.events(None, 0, 1_000).await.unwrap().len(), 5);
}

#[tokio::test]
async fn yesterdays_copy_put_back_after_a_crash_is_exactly_yesterday() {
    let home = tempfile::tempdir().unwrap();
    let (live, copy) = (home.path().join("live.db"), home.path().join("yesterday"));
    let yesterday = store_with(&live, 200).await;
    fs::copy(&live, &copy).unwrap();
    let store = SqliteStore::open(&live).await.unwrap();
    for number in 200..300 {
        store.commit(Priority::Normal, made(number)).await.unwrap();
    }
    // What a kill leaves, with yesterday's database in the place of today's.
    let crashed = tempfile::tempdir().unwrap();
    let path = crashed.path().join("store.db");
    fs::copy(&copy, &path).unwrap();
    for suffix in ["-wal", ".opened"] {
        let name = |stem: &str| format!("{stem}{suffix}");
        fs::copy(home.path().join(name("live.db")), crashed.path().join(name("store.db"))).unwrap();
    }
    for _twice in 0..2 {
        let store = SqliteStore::open(&path).await.unwrap();
        assert_eq!(store.load().await.unwrap().records, yesterday);
    }
    let aside = fs::read_dir(crashed.path()).unwrap().map(|file| file.unwrap().file_name());
    let kept = |name: std::ffi::OsString| name.to_string_lossy().contains("-wal.of-opening-");
    assert_eq!(aside.filter(|name| kept(name.clone())).count(), 1, "today's log is kept");
}

#[tokio::test]
async fn the_file_alone_is_a_whole_copy_while_nobody_has_it_open() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    let records = store_with(&path, 50).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("store.db");
    fs::copy(&path, &copy).unwrap();
    let store = SqliteStore::open(&copy).await.unwrap();
    assert_eq!(store.load().await.unwrap().records, records);
}
