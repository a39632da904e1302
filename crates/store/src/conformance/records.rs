//! Records, workspaces, tombstones: compare-and-set, all or none, there after a reload.

use std::sync::Arc;

use sandkeep_core::{GatewayId, SandboxId, Timestamp, Want};
use tokio::task::JoinSet;

use super::{Place, commit, event, open, put, record, tombstone, workspace};
use crate::{Change, Contents, HomeDirectory, Meta, Priority, StoreError};

pub async fn a_new_store_is_empty(place: &dyn Place) {
    let store = open(place).await;
    assert_eq!(store.load().await.expect("load"), Contents::default());
    assert_eq!(store.events(None, 0, 10).await.expect("events"), []);
}

pub async fn what_was_committed_is_there_after_a_reload(place: &dyn Place) {
    let meta = Meta {
        gateway: GatewayId::from_random([7; 8]),
        machine: "machine".to_owned(),
        directory: Some(HomeDirectory { inode: 3, file_system: Some(4) }),
        hold: Some("because".to_owned()),
        hold_since: Timestamp::from_millis(7),
        disowned: vec!["x".to_owned()],
    };
    let (mut first, mut second, mut space) = (record(1), record(2), workspace(1));
    let before = {
        let store = open(place).await;
        let all = vec![
            put(&first),
            put(&second),
            Change::PutWorkspace(Box::new(space.clone())),
            Change::PutMeta(meta.clone()),
            Change::AppendEvent(event(Some(&first), "made")),
        ];
        commit(&*store, all).await;
        first.revision = 1;
        first.intent.want = Want::Stopped;
        commit(&*store, vec![put(&first)]).await;
        store.load().await.expect("load")
    };
    (first.revision, second.revision, space.revision) = (2, 1, 1);
    let mut records = vec![first, second];
    records.sort_by(|a, b| a.id.cmp(&b.id));
    let expected =
        Contents { records, workspaces: vec![space], tombstones: Vec::new(), meta: Some(meta) };
    assert_eq!(before, expected);
    let store = open(place).await;
    assert_eq!(store.load().await.expect("load again"), expected);
    assert_eq!(store.events(None, 0, 10).await.expect("events").len(), 1);
}

pub async fn a_put_needs_the_stored_revision(place: &dyn Place) {
    let store = open(place).await;
    let (mut sandbox, mut space) = (record(1), workspace(1));
    commit(&*store, vec![put(&sandbox), Change::PutWorkspace(Box::new(space.clone()))]).await;
    for wrong in [2, 3, u64::MAX] {
        (sandbox.revision, space.revision) = (wrong, wrong);
        assert_conflict(store.commit(Priority::Reserve, vec![put(&sandbox)]).await);
        let change = Change::PutWorkspace(Box::new(space.clone()));
        assert_conflict(store.commit(Priority::Reserve, vec![change]).await);
        let change = Change::BuryRecord {
            id: sandbox.id.clone(),
            revision: wrong,
            tombstone: tombstone(&sandbox),
        };
        assert_conflict(store.commit(Priority::Reserve, vec![change]).await);
        let change = Change::BuryWorkspace {
            id: space.id.clone(),
            revision: wrong,
            tombstone: tombstone(&sandbox),
        };
        assert_conflict(store.commit(Priority::Reserve, vec![change]).await);
    }
    let mut absent = record(3);
    absent.revision = 1;
    assert_conflict(store.commit(Priority::Normal, vec![put(&absent)]).await);
    sandbox.revision = 1;
    commit(&*store, vec![put(&sandbox)]).await;
    let contents = store.load().await.expect("load");
    assert_eq!((contents.records.len(), contents.records[0].revision), (1, 2));
    assert!(contents.tombstones.is_empty());
}

pub async fn an_insert_needs_a_free_id(place: &dyn Place) {
    let store = open(place).await;
    let mut sandbox = record(1);
    commit(&*store, vec![put(&sandbox)]).await;
    sandbox.intent.want = Want::Deleted;
    assert_conflict(store.commit(Priority::Normal, vec![put(&sandbox)]).await);
    let stored = store.load().await.expect("load").records.remove(0);
    assert_eq!(stored.intent.want, Want::Running);
}

