//! The one way to the store for writes. After one whose outcome cannot be found out, the store is
//! the truth: memory is brought in line with it before anything else is written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sandkeep_core::{Record, SandboxId, Workspace};
use sandkeep_store::{Change, Contents, Priority, StoreError};

use super::entry::Standing;
use super::{Inner, Registry};

impl Registry {
    /// Makes a batch durable. After an error the store is asked whether the batch holds all the same;
    /// when it cannot say, the next call begins by reading it.
    pub(super) async fn commit(
        &self,
        priority: Priority,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        self.heal().await?;
        let _not_while_healing = self.gate.read().await;
        let grows = changes.iter().any(|change| matches!(change, Change::AppendEvent(_)));
        let mut outcome = self.store.commit(priority, changes.clone()).await;
        if let Err(error) = &outcome {
            match self.holds_all_the_same(&changes, error).await {
                Some(true) => outcome = Ok(()),
                // It does not hold, and memory may not be what the store has.
                Some(false) if matches!(error, StoreError::DiskFull) => {}
                Some(false) | None => self.stale.store(true, Ordering::Release),
            }
        }
        match &outcome {
            Ok(()) => {
                self.metrics.store_commits.increment();
                if grows {
                    self.timeline.send_modify(|version| *version += 1);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a change is not durable");
                self.metrics.store_errors.increment(kind_of(error));
            }
        }
        outcome
    }

    /// Brings memory in line with the store, if a write's outcome was not known.
    async fn heal(&self) -> Result<(), StoreError> {
        if !self.stale.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = self.gate.write().await;
        if !self.stale.load(Ordering::Acquire) {
            return Ok(());
        }
        let contents = self.store.load().await?;
        self.inner().take_over(contents);
        self.stale.store(false, Ordering::Release);
        Ok(())
    }
}

impl Inner {
    /// What the store has takes the place of what memory has; staged facts stay on top.
    fn take_over(&mut self, contents: Contents) {
        for tombstone in contents.tombstones {
            self.tombstones.insert(tombstone.id.clone(), tombstone);
        }
        if let Some(meta) = contents.meta {
            self.meta = meta;
        }
        self.take_over_workspaces(contents.workspaces);
        self.take_over_records(contents.records);
    }

    fn take_over_workspaces(&mut self, stored: Vec<Workspace>) {
        let before = std::mem::take(&mut self.workspaces);
        self.workspace_names.clear();
        for mut workspace in stored {
            if self.dirty_workspaces.contains(&workspace.id)
                && let Some(staged) = before.get(&workspace.id)
            {
                workspace.marked |= staged.marked;
                workspace.handle = staged.handle.clone().or(workspace.handle);
            }
            self.workspace_names.insert(workspace.name.clone(), workspace.id.clone());
            self.workspaces.insert(workspace.id.clone(), Arc::new(workspace));
        }
        let workspaces = &self.workspaces;
        self.dirty_workspaces.retain(|id| workspaces.contains_key(id));
    }

    fn take_over_records(&mut self, stored: Vec<Record>) {
        let mut gone: Vec<SandboxId> = self.entries.keys().cloned().collect();
        gone.retain(|id| !stored.iter().any(|record| record.id == *id));
        for id in gone {
            self.remove(&id);
        }
        for record in stored {
            let Some(entry) = self.entries.get_mut(&record.id) else {
                self.add(Arc::new(record), Standing::New);
                continue;
            };
            let observed = entry.record.observed.clone();
            entry.dirty = observed != record.observed;
            entry.engine_staged = observed.engine != record.observed.engine;
            entry.record = Arc::new(Record { observed, ..record });
            entry.touch();
        }
    }
}

const fn kind_of(error: &StoreError) -> &'static str {
    match error {
        StoreError::Conflict { .. } => "Conflict",
        StoreError::DiskFull => "DiskFull",
        StoreError::Locked { .. } => "Locked",
        StoreError::ReadOnly { .. } => "ReadOnly",
        StoreError::Newer { .. } => "Newer",
        StoreError::Damaged { .. } => "Damaged",
        StoreError::Unavailable { .. } => "Unavailable",
    }
}
