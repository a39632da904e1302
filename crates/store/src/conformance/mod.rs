//! What every store must do, as plain functions; [`store_conformance!`](crate::store_conformance)
//! makes a test of each. A store passes all of them or is not one.
//!
//! What only a store on a disk can be asked (crashes, damage, locks, a full disk) is tested beside
//! that store.

mod records;
mod samples;
mod timeline;

pub use records::*;
pub use samples::{event, record, tombstone, workspace};
pub use timeline::*;

use std::sync::Arc;

use async_trait::async_trait;
use sandkeep_core::Record;

use crate::{Change, EventBounds, Priority, Store};

/// Where a store lies: opened again, it has what was committed. Empty at first.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the store; whoever had it open before has dropped it.
    async fn open(&self, bounds: EventBounds) -> Arc<dyn Store>;
}

/// Makes one test of each function of the suite. `$place` is an expression for a fresh, empty
/// [`Place`].
#[macro_export]
macro_rules! store_conformance {
    ($place:expr) => {
        $crate::store_conformance!(@each $place;
            a_new_store_is_empty
            what_was_committed_is_there_after_a_reload
            a_put_needs_the_stored_revision
            an_insert_needs_a_free_id
            a_batch_holds_as_a_whole_or_not_at_all
            a_batch_may_change_one_record_twice
            two_hundred_concurrent_commits_all_hold
            of_two_writers_with_one_revision_one_wins
            a_commit_whose_caller_went_away_is_whole
            a_buried_record_leaves_a_tombstone_and_never_comes_back
            a_tombstone_can_be_dropped
            events_come_in_order_and_in_pages
            events_of_one_sandbox_stand_alone
            event_sequences_rise_over_a_reload
            the_timeline_of_one_sandbox_is_bounded
            the_whole_timeline_is_bounded
            odd_text_comes_back_as_it_was
            a_thousand_records_come_back_sorted
        );
    };
    (@each $place:expr; $($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let place = $place;
                $crate::conformance::$name(&place).await;
            }
        )*
    };
}

fn put(record: &Record) -> Change {
    Change::PutRecord(Box::new(record.clone()))
}

async fn open(place: &dyn Place) -> Arc<dyn Store> {
    place.open(EventBounds::default()).await
}

async fn commit(store: &dyn Store, changes: Vec<Change>) {
    store.commit(Priority::Normal, changes).await.expect("the commit holds");
}
