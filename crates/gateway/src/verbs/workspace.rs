//! `workspace delete`: the one verb that removes bytes by itself, refused while anyone uses them.

use std::sync::Arc;

use sandkeep_core::{Workspace, WorkspaceId};
use sandkeep_store::Priority;

use crate::reconcile::queue::Key;
use crate::refusal::{Refusal, RefusalKind};
use crate::shared::Shared;

/// Asks for the workspace to be discarded.
pub(crate) async fn delete(shared: &Arc<Shared>, name: &str) -> Result<Workspace, Refusal> {
    // No sandbox may begin to use it between the question and the write.
    let _one_at_a_time = shared.registry.creating().await;
    let workspace = shared.registry.resolve_workspace(name)?;
    refuse_in_use(shared, &workspace.id, name)?;
    let stored = shared
        .registry
        .change_workspace(&workspace.id, Priority::Reserve, |workspace| workspace.discard = true);
    let what = format!("workspace {name:?} was not discarded");
    let stored = stored.await.map_err(|error| Refusal::of_store(&what, &error))?;
    shared.queue.wake(Key::Workspace(workspace.id.clone()));
    Ok(stored.map_or_else(|| (*workspace).clone(), |workspace| (*workspace).clone()))
}

fn refuse_in_use(shared: &Shared, id: &WorkspaceId, name: &str) -> Result<(), Refusal> {
    let users = shared.registry.users_of(id);
    let Some(user) = users.first() else { return Ok(()) };
    Err(Refusal::new(
        RefusalKind::Conflict,
        "WorkspaceInUse",
        format!("workspace {name:?} was not discarded"),
        format!("the sandbox {:?} uses it", user.name.as_str()),
        format!("delete both: sandkeep delete {} --discard-workspace", user.name),
    ))
}
