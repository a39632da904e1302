//! Durable changes: one at a time for each sandbox, shown in memory only after the store has them.
//!
//! A change runs in a task of its own, so a caller that is cancelled half-way leaves neither a
//! torn memory nor an unknown revision: the change holds as a whole or not at all.

use std::sync::Arc;

use sandkeep_core::{Record, SandboxId, Workspace};
use sandkeep_store::{Change, Event, Meta, Priority, StoreError};
use tokio_util::sync::CancellationToken;

use super::Registry;
use super::entry::{EngineIs, Standing};

/// Events kept for a sandbox while they cannot be stored; older ones go first.
const PENDING_EVENTS_MAX: usize = 64;

/// A change being made: edit the record, add events.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The record to be stored.
    pub(crate) record: Record,
    /// Workspaces to be stored with it.
    pub(crate) workspaces: Vec<Workspace>,
    /// Lines of the timeline: reason, message.
    pub(crate) events: Vec<(&'static str, String)>,
}

/// What became of a change.
#[derive(Debug, Clone)]
pub(crate) enum Changed {
    /// It is durable.
    Stored,
    /// The editor had nothing to change.
    Nothing,
    /// The sandbox is gone.
    Gone,
}

impl Registry {
    /// Edits one record durably. The editor sees the newest record, under the record's own lock,
    /// and answers whether there is anything to change; staged observations go along either way it
    /// is stored.
    pub(crate) async fn change(
        self: &Arc<Self>,
        id: &SandboxId,
        priority: Priority,
        edit: impl FnOnce(&mut Draft) -> bool + Send + 'static,
    ) -> Result<Changed, StoreError> {
        let (registry, gone) = (Arc::clone(self), self.gone.clone());
        let id = id.clone();
        run_whole(gone, async move {
            let Some(writing) = registry.lock_of(&id) else { return Ok(Changed::Gone) };
            let _one_at_a_time = writing.lock().await;
            let Some((base, pending)) = registry.begin(&id) else { return Ok(Changed::Gone) };
            let mut draft =
                Draft { record: (*base).clone(), workspaces: Vec::new(), events: Vec::new() };
            if !edit(&mut draft) {
                registry.put_events_back(&id, pending);
                return Ok(Changed::Nothing);
            }
            registry.store_draft(&base, draft, pending, priority).await
        })
        .await
    }

    /// Makes the facts that are staged for this sandbox durable; nothing when none is. Lines of the
    /// timeline go along, and follow a moment later when they are alone.
    pub(crate) async fn flush(self: &Arc<Self>, id: &SandboxId) -> Result<(), StoreError> {
        if !self.has_staged(id) {
            return Ok(());
        }
        self.change(id, Priority::Reserve, |_| true).await.map(|_| ())
    }

    /// The engine on record is durable when this returns.
    pub(crate) async fn flush_engine(self: &Arc<Self>, id: &SandboxId) -> Result<(), StoreError> {
        let staged = self.inner().entries.get(id).is_some_and(|entry| entry.engine_staged);
        if staged { self.flush(id).await } else { Ok(()) }
    }

    fn has_staged(&self, id: &SandboxId) -> bool {
        let inner = self.inner();
        inner.entries.get(id).is_some_and(|entry| {
            let workspace = &entry.record.intent.spec.workspace;
            entry.dirty || inner.dirty_workspaces.contains(workspace)
        })
    }

