//! The store in memory under the suite of all stores, and what simulation needs of it besides.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandkeep_store::conformance::{self, Place, event, record};
use sandkeep_store::memory::CommitFate;
use sandkeep_store::{Change, EventBounds, MemoryStore, Priority, Store, StoreError};

/// Contents that outlive each opening.
#[derive(Default)]
struct InMemory(std::sync::OnceLock<MemoryStore>);

#[async_trait]
impl Place for InMemory {
    async fn open(&self, bounds: EventBounds) -> Arc<dyn Store> {
        Arc::new(self.0.get_or_init(|| MemoryStore::with_bounds(bounds)).clone())
    }
}

sandkeep_store::store_conformance!(InMemory::default());

fn put(number: u64) -> Vec<Change> {
    let sandbox = record(number);
    let event = Change::AppendEvent(event(Some(&sandbox), "made"));
    vec![Change::PutRecord(Box::new(sandbox)), event]
}

#[tokio::test]
async fn it_goes_back_in_time() {
    let store = MemoryStore::new();
    store.commit(Priority::Normal, put(1)).await.unwrap();
    let yesterday = store.snapshot();
    let copy = store.copied();
    store.commit(Priority::Normal, put(2)).await.unwrap();
    assert_eq!(store.contents().records.len(), 2);
    store.restore(&yesterday);
    assert_eq!(store.contents().records.len(), 1);
    assert_eq!(store.events(None, 0, 10).await.unwrap().len(), 1);
    copy.commit(Priority::Normal, put(3)).await.unwrap();
    assert_eq!(store.contents().records.len(), 1, "a copied home has a disk of its own");
}

#[tokio::test]
async fn a_full_disk_takes_what_is_urgent_and_counts_dropped_events() {
    let store = MemoryStore::new();
    store.set_full(true);
    let refused = store.commit(Priority::Normal, put(1)).await;
    assert!(matches!(refused, Err(StoreError::DiskFull)));
    store.commit(Priority::Reserve, put(1)).await.unwrap();
    assert_eq!(store.contents().records.len(), 1);
    assert!(store.events(None, 0, 10).await.unwrap().is_empty());
    store.set_full(false);
    store.commit(Priority::Normal, put(2)).await.unwrap();
    let events = store.events(None, 0, 10).await.unwrap();
    assert_eq!((events.len(), events[0].dropped), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_can_be_failed_or_left_hanging_before_or_after() {
    let store = MemoryStore::new();
    let lost = || StoreError::Unavailable { message: "lost".to_owned() };
    store.fail_next(lost());
    store.fate_next(CommitFate::FailAfter(lost()));
    store.fate_next(CommitFate::HangBefore);
    store.fate_next(CommitFate::HangAfter);
    assert!(store.commit(Priority::Normal, put(1)).await.is_err());
    assert_eq!(store.contents().records.len(), 0);
    assert!(store.commit(Priority::Normal, put(1)).await.is_err());
    assert_eq!(store.contents().records.len(), 1);
    for (number, expected) in [(2, 1), (2, 2)] {
        let commit = store.commit(Priority::Normal, put(number));
        assert!(tokio::time::timeout(Duration::from_secs(3_600), commit).await.is_err());
        assert_eq!(store.contents().records.len(), expected);
    }
    assert_eq!(store.commits(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_commit_takes_as_long_as_it_is_told() {
    let store = MemoryStore::new();
    store.set_delay(Duration::from_secs(5));
    let began = tokio::time::Instant::now();
    store.commit(Priority::Normal, put(1)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_hook_sees_every_commit_and_decides_its_fate() {
    let store = MemoryStore::new();
    store.set_hook(Some(Box::new(|_priority, changes| match changes.len() {
        1 => CommitFate::FailBefore(StoreError::DiskFull),
        _ => CommitFate::Proceed,
    })));
    store.commit(Priority::Normal, put(1)).await.unwrap();
    let one = vec![Change::PutRecord(Box::new(conformance::record(2)))];
    assert!(store.commit(Priority::Normal, one).await.is_err());
}