pub async fn a_batch_holds_as_a_whole_or_not_at_all(place: &dyn Place) {
    let store = open(place).await;
    let sandbox = record(1);
    commit(&*store, vec![put(&sandbox)]).await;
    let before = store.load().await.expect("load");
    let meta = Meta {
        gateway: GatewayId::from_random([1; 8]),
        machine: String::new(),
        directory: None,
        hold: None,
        hold_since: Timestamp::EPOCH,
        disowned: Vec::new(),
    };
    let changes = vec![
        put(&record(2)),
        Change::PutWorkspace(Box::new(workspace(2))),
        Change::PutMeta(meta),
        Change::AppendEvent(event(None, "never to be seen")),
        put(&sandbox),
    ];
    assert_conflict(store.commit(Priority::Normal, changes).await);
    assert_eq!(store.load().await.expect("load"), before);
    assert_eq!(store.events(None, 0, 10).await.expect("events"), []);
}

pub async fn a_batch_may_change_one_record_twice(place: &dyn Place) {
    let store = open(place).await;
    let first = record(1);
    let mut second = first.clone();
    second.revision = 1;
    second.intent.want = Want::Stopped;
    commit(&*store, vec![put(&first), put(&second)]).await;
    let bury = |revision| Change::BuryRecord {
        id: first.id.clone(),
        revision,
        tombstone: tombstone(&first),
    };
    assert_conflict(store.commit(Priority::Normal, vec![bury(2), put(&first)]).await);
    let stored = store.load().await.expect("load").records.remove(0);
    assert_eq!((stored.revision, stored.intent.want), (2, Want::Stopped));
    let third = record(3);
    let gone =
        Change::BuryRecord { id: third.id.clone(), revision: 1, tombstone: tombstone(&third) };
    commit(&*store, vec![put(&third), gone]).await;
    assert_eq!(store.load().await.expect("load").tombstones.len(), 1);
}

pub async fn two_hundred_concurrent_commits_all_hold(place: &dyn Place) {
    let expected = {
        let store = open(place).await;
        let commits = (0..200).map(|number| {
            let store = Arc::clone(&store);
            async move {
                let sandbox = record(number);
                // Every fifth is refused, in the middle of groups that hold.
                let event = Change::AppendEvent(event(Some(&sandbox), "made"));
                commit(&*store, vec![put(&sandbox), event]).await;
                if number % 5 == 0 {
                    assert_conflict(store.commit(Priority::Normal, vec![put(&sandbox)]).await);
                }
            }
        });
        join_all(commits).await;
        store.load().await.expect("load")
    };
    assert_eq!(expected.records.len(), 200);
    let store = open(place).await;
    assert_eq!(store.load().await.expect("load again"), expected);
    assert_eq!(store.events(None, 0, 1_000).await.expect("events").len(), 200);
}

pub async fn of_two_writers_with_one_revision_one_wins(place: &dyn Place) {
    let store = open(place).await;
    let mut sandbox = record(1);
    commit(&*store, vec![put(&sandbox)]).await;
    sandbox.revision = 1;
    let tries = (0..50).map(|number| {
        let (store, mut mine) = (Arc::clone(&store), sandbox.clone());
        async move {
            mine.intent.by = format!("uid:{number}");
            let won = store.commit(Priority::Normal, vec![put(&mine)]).await.is_ok();
            won.then_some(mine.intent.by)
        }
    });
    let winners: Vec<String> = join_all(tries).await.into_iter().flatten().collect();
    let stored = store.load().await.expect("load").records.remove(0);
    assert_eq!(winners, [stored.intent.by]);
    assert_eq!(stored.revision, 2);
}

pub async fn a_commit_whose_caller_went_away_is_whole(place: &dyn Place) {
    let store = open(place).await;
    for number in 0..50 {
        let changes = vec![put(&record(number)), Change::PutWorkspace(Box::new(workspace(number)))];
        let task = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.commit(Priority::Normal, changes).await }
        });
        tokio::task::yield_now().await;
        task.abort();
        // Cancelled or finished: both are fine.
        let _ended = task.await;
    }
    let contents = store.load().await.expect("load");
    let mut held: Vec<_> = contents.workspaces.iter().filter_map(|w| w.holder.clone()).collect();
    held.sort();
    let records: Vec<_> = contents.records.iter().map(|record| record.id.clone()).collect();
    assert_eq!(records, held);
}

