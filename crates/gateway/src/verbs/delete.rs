//! `delete`: accepted in every state, final, with options that are only ever added.

use std::sync::Arc;

use sandkeep_core::SandboxId;
use sandkeep_core::verb::{self, Asked, DeleteOptions};
use sandkeep_store::{Priority, StoreError};

use crate::refusal::Refusal;
use crate::registry::Changed;
use crate::shared::Shared;

/// Asks for deletion by name or id.
pub(crate) async fn delete(
    shared: &Arc<Shared>,
    name: &str,
    discard_workspace: bool,
    forget: bool,
    by: &str,
) -> Result<SandboxId, Refusal> {
    let id = shared.registry.resolve(name)?;
    let what = format!("delete of {name:?} was not taken");
    let changed = delete_by_id(shared, &id, discard_workspace, forget, by).await;
    changed.map_err(|error| Refusal::of_store(what, &error))?;
    Ok(id)
}

/// Asks for deletion.
pub(crate) async fn delete_by_id(
    shared: &Arc<Shared>,
    id: &SandboxId,
    discard_workspace: bool,
    forget: bool,
    by: &str,
) -> Result<Changed, StoreError> {
    let options = DeleteOptions { discard_workspace, forget };
    let asked = Asked { by: by.to_owned(), at: shared.clock.now() };
    crate::failpoint::hit("verb-delete", "before");
    let changed = shared.registry.change(id, Priority::Reserve, move |draft| {
        let Some(intent) = verb::delete(&draft.record, options, &asked) else { return false };
        draft.events.push(("DeleteAsked", format!("asked for by {}", intent.by)));
        draft.record.intent = intent;
        true
    });
    let changed = changed.await?;
    crate::failpoint::hit("verb-delete", "stored");
    shared.wake(id);
    Ok(changed)
}
