//! The end of a sandbox or a workspace: the record goes, a tombstone stays.

use std::sync::Arc;

use sandkeep_core::{Record, SandboxId, Workspace, WorkspaceId};
use sandkeep_store::{Change, Priority, StoreError, Tombstone};

use super::Registry;
use super::write::run_whole;

impl Registry {
    /// The record becomes a tombstone, and its hold on the workspace ends. `None` when it was gone
    /// already. Answers the sandboxes that may have waited for the workspace.
    pub(crate) async fn bury(
        self: &Arc<Self>,
        id: &SandboxId,
    ) -> Result<Vec<SandboxId>, StoreError> {
        let (registry, gone) = (Arc::clone(self), self.gone.clone());
        let id = id.clone();
        run_whole(gone, async move {
            let Some(writing) = registry.lock_of(&id) else { return Ok(Vec::new()) };
            let _one_at_a_time = writing.lock().await;
            let _one_workspace_writer = Arc::clone(&registry.writing_workspace).lock_owned().await;
            let Some((record, pending)) = registry.begin(&id) else { return Ok(Vec::new()) };
            let mut changes: Vec<Change> = pending.into_iter().map(Change::AppendEvent).collect();
            changes.push(Change::AppendEvent(registry.event(&record, "Deleted", "it is gone")));
            let tombstone = registry.tombstone(&record);
            let buried = Change::BuryRecord {
                id: id.clone(),
                revision: record.revision,
                tombstone: tombstone.clone(),
            };
            changes.push(buried);
            let workspace = registry.workspace(&record.intent.spec.workspace);
            let workspace_change = workspace.and_then(|w| registry.release(&id, &w));
            changes.extend(workspace_change.clone());
            registry.commit(Priority::Reserve, changes).await?;
            registry.apply_workspace_change(workspace_change);
            registry.apply_burial(&id, tombstone);
            Ok(registry
                .users_of(&record.intent.spec.workspace)
                .iter()
                .map(|r| r.id.clone())
                .collect())
        })
        .await
    }

    fn tombstone(&self, record: &Record) -> Tombstone {
        Tombstone {
            id: record.id.to_string(),
            name: record.name.to_string(),
            driver: record.driver.clone(),
            generation: record.intent.generation,
            at: self.clock.now(),
        }
    }

    /// The hold ends. A workspace that was never marked never had a run in it: nothing is lost by
    /// discarding it, while keeping it would hold the name of a create that failed.
    fn release(&self, id: &SandboxId, workspace: &Arc<Workspace>) -> Option<Change> {
        let others = self.users_of(&workspace.id).iter().any(|record| record.id != *id);
        let never_used = !workspace.marked && !others;
        let held = workspace.holder.as_ref() == Some(id);
        (held || never_used).then(|| {
            let released = Workspace {
                holder: workspace.holder.clone().filter(|_| !held),
                discard: workspace.discard || never_used,
                ..(**workspace).clone()
            };
            Change::PutWorkspace(Box::new(released))
        })
    }

    fn burial_of(&self, workspace: &Workspace) -> Change {
        Change::BuryWorkspace {
            id: workspace.id.clone(),
            revision: workspace.revision,
            tombstone: Tombstone {
                id: workspace.id.to_string(),
                name: workspace.name.to_string(),
                driver: workspace.driver.clone(),
                generation: 0,
                at: self.clock.now(),
            },
        }
    }

    /// The workspace's bytes are gone: its record becomes a tombstone.
    pub(crate) async fn bury_workspace(
        self: &Arc<Self>,
        id: &WorkspaceId,
    ) -> Result<(), StoreError> {
        let (registry, gone) = (Arc::clone(self), self.gone.clone());
        let id = id.clone();
        run_whole(gone, async move {
            let _one_writer = Arc::clone(&registry.writing_workspace).lock_owned().await;
            let Some(workspace) = registry.workspace(&id) else { return Ok(()) };
            let burial = registry.burial_of(&workspace);
            registry.commit(Priority::Reserve, vec![burial.clone()]).await?;
            registry.apply_workspace_change(Some(burial));
            Ok(())
        })
        .await
    }

    fn apply_workspace_change(&self, change: Option<Change>) {
        match change {
            Some(Change::PutWorkspace(mut workspace)) => {
                workspace.revision += 1;
                self.apply_workspace(*workspace);
            }
            Some(Change::BuryWorkspace { id, tombstone, .. }) => {
                let mut inner = self.inner();
                inner.dirty_workspaces.remove(&id);
                if let Some(workspace) = inner.workspaces.remove(&id) {
                    inner.workspace_names.remove(&workspace.name);
                }
                inner.tombstones.insert(tombstone.id.clone(), tombstone);
            }
            _ => {}
        }
    }

    fn apply_burial(&self, id: &SandboxId, tombstone: Tombstone) {
        let mut inner = self.inner();
        inner.tombstones.insert(tombstone.id.clone(), tombstone);
        inner.remove(id);
    }
}
