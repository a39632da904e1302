//! What only a store on a disk can be asked: crashes, damage, locks, other versions, a full disk.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod crash;
mod full_disk;
mod refusals;
mod rows;
mod versions;

use std::path::Path;

use sandkeep_core::Record;
use sandkeep_store::conformance::{event, record};
use sandkeep_store::{Change, Priority, SqliteStore, Store};

/// A record and its event.
fn made(number: u64) -> Vec<Change> {
    let sandbox = record(number);
    let event = Change::AppendEvent(event(Some(&sandbox), "made"));
    vec![Change::PutRecord(Box::new(sandbox)), event]
}

/// A store at `path` with `count` records, closed again.
async fn store_with(path: &Path, count: u64) -> Vec<Record> {
    let store = SqliteStore::open(path).await.expect("a new store");
    for number in 0..count {
        store.commit(Priority::Normal, made(number)).await.expect("room");
    }
    store.load().await.expect("load").records
}
