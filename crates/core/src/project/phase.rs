//! Which one word fits: from the record and the decision, never stored.

use super::Phase;
use crate::condition::Reason;
use crate::decide::Decision;
use crate::intent::Want;
use crate::record::Record;
use crate::run::RunState;

pub(super) fn of(record: &Record, decision: &Decision) -> Phase {
    if record.intent.want == Want::Deleted {
        return Phase::Deleting;
    }
    match decision.reason {
        Reason::Ready | Reason::RunLost => Phase::Ready,
        Reason::CommandCompleted => Phase::Completed,
        Reason::RemovingWhenDone => done(record),
        Reason::Stopped => Phase::Stopped,
        Reason::Sleeping => Phase::Sleeping,
        Reason::NotYetObserved
        | Reason::EngineUnreachable
        | Reason::OtherEngine
        | Reason::Unintelligible
        | Reason::DriverNotConfigured
        | Reason::SessionLost => Phase::Unknown,
        Reason::CommandFailed
        | Reason::BackingOff
        | Reason::InvalidSpec
        | Reason::WorkspaceMissing
        | Reason::SupervisorNeverConnected
        | Reason::StartTimedOut
        | Reason::StoreRolledBack
        | Reason::GatewayOnHold => Phase::Error,
        _ => on_the_way(record),
    }
}

fn done(record: &Record) -> Phase {
    match RunState::of(record) {
        RunState::Ended(result) if result.code != 0 => Phase::Error,
        _ => Phase::Completed,
    }
}

fn on_the_way(record: &Record) -> Phase {
    if record.intent.want == Want::Stopped || record.asleep() {
        Phase::Stopping
    } else if record.attempt.go.is_none() {
        Phase::Provisioning
    } else {
        Phase::Starting
    }
}