    pub(super) fn lock_of(&self, id: &SandboxId) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.inner().entries.get(id).map(|entry| Arc::clone(&entry.writing))
    }

    pub(super) fn begin(&self, id: &SandboxId) -> Option<(Arc<Record>, Vec<Event>)> {
        let mut inner = self.inner();
        let entry = inner.entries.get_mut(id)?;
        Some((Arc::clone(&entry.record), std::mem::take(&mut entry.pending_events)))
    }

    pub(super) fn put_events_back(&self, id: &SandboxId, mut events: Vec<Event>) {
        if let Some(entry) = self.inner().entries.get_mut(id) {
            events.append(&mut entry.pending_events);
            if !events.is_empty() {
                self.event_staged.notify_one();
            }
            let excess = events.len().saturating_sub(PENDING_EVENTS_MAX);
            self.metrics.events_dropped.add(excess as u64);
            entry.pending_events = events.split_off(excess);
        }
    }

    async fn store_draft(
        self: &Arc<Self>,
        base: &Arc<Record>,
        draft: Draft,
        pending: Vec<Event>,
        priority: Priority,
    ) -> Result<Changed, StoreError> {
        let _one_workspace_writer = Arc::clone(&self.writing_workspace).lock_owned().await;
        let mut workspaces = draft.workspaces;
        self.add_staged_workspace(&draft.record, &mut workspaces);
        let mut changes: Vec<Change> = vec![Change::PutRecord(Box::new(draft.record.clone()))];
        changes.extend(workspaces.iter().map(|w| Change::PutWorkspace(Box::new(w.clone()))));
        changes.extend(pending.iter().cloned().map(Change::AppendEvent));
        let events = self.events_of(&draft.record, &draft.events);
        changes.extend(events.into_iter().map(Change::AppendEvent));
        if let Err(error) = self.commit(priority, changes).await {
            self.put_events_back(&base.id, pending);
            return Err(error);
        }
        for mut workspace in workspaces {
            workspace.revision += 1;
            self.apply_workspace(workspace);
        }
        Ok(self.apply_record(base, draft.record))
    }

    fn add_staged_workspace(&self, record: &Record, workspaces: &mut Vec<Workspace>) {
        let id = &record.intent.spec.workspace;
        if workspaces.iter().any(|workspace| workspace.id == *id) {
            return;
        }
        let inner = self.inner();
        if inner.dirty_workspaces.contains(id) {
            workspaces.extend(inner.workspaces.get(id).map(|workspace| (**workspace).clone()));
        }
    }

    pub(super) fn event(&self, record: &Record, reason: &str, message: &str) -> Event {
        Event {
            sequence: 0,
            at: self.clock.now(),
            sandbox: Some(record.id.clone()),
            name: record.name.to_string(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            dropped: 0,
        }
    }

    fn events_of(&self, record: &Record, events: &[(&'static str, String)]) -> Vec<Event> {
        events.iter().map(|(reason, message)| self.event(record, reason, message)).collect()
    }

    /// The stored record takes its place in memory; an observation that was staged meanwhile stays
    /// on top.
    fn apply_record(&self, base: &Arc<Record>, mut stored: Record) -> Changed {
        stored.revision += 1;
        let mut inner = self.inner();
        let Some(entry) = inner.entries.get_mut(&base.id) else { return Changed::Gone };
        let staged_meanwhile = entry.record.observed != base.observed;
        entry.engine_staged = entry.record.observed.engine != stored.observed.engine;
        if staged_meanwhile {
            stored.observed = entry.record.observed.clone();
        }
        entry.dirty = staged_meanwhile;
        entry.record = Arc::new(stored);
        entry.touch();
        Changed::Stored
    }

    /// Stores a new sandbox, with its workspace when that is new or passes to it. The caller holds
    /// [`Registry::creating`].
    pub(crate) async fn insert(
        self: &Arc<Self>,
        record: Record,
        workspace: Option<Workspace>,
        message: String,
        engine: EngineIs,
    ) -> Result<Arc<Record>, StoreError> {
        let (registry, gone) = (Arc::clone(self), self.gone.clone());
        run_whole(gone, async move {
            let _one_writer = Arc::clone(&registry.writing_workspace).lock_owned().await;
            let event = registry.event(&record, "CreateAsked", &message);
            let mut changes = vec![Change::PutRecord(Box::new(record.clone()))];
            changes.extend(workspace.iter().map(|w| Change::PutWorkspace(Box::new(w.clone()))));
            changes.push(Change::AppendEvent(event));
            registry.commit(Priority::Normal, changes).await?;
            if let Some(mut workspace) = workspace {
                workspace.revision += 1;
                registry.apply_workspace(workspace);
            }
            let mut record = record;
            record.revision += 1;
            let record = Arc::new(record);
            let mut inner = registry.inner();
            inner.add(Arc::clone(&record), Standing::New);
            if let Some(entry) = inner.entries.get_mut(&record.id) {
                entry.engine_presumed = engine == EngineIs::Presumed;
            }
            drop(inner);
            Ok(record)
        })
        .await
    }

    /// Only one creation at a time checks names and stores.
    pub(crate) async fn creating(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.creating.lock().await
    }

    /// Replaces the gateway's own facts durably.
    pub(crate) async fn change_meta(&self, meta: Meta) -> Result<(), StoreError> {
        self.commit(Priority::Reserve, vec![Change::PutMeta(meta.clone())]).await?;
        self.inner().meta = meta;
        Ok(())
    }
}

/// Runs to its end even when the caller is dropped, unless the whole gateway goes.
pub(super) async fn run_whole<T: Send + 'static>(
    gone: CancellationToken,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let cut_off = || StoreError::Unavailable { message: "the gateway is stopping".to_owned() };
    let whole = tokio::spawn(async move {
        tokio::select! {
            biased;
            () = gone.cancelled() => Err(cut_off()),
            outcome = work => outcome,
        }
    });
    whole.await.unwrap_or_else(|_| Err(cut_off()))
}
