//! A disk with no byte left: what must go on goes on, the rest says DiskFull, and everything goes
//! on when there is room again. On a small file system of its own, which needs root.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandkeep_core::{Observation, Record, Timestamp, Want};
use sandkeep_store::conformance::{event, record, tombstone};
use sandkeep_store::{Change, Priority, SqliteStore, Store, StoreError};

use super::made;

/// An ext4 file system in a file, mounted while the value lives.
struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, said aloud: it cannot be made here.
    fn mount(mebibytes: u64) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: a file system of its own needs root");
            assert!(std::env::var_os("CI").is_none(), "CI must not skip this");
            return None;
        }
        let disk = Self { directory: tempfile::tempdir().unwrap() };
        let image = disk.directory.path().join("image");
        File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        fs::create_dir(disk.path()).unwrap();
        // No blocks kept for root: full is full for everybody.
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(disk.path()));
        Some(disk)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    /// Takes every byte, as an agent that writes for ever would.
    fn fill(&self) {
        let filling = File::options().create(true).append(true).open(self.path().join("filling"));
        let mut filling = filling.unwrap();
        for chunk in [1 << 20, 4_096, 1] {
            while filling.write_all(&vec![1; chunk]).is_ok() {}
        }
        // What the file system allocates late is allocated now.
        let _full = filling.sync_all();
        let found = rustix::fs::statvfs(self.path()).unwrap();
        assert_eq!(found.f_bavail, 0, "not a block is left");
    }

    fn make_room(&self) {
        fs::remove_file(self.path().join("filling")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.path().display());
        }
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

async fn stored(store: &dyn Store) -> Vec<Record> {
    store.load().await.unwrap().records
}

fn assert_full(outcome: Result<(), StoreError>) {
    assert!(matches!(outcome, Err(StoreError::DiskFull)), "{outcome:?}");
}

/// Stop, observe and delete each of the store's records, with their events. Gives how many events
/// went with them.
async fn take_all_down(store: &dyn Store, directory: &SmallDisk) -> u64 {
    let mut events = 0;
    for mut sandbox in stored(store).await {
        sandbox.intent.want = Want::Stopped;
        let change = Change::PutRecord(Box::new(sandbox.clone()));
        let told = Change::AppendEvent(event(Some(&sandbox), "stopped"));
        store.commit(Priority::Reserve, vec![change, told]).await.expect("stop goes on");
        for look in 0..5 {
            sandbox.revision += 1;
            sandbox.observed = Observation::not_yet(Timestamp::from_millis(look));
            let change = Change::PutRecord(Box::new(sandbox.clone()));
            store.commit(Priority::Reserve, vec![change]).await.expect("observations go on");
        }
        // Whoever filled the disk goes on filling it.
        directory.fill();
        let bury = Change::BuryRecord {
            id: sandbox.id.clone(),
            revision: sandbox.revision + 1,
            tombstone: tombstone(&sandbox),
        };
        let told = Change::AppendEvent(event(Some(&sandbox), "deleted"));
        store.commit(Priority::Reserve, vec![bury, told]).await.expect("delete goes on");
        events += 2;
    }
    events
}

#[tokio::test]
async fn on_a_full_disk_delete_goes_on_and_create_says_so() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let path = disk.path().join("store.db");
    let store = SqliteStore::open(&path).await.unwrap();
    for number in 0..100 {
        store.commit(Priority::Normal, made(number)).await.unwrap();
    }
    disk.fill();
    assert_full(store.commit(Priority::Normal, made(1_000)).await);
    assert_eq!(stored(&store).await.len(), 100, "list goes on");
    let dropped = take_all_down(&store, &disk).await;
    assert_full(store.commit(Priority::Normal, made(1_000)).await);
    assert_eq!(store.load().await.unwrap().tombstones.len(), 100);

    disk.make_room();
    store.commit(Priority::Normal, made(1_000)).await.expect("there is room again");
    let events = store.events(Some(&record(1_000).id), 0, 10).await.unwrap();
    assert_eq!(events[0].dropped, dropped, "what was left out is counted");
    store.commit(Priority::Normal, made(1_001)).await.unwrap();
    let events = store.events(Some(&record(1_001).id), 0, 10).await.unwrap();
    assert_eq!(events[0].dropped, 0, "and told once");
    drop(store);
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(stored(&store).await.len(), 2);
}

#[tokio::test]
async fn a_gateway_starts_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let path = disk.path().join("store.db");
    super::store_with(&path, 50).await;
    disk.fill();
    let store = SqliteStore::open(&path).await.expect("it opens with no byte left");
    assert_full(store.commit(Priority::Normal, made(1_000)).await);
    take_all_down(&store, &disk).await;
    drop(store);
    let store = SqliteStore::open(&path).await.expect("and again");
    assert!(stored(&store).await.is_empty());
    disk.make_room();
    store.commit(Priority::Normal, made(1_000)).await.expect("there is room again");
}

#[tokio::test]
async fn a_killed_gateway_starts_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let path = disk.path().join("store.db");
    let store = SqliteStore::open(&path).await.unwrap();
    for number in 0..50 {
        store.commit(Priority::Normal, made(number)).await.unwrap();
    }
    disk.fill();
    // As a kill leaves it: the log not written back, nothing closed.
    let files: Vec<(PathBuf, Vec<u8>)> = ["store.db", "store.db-wal"]
        .map(|name| (disk.path().join(name), fs::read(disk.path().join(name)).unwrap()))
        .into();
    drop(store);
    for (path, bytes) in files {
        overwrite(&path, &bytes);
    }
    let store = SqliteStore::open(&path).await.expect("it opens with no byte left");
    assert_eq!(stored(&store).await.len(), 50);
    take_all_down(&store, &disk).await;
}

/// In place, since there is no room for another file.
fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

#[tokio::test]
async fn a_store_that_cannot_be_made_leaves_nothing_behind_that_counts() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let path = disk.path().join("store.db");
    disk.fill();
    let error = SqliteStore::open(&path).await.expect_err("there is no room for it");
    assert!(matches!(error, StoreError::DiskFull), "{error:?}");
    assert!(!path.exists());
    disk.make_room();
    SqliteStore::open(&path).await.expect("there is room again");
}

#[tokio::test]
async fn a_read_only_file_system_is_told() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let path = disk.path().join("store.db");
    super::store_with(&path, 3).await;
    run(Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path()));
    let error = SqliteStore::open(&path).await.expect_err("it cannot be written");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    run(Command::new("mount").args(["-o", "remount,rw"]).arg(disk.path()));
    let store = SqliteStore::open(&path).await.expect("it can be written again");
    assert_eq!(stored(&store).await.len(), 3);
}