pub async fn a_buried_record_leaves_a_tombstone_and_never_comes_back(place: &dyn Place) {
    let (sandbox, space) = (record(1), workspace(2));
    let mut grave = tombstone(&sandbox);
    let mut space_grave = tombstone(&sandbox);
    space_grave.id = space.id.to_string();
    {
        let store = open(place).await;
        commit(&*store, vec![put(&sandbox), Change::PutWorkspace(Box::new(space.clone()))]).await;
        let bury = vec![
            Change::BuryRecord { id: sandbox.id.clone(), revision: 1, tombstone: grave.clone() },
            Change::BuryWorkspace {
                id: space.id.clone(),
                revision: 1,
                tombstone: space_grave.clone(),
            },
        ];
        commit(&*store, bury).await;
    }
    let store = open(place).await;
    let contents = store.load().await.expect("load");
    assert!(contents.records.is_empty() && contents.workspaces.is_empty());
    let mut graves = vec![grave.clone(), space_grave];
    graves.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(contents.tombstones, graves);
    grave.generation += 1;
    for revision in [0, 1, 2] {
        let mut again = sandbox.clone();
        again.revision = revision;
        assert_conflict(store.commit(Priority::Normal, vec![put(&again)]).await);
        let mut again = space.clone();
        again.revision = revision;
        let change = Change::PutWorkspace(Box::new(again));
        assert_conflict(store.commit(Priority::Normal, vec![change]).await);
    }
    assert_eq!(store.load().await.expect("load"), contents);
}

pub async fn a_tombstone_can_be_dropped(place: &dyn Place) {
    let store = open(place).await;
    let sandbox = record(1);
    commit(&*store, vec![put(&sandbox)]).await;
    let bury =
        Change::BuryRecord { id: sandbox.id.clone(), revision: 1, tombstone: tombstone(&sandbox) };
    commit(&*store, vec![bury]).await;
    for _twice in 0..2 {
        commit(&*store, vec![Change::DropTombstone { id: sandbox.id.to_string() }]).await;
        assert_eq!(store.load().await.expect("load"), Contents::default());
    }
}

pub async fn odd_text_comes_back_as_it_was(place: &dyn Place) {
    let odd = "\u{0}\u{1b}[31m'; DROP TABLE record; -- \u{1f980} \" \\ \u{2028}\n\r\t%s NULL";
    let mut sandbox = record(1);
    sandbox.intent.spec.command = vec![odd.to_owned(), String::new(), "x".repeat(1 << 20)];
    sandbox.intent.spec.env.insert(odd.to_owned(), odd.to_owned());
    {
        let store = open(place).await;
        let event = event(Some(&sandbox), odd);
        commit(&*store, vec![put(&sandbox), Change::AppendEvent(event)]).await;
    }
    let store = open(place).await;
    sandbox.revision = 1;
    assert_eq!(store.load().await.expect("load").records, [sandbox]);
    assert_eq!(store.events(None, 0, 1).await.expect("events")[0].message, odd);
}

pub async fn a_thousand_records_come_back_sorted(place: &dyn Place) {
    let mut ids: Vec<SandboxId> = (0..1_000).map(|number| record(number).id).collect();
    {
        let store = open(place).await;
        for chunk in 0..10 {
            let changes = (chunk * 100..chunk * 100 + 100).map(|number| put(&record(number)));
            commit(&*store, changes.collect()).await;
        }
    }
    ids.sort();
    let store = open(place).await;
    let found = store.load().await.expect("load").records;
    assert_eq!(found.into_iter().map(|record| record.id).collect::<Vec<_>>(), ids);
}

fn assert_conflict(outcome: Result<(), StoreError>) {
    assert!(matches!(outcome, Err(StoreError::Conflict { .. })), "{outcome:?}");
}

/// Runs futures side by side.
async fn join_all<F>(futures: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    futures.collect::<JoinSet<_>>().join_all().await
}
