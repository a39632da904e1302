//! Want Stopped, or asleep: down, with everything on disk kept. Nothing here ever starts anything.

use super::facts::Facts;
use super::{Action, Decision};
use crate::attempt::Operation;
use crate::condition::Reason;
use crate::observation::Backing;
use crate::project::WaitsFor;

pub(super) fn take_down(facts: Facts<'_>) -> Decision {
    match facts.record.observed.backing {
        Backing::Idle | Backing::Exited { .. } | Backing::Absent => {
            Decision::settled(Reason::Stopped, Some(WaitsFor::User))
        }
        Backing::Removing => facts.wait_outside(Reason::BackingRemoving),
        Backing::Stopping => facts.going_down(Operation::TakeDown, Reason::Stopping),
        _ => {
            let progress = facts.progress(Operation::TakeDown);
            let action = if progress.milder_way_failed() {
                Action::Kill
            } else {
                Action::Stop { grace: facts.record.intent.spec.stop_grace() }
            };
            facts.step(progress, action, Reason::Stopping)
        }
    }
}

/// As stopped, and a frozen backing will do too.
pub(super) fn sleep(facts: Facts<'_>) -> Decision {
    let backing = &facts.record.observed.backing;
    if *backing == Backing::Paused || backing.is_down() || *backing == Backing::Absent {
        return Decision::settled(Reason::Sleeping, Some(WaitsFor::User));
    }
    take_down(facts)
}
