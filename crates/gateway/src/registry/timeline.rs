//! Lines of the timeline that no durable change has carried: written together, a moment later.
//!
//! Nothing depends on them, so a crash may take those of the last moment with it. Whoever reads or
//! follows the timeline finds them all.

use std::sync::Arc;
use std::time::Duration;

use sandkeep_core::SandboxId;
use sandkeep_store::{Change, Event, Priority, StoreError};
use tokio::sync::OwnedMutexGuard;

use super::Registry;
use super::write::run_whole;

/// How long a line may wait for company while nobody follows the timeline.
const TOGETHER_WITHIN: Duration = Duration::from_secs(1);

/// How soon lines are tried again that could not be stored.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// One sandbox's lines, with the right to write for it.
type Taken = (SandboxId, OwnedMutexGuard<()>, Vec<Event>);

impl Registry {
    /// Writes what is staged for the timeline, for ever.
    pub(crate) async fn keep_timeline(self: Arc<Self>) {
        loop {
            self.event_staged.notified().await;
            if self.timeline.receiver_count() == 0 {
                tokio::time::sleep(TOGETHER_WITHIN).await;
            }
            if self.flush_timeline().await.is_err() {
                tokio::time::sleep(AGAIN_AFTER).await;
                self.event_staged.notify_one();
            }
        }
    }

    /// Makes staged lines of the timeline durable, those of all sandboxes in one commit.
    pub(crate) async fn flush_timeline(self: &Arc<Self>) -> Result<(), StoreError> {
        let (registry, gone) = (Arc::clone(self), self.gone.clone());
        run_whole(gone, async move {
            let taken = registry.take_events().await;
            let events = taken.iter().flat_map(|(_, _, events)| events.iter().cloned());
            let changes: Vec<Change> = events.map(Change::AppendEvent).collect();
            if changes.is_empty() {
                return Ok(());
            }
            let stored = registry.commit(Priority::Reserve, changes).await;
            if stored.is_err() {
                for (id, _writing, events) in taken {
                    registry.put_events_back(&id, events);
                }
            }
            stored
        })
        .await
    }

    /// The staged lines of every sandbox, once nobody else writes for it. Locks are taken in the
    /// order of ids, and nobody else waits for a second one.
    async fn take_events(&self) -> Vec<Taken> {
        let staged: Vec<SandboxId> = {
            let inner = self.inner();
            let talking = inner.entries.values().filter(|entry| !entry.pending_events.is_empty());
            talking.map(|entry| entry.record.id.clone()).collect()
        };
        let mut taken = Vec::with_capacity(staged.len());
        for id in staged {
            let Some(writing) = self.lock_of(&id) else { continue };
            let writing = writing.lock_owned().await;
            if let Some((_, events)) = self.begin(&id) {
                taken.push((id, writing, events));
            }
        }
        taken
    }
}
