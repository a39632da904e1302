//! Finding sandboxes and workspaces by what a user types.

use std::sync::Arc;

use sandkeep_core::{Name, Record, SandboxId, Want, Workspace, WorkspaceId};

use super::Registry;
use crate::refusal::{Refusal, RefusalKind};

impl Registry {
    /// The record, staged observations included; `None`: there is none (any more).
    pub(crate) fn record(&self, id: &SandboxId) -> Option<Arc<Record>> {
        self.inner().entries.get(id).map(|entry| Arc::clone(&entry.record))
    }

    /// The sandbox that `name` means: the newest of that name, else the one with that id.
    pub(crate) fn resolve(&self, name: &str) -> Result<SandboxId, Refusal> {
        let inner = self.inner();
        let by_name = name
            .parse::<Name>()
            .ok()
            .and_then(|name| inner.newest(&name).map(|e| e.record.id.clone()));
        let by_id = || name.parse().ok().filter(|id| inner.entries.contains_key(id));
        by_name.or_else(by_id).ok_or_else(|| no_sandbox(name))
    }

    /// The sandbox that holds this name now; one being deleted does not.
    pub(crate) fn name_holder(&self, name: &Name) -> Option<SandboxId> {
        let inner = self.inner();
        let record = &inner.newest(name)?.record;
        (record.intent.want != Want::Deleted).then(|| record.id.clone())
    }

    /// The workspace that `name` means, by name or id.
    pub(crate) fn resolve_workspace(&self, name: &str) -> Result<Arc<Workspace>, Refusal> {
        let inner = self.inner();
        let by_name =
            name.parse::<Name>().ok().and_then(|name| inner.workspace_names.get(&name).cloned());
        let by_id = || name.parse::<WorkspaceId>().ok();
        by_name
            .or_else(by_id)
            .and_then(|id| inner.workspaces.get(&id).cloned())
            .ok_or_else(|| no_workspace(name))
    }

    /// The workspace's record; `None`: there is none (any more).
    pub(crate) fn workspace(&self, id: &WorkspaceId) -> Option<Arc<Workspace>> {
        self.inner().workspaces.get(id).cloned()
    }

    /// Sandboxes whose spec names this workspace.
    pub(crate) fn users_of(&self, id: &WorkspaceId) -> Vec<Arc<Record>> {
        let inner = self.inner();
        let users = inner.users.get(id).into_iter().flatten();
        users.filter_map(|user| inner.entries.get(user)).map(|e| Arc::clone(&e.record)).collect()
    }
}

fn no_sandbox(name: &str) -> Refusal {
    Refusal::new(
        RefusalKind::NotFound,
        "NotFound",
        format!("sandbox {name:?} was not found"),
        "no sandbox has this name or id",
        "see what there is: sandkeep list",
    )
}

fn no_workspace(name: &str) -> Refusal {
    Refusal::new(
        RefusalKind::NotFound,
        "NotFound",
        format!("workspace {name:?} was not found"),
        "no workspace has this name or id",
        "see what there is: sandkeep workspace list",
    )
}
