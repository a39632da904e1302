//! The reconciler: queue, observe, execute, report.
//!
//! ```text
//!  verbs, driver hints, timers, sessions, the periodic list
//!        │ wake(key)
//!        ▼
//!   [queue] ──▶ pass: [observe] ─▶ decide (core) ─▶ [report] attempt ─▶ [execute] ─▶ [report]
//!                  ▲                     │ nothing to do                      │
//!                  └──────── look again ─┼────────────────────────────────────┘
//!                                        ▼
//!                                 flush, next wake-up
//! ```
//! At most one pass per sandbox at a time. The start of the gateway is no special path: every key
//! is put in the queue, and that is all.

pub(crate) mod compare;
pub(crate) mod discard_tries;
mod execute;
mod observe;
mod pass;
pub mod queue;
mod report;
mod startup;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sandkeep_driver::WatchEvent;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::drivers::Slot;
use crate::shared::Shared;
use queue::Key;

pub(crate) use startup::Summary;

/// Passes under way at once. A pass mostly waits for its driver, whose own bounds are narrower.
const PASSES_AT_ONCE: usize = 128;

/// How often everything is listed and compared, in case a hint was lost.
const RESYNC_EVERY: Duration = Duration::from_secs(60);

/// Runs until the queue is closed; then waits for the passes under way.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut watchers = JoinSet::new();
    for slot in shared.drivers.all() {
        watchers.spawn(follow_hints(Arc::clone(&shared), Arc::clone(slot)));
        watchers.spawn(resync(Arc::clone(&shared), Arc::clone(slot)));
    }
    watchers.spawn(Arc::clone(&shared.registry).keep_timeline());
    let summary = Arc::new(Summary::begin(&shared));
    shared.wake_all();
    for id in shared.registry.workspaces_to_discard() {
        shared.queue.wake(Key::Workspace(id));
    }
    let permits = Arc::new(Semaphore::new(PASSES_AT_ONCE));
    let mut passes = JoinSet::new();
    while let Some(key) = shared.queue.take().await {
        while passes.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
        let span = tracing::info_span!("pass", key = %key);
        let pass = one_pass(Arc::clone(&shared), Arc::clone(&summary), key);
        passes.spawn(
            async move {
                pass.await;
                drop(permit);
            }
            .instrument(span),
        );
    }
    watchers.shutdown().await;
    while passes.join_next().await.is_some() {}
    if let Err(error) = shared.registry.flush_timeline().await {
        tracing::warn!(%error, "the newest lines of the timeline are not stored");
    }
}

async fn one_pass(shared: Arc<Shared>, summary: Arc<Summary>, key: Key) {
    shared.metrics.reconcile_passes.increment();
    match &key {
        Key::Sandbox(id) => pass::sandbox(&shared, &summary, id).await,
        Key::Workspace(id) => pass::workspace(&shared, id).await,
    }
    shared.queue.done(&key);
    shared.metrics.queue_depth.set(shared.queue.depth() as u64);
}

async fn follow_hints(shared: Arc<Shared>, slot: Arc<Slot>) {
    let mut hints = slot.driver.watch();
    while let Some(hint) = hints.next().await {
        match hint {
            WatchEvent::Look(id) => shared.wake(&id),
            WatchEvent::Resync => wake_all_of(&shared, slot.driver.name()),
        }
    }
}

fn wake_all_of(shared: &Shared, driver: &str) {
    for id in shared.registry.ids_of(driver) {
        shared.wake(&id);
    }
}

/// Lists and compares for ever, from the start on: what a backend has and no record knows is found
/// here, also on a driver that no record names.
async fn resync(shared: Arc<Shared>, slot: Arc<Slot>) {
    loop {
        let compared = if slot.compared() {
            compare::compare(&shared, &slot).await
        } else {
            compare::compare_once(&shared, &slot).await
        };
        if let Err(error) = compared {
            tracing::warn!(driver = slot.driver.name(), %error, "the periodic list failed");
            wake_all_of(&shared, slot.driver.name());
        }
        tokio::time::sleep(RESYNC_EVERY).await;
    }
}
