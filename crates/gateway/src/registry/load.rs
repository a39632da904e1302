//! Reads the store into memory, once, at the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use sandkeep_core::{Name, Record, SandboxId, Want};
use sandkeep_store::{Contents, Meta, Store, StoreError};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::entry::{Entry, Standing};
use super::{Inner, Registry};
use crate::clock::Clock;
use crate::metrics::Metrics;

impl Registry {
    /// Everything in the store. `meta` are the gateway's own facts when the store has none yet.
    pub(crate) async fn load(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        meta: Meta,
        gone: CancellationToken,
    ) -> Result<Self, StoreError> {
        let contents = store.load().await?;
        Ok(Self {
            store,
            clock,
            metrics,
            inner: Mutex::new(Inner::of(contents, meta)),
            timeline: watch::Sender::new(0),
            event_staged: Notify::new(),
            writing_workspace: Arc::default(),
            creating: tokio::sync::Mutex::default(),
            stale: AtomicBool::default(),
            gate: tokio::sync::RwLock::default(),
            gone,
        })
    }
}

impl Inner {
    fn of(contents: Contents, meta: Meta) -> Self {
        let mut inner = Self {
            entries: BTreeMap::new(),
            bearers: BTreeMap::new(),
            workspaces: BTreeMap::new(),
            users: BTreeMap::new(),
            dirty_workspaces: BTreeSet::new(),
            workspace_names: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            left_alone: BTreeMap::new(),
            meta: contents.meta.unwrap_or(meta),
        };
        for workspace in contents.workspaces {
            inner.workspace_names.insert(workspace.name.clone(), workspace.id.clone());
            inner.workspaces.insert(workspace.id.clone(), Arc::new(workspace));
        }
        for tombstone in contents.tombstones {
            inner.tombstones.insert(tombstone.id.clone(), tombstone);
        }
        for record in contents.records {
            inner.add(Arc::new(record), Standing::Loaded);
        }
        inner
    }

    /// One more sandbox.
    pub(crate) fn add(&mut self, record: Arc<Record>, standing: Standing) {
        let bearers = self.bearers.entry(record.name.clone()).or_default();
        if !bearers.contains(&record.id) {
            bearers.push(record.id.clone());
        }
        let workspace = record.intent.spec.workspace.clone();
        self.users.entry(workspace).or_default().insert(record.id.clone());
        self.entries.insert(record.id.clone(), Entry::new(record, standing));
    }

    /// One less; its watchers are told.
    pub(crate) fn remove(&mut self, id: &SandboxId) {
        let Some(entry) = self.entries.remove(id) else { return };
        let workspace = &entry.record.intent.spec.workspace;
        if let Some(users) = self.users.get_mut(workspace) {
            users.remove(id);
            if users.is_empty() {
                self.users.remove(workspace);
            }
        }
        if let Some(bearers) = self.bearers.get_mut(&entry.record.name) {
            bearers.retain(|bearer| bearer != id);
            if bearers.is_empty() {
                self.bearers.remove(&entry.record.name);
            }
        }
        entry.touch();
    }

    /// The sandbox that a name means: the one not being deleted, else the youngest.
    pub(crate) fn newest(&self, name: &Name) -> Option<&Entry> {
        let bearers = self.bearers.get(name)?.iter().filter_map(|id| self.entries.get(id));
        bearers.max_by_key(|entry| {
            let record = &entry.record;
            (record.intent.want != Want::Deleted, record.created_at, record.id.clone())
        })
    }
}
