//! Streams for clients: one sandbox as it changes, and the timeline as it grows.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use sandkeep_core::{Record, SandboxId, View};
use sandkeep_store::Event;
use tokio::sync::watch;

use crate::gateway::Snapshot;
use crate::refusal::Refusal;
use crate::shared::Shared;

/// Events read from the store in one go.
const EVENTS_AT_ONCE: usize = 256;

/// The sandbox now, then after each change; `None` and the end once it is gone.
pub(crate) fn watch(
    shared: &Arc<Shared>,
    name: &str,
) -> Result<BoxStream<'static, Option<Snapshot>>, Refusal> {
    let id = shared.registry.resolve(name)?;
    let version = shared.registry.watch_version(&id);
    let state = Watching { shared: Arc::clone(shared), id, version, first: true, shown: None };
    Ok(stream::unfold(Some(state), next_snapshot).boxed())
}

struct Watching {
    shared: Arc<Shared>,
    id: SandboxId,
    /// `None`: it was gone before the watch began.
    version: Option<watch::Receiver<u64>>,
    first: bool,
    /// What was shown last.
    shown: Option<(Arc<Record>, View)>,
}

async fn next_snapshot(state: Option<Watching>) -> Option<(Option<Snapshot>, Option<Watching>)> {
    let mut state = state?;
    loop {
        if !std::mem::take(&mut state.first) {
            let version = state.version.as_mut()?;
            // An error means that the entry is gone: the snapshot will tell.
            let _gone = version.changed().await;
        }
        let Some(snapshot) = state.shared.snapshot(&state.id) else { return Some((None, None)) };
        let shows = (Arc::clone(&snapshot.record), snapshot.view.clone());
        if state.shown.as_ref() != Some(&shows) {
            state.shown = Some(shows);
            return Some((Some(snapshot), Some(state)));
        }
    }
}

/// The timeline, oldest first; with `follow` it goes on.
pub(crate) fn events(
    shared: &Arc<Shared>,
    name: Option<&str>,
    follow: bool,
) -> Result<BoxStream<'static, Result<Event, Refusal>>, Refusal> {
    let sandbox = match name {
        None => None,
        Some(name) => Some(timeline_of(shared, name)?),
    };
    let state = Reading {
        grown: shared.registry.follow_timeline(),
        shared: Arc::clone(shared),
        sandbox,
        after: 0,
        follow,
        first: true,
    };
    let batches = stream::unfold(Some(state), next_events);
    Ok(batches.flat_map(stream::iter).boxed())
}

/// By name or id; the timeline of one that is gone is found by its id.
fn timeline_of(shared: &Shared, name: &str) -> Result<SandboxId, Refusal> {
    shared.registry.resolve(name).or_else(|refusal| {
        let id = name.parse::<SandboxId>().ok();
        id.filter(|id| shared.registry.inner().tombstones.contains_key(id.as_str())).ok_or(refusal)
    })
}

struct Reading {
    shared: Arc<Shared>,
    sandbox: Option<SandboxId>,
    grown: watch::Receiver<u64>,
    after: u64,
    follow: bool,
    first: bool,
}

type Batch = Vec<Result<Event, Refusal>>;

async fn next_events(state: Option<Reading>) -> Option<(Batch, Option<Reading>)> {
    let mut state = state?;
    if std::mem::take(&mut state.first) && state.shared.registry.flush_timeline().await.is_err() {
        // The newest lines stay staged, and are told once they are stored.
        tracing::debug!("the newest lines of the timeline could not be stored");
    }
    loop {
        state.grown.mark_unchanged();
        let store = state.shared.registry.store();
        let read = store.events(state.sandbox.as_ref(), state.after, EVENTS_AT_ONCE).await;
        let events = match read {
            Ok(events) => events,
            Err(error) => {
                let refusal = Refusal::of_store("the timeline could not be read", &error);
                return Some((vec![Err(refusal)], None));
            }
        };
        if let Some(last) = events.last() {
            state.after = last.sequence;
            return Some((events.into_iter().map(Ok).collect(), Some(state)));
        }
        if !state.follow || state.grown.changed().await.is_err() {
            return None;
        }
    }
}
