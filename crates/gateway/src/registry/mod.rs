//! All records in memory, and the only way to change them: through the store.
//!
//! Questions are answered from here and never from an engine. Two kinds of change:
//! *durable* ones go through [`write`] and show in memory only after the store has them; *staged*
//! ones (what was observed) show at once and become durable with the next durable change or at the
//! end of the reconciler's pass: losing them costs another look, nothing else. Lines of the timeline
//! that nothing else carries are written together a moment later ([`timeline`]).

mod burial;
mod commit;
mod entry;
mod facts;

mod load;
mod lookup;
mod timeline;
mod uncertain;
mod workspace_write;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandkeep_core::{Name, SandboxId, Workspace, WorkspaceId};
use sandkeep_store::{Meta, Store, Tombstone};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use entry::{EngineIs, Entry, Standing};
pub(crate) use write::{Changed, Draft};

use crate::clock::Clock;
use crate::metrics::Metrics;

/// Everything the gateway knows durably, in memory.
#[derive(Debug)]
pub(crate) struct Registry {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    inner: Mutex<Inner>,
    /// Rises when the timeline has grown; followers then read on from the store.
    timeline: watch::Sender<u64>,
    /// A line of the timeline was staged.
    event_staged: Notify,
    /// One writer of workspaces at a time: a workspace may be written with either of two sandboxes.
    writing_workspace: Arc<tokio::sync::Mutex<()>>,
    /// One creation at a time from the check of its names to the write.
    creating: tokio::sync::Mutex<()>,
    /// A write's outcome is not known: memory may differ from the store.
    stale: AtomicBool,
    /// Writers share it; bringing memory in line with the store is done alone.
    gate: tokio::sync::RwLock<()>,
    /// The gateway is gone: no write that was begun goes on.
    gone: CancellationToken,
}

/// The indexes. Held for moments only, never over an await.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) entries: BTreeMap<SandboxId, Entry>,
    /// All sandboxes of each name: at most one that is not being deleted.
    pub(crate) bearers: BTreeMap<Name, Vec<SandboxId>>,
    pub(crate) workspaces: BTreeMap<WorkspaceId, Arc<Workspace>>,
    /// The sandboxes whose spec names each workspace, so that a list of 10,000 need not look at
    /// every pair. The workspace of a sandbox never changes.
    pub(crate) users: BTreeMap<WorkspaceId, BTreeSet<SandboxId>>,
    /// Workspaces with staged facts that are not durable yet.
    pub(crate) dirty_workspaces: BTreeSet<WorkspaceId>,
    pub(crate) workspace_names: BTreeMap<Name, WorkspaceId>,
    pub(crate) tombstones: BTreeMap<String, Tombstone>,
    /// By driver: workspaces that a backing without a record uses, and which. It was disowned, or
    /// nobody has said yet whose it is; either way the workspace is not ours to pass on.
    pub(crate) left_alone: BTreeMap<String, BTreeMap<WorkspaceId, SandboxId>>,
    pub(crate) meta: Meta,
}

impl Inner {
    /// The backing without a record that uses this workspace.
    pub(crate) fn left_alone_on(&self, id: &WorkspaceId) -> Option<&SandboxId> {
        self.left_alone.values().find_map(|used| used.get(id))
    }
}

impl Registry {
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the timeline from now on.
    pub(crate) fn follow_timeline(&self) -> watch::Receiver<u64> {
        self.timeline.subscribe()
    }

    /// The store, for the timeline's past.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Ids of all sandboxes.
    pub(crate) fn ids(&self) -> Vec<SandboxId> {
        self.inner().entries.keys().cloned().collect()
    }

    /// Ids of all sandboxes by creation time, oldest first.
    pub(crate) fn ids_by_age(&self) -> Vec<SandboxId> {
        let inner = self.inner();
        let mut records: Vec<_> = inner.entries.values().map(|entry| &entry.record).collect();
        // Stable: those of one moment stay in the order of their ids.
        records.sort_by_key(|record| record.created_at);
        records.into_iter().map(|record| record.id.clone()).collect()
    }

    /// Ids of the sandboxes of one driver.
    pub(crate) fn ids_of(&self, driver: &str) -> Vec<SandboxId> {
        let inner = self.inner();
        let of_driver = inner.entries.values().filter(|entry| entry.record.driver == driver);
        of_driver.map(|entry| entry.record.id.clone()).collect()
    }

    /// Workspaces that a user asked to discard.
    pub(crate) fn workspaces_to_discard(&self) -> Vec<WorkspaceId> {
        let inner = self.inner();
        let discarded = inner.workspaces.values().filter(|workspace| workspace.discard);
        discarded.map(|workspace| workspace.id.clone()).collect()
    }

    /// The gateway's own facts.
    pub(crate) fn meta(&self) -> Meta {
        self.inner().meta.clone()
    }
}
