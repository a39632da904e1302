//! Want Deleted: away with everything that carries the id, then the workspace if that was asked
//! for, then the record. Tried for ever; nothing here waits for a backing to become ready.

use super::facts::Facts;
use super::{Action, Decision};
use crate::attempt::Operation;
use crate::condition::Reason;
use crate::observation::Backing;

pub(super) fn remove(facts: Facts<'_>) -> Decision {
    let progress = facts.progress(Operation::Remove);
    match facts.record.observed.backing {
        // Absent alone is no proof: leftovers (directories, volumes) carry the id too, and only a
        // removal that came to its end has looked for them.
        Backing::Absent if progress.removed => nothing_left(facts),
        Backing::Stopping if progress.number == 0 => {
            facts.going_down(Operation::Remove, Reason::Deleting)
        }
        Backing::Starting | Backing::Running | Backing::Paused if !progress.milder_way_failed() => {
            let grace = facts.record.intent.spec.stop_grace();
            facts.step(progress, Action::Stop { grace }, Reason::Deleting)
        }
        Backing::Starting | Backing::Running | Backing::Paused if progress.number < 2 => {
            facts.step(progress, Action::Kill, Reason::Deleting)
        }
        _ => facts.step(progress, Action::Remove, Reason::Deleting),
    }
}

fn nothing_left(facts: Facts<'_>) -> Decision {
    let workspace = &facts.live.workspace;
    let others = workspace.shared || workspace.held_by.is_some();
    // Once it is discarded its record is gone too, and that is how we know.
    if facts.record.intent.discard_workspace && !others && !workspace.forgotten {
        let progress = facts.progress(Operation::Remove);
        return facts.step(progress, Action::DiscardWorkspace, Reason::Deleting);
    }
    facts.step(facts.progress(Operation::Remove), Action::ForgetRecord, Reason::Deleting)
}

/// The user gave up on the engine, and it cannot be asked, or has refused already.
pub(super) fn forget_now(facts: Facts<'_>) -> bool {
    let record = facts.record;
    let unseen = matches!(record.observed.backing, Backing::Unknown { .. }) && facts.live.looked;
    let refused = facts.progress(Operation::Remove).failure.is_some();
    record.intent.forget
        && (facts.live.driver_missing
            || facts.live.look_error.is_some()
            || unseen
            || refused
            || super::store_rolled_back(record))
}
