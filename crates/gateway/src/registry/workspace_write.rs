//! Durable and staged changes of workspaces.

use std::sync::Arc;

use sandkeep_core::{Workspace, WorkspaceId};
use sandkeep_store::{Change, Priority, StoreError};

use super::Registry;
use super::write::run_whole;

impl Registry {
    pub(super) fn apply_workspace(&self, workspace: Workspace) {
        let mut inner = self.inner();
        inner.dirty_workspaces.remove(&workspace.id);
        inner.workspace_names.insert(workspace.name.clone(), workspace.id.clone());
        inner.workspaces.insert(workspace.id.clone(), Arc::new(workspace));
    }

    /// Facts about a workspace that were seen: visible at once, durable with the next change of a
    /// sandbox that uses it.
    pub(crate) fn stage_workspace(&self, id: &WorkspaceId, edit: impl FnOnce(&mut Workspace)) {
        let mut inner = self.inner();
        let Some(workspace) = inner.workspaces.get_mut(id) else { return };
        let mut edited = (**workspace).clone();
        edit(&mut edited);
        if edited != **workspace {
            *workspace = Arc::new(edited);
            inner.dirty_workspaces.insert(id.clone());
        }
    }

    /// Edits one workspace durably; `Ok(None)`: it is gone.
    pub(crate) async fn change_workspace(
        self: &Arc<Self>,
        id: &WorkspaceId,
        priority: Priority,
        edit: impl FnOnce(&mut Workspace) + Send + 'static,
    ) -> Result<Option<Arc<Workspace>>, StoreError> {
        let (registry, gone) = (Arc::clone(self), self.gone.clone());
        let id = id.clone();
        run_whole(gone, async move {
            let _one_writer = Arc::clone(&registry.writing_workspace).lock_owned().await;
            let Some(current) = registry.workspace(&id) else { return Ok(None) };
            let mut edited = (*current).clone();
            edit(&mut edited);
            if edited != *current {
                let change = Change::PutWorkspace(Box::new(edited.clone()));
                registry.commit(priority, vec![change]).await?;
                edited.revision += 1;
                registry.apply_workspace(edited);
            }
            Ok(registry.workspace(&id))
        })
        .await
    }

    /// Stores a workspace that was found.
    pub(crate) async fn insert_workspace(
        self: &Arc<Self>,
        workspace: Workspace,
    ) -> Result<(), StoreError> {
        let (registry, gone) = (Arc::clone(self), self.gone.clone());
        run_whole(gone, async move {
            let _one_writer = Arc::clone(&registry.writing_workspace).lock_owned().await;
            let change = Change::PutWorkspace(Box::new(workspace.clone()));
            registry.commit(Priority::Reserve, vec![change]).await?;
            registry.apply_workspace(Workspace { revision: workspace.revision + 1, ..workspace });
            Ok(())
        })
        .await
    }
}
