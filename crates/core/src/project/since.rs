//! Since when: from stored facts alone, so that it stands still while nothing changes.

use crate::condition::Reason;
use crate::live::{Live, Session};
use crate::record::Record;
use crate::time::Timestamp;

pub(super) fn of(record: &Record, live: &Live, reason: Reason) -> Timestamp {
    let observed = &record.observed;
    let asked = record.intent.at;
    match reason {
        Reason::Ready | Reason::RunLost => up(record),
        Reason::CommandCompleted | Reason::CommandFailed | Reason::RemovingWhenDone => {
            observed.result_at
        }
        Reason::CommandRestarting => observed.result_at.max(observed.incarnation_since),
        Reason::Sleeping => record.activity.asleep_since.unwrap_or(asked),
        Reason::BackingOff
        | Reason::InvalidSpec
        | Reason::SupervisorNeverConnected
        | Reason::StartTimedOut => {
            record.attempt.first_error.as_ref().map_or(asked, |first| first.at.max(asked))
        }
        Reason::SessionLost => match live.session {
            Session::Lost { since } => since,
            _ => up(record),
        },
        Reason::Deleting => asked,
        Reason::EngineUnreachable | Reason::OtherEngine | Reason::Unintelligible => observed.since,
        _ => asked.max(observed.since),
    }
}

/// When the current incarnation was seen, or got its order if that came later.
pub(super) fn up(record: &Record) -> Timestamp {
    let observed = &record.observed;
    let go = record.attempt.go.filter(|go| go.incarnation == observed.incarnation);
    go.map_or(observed.incarnation_since, |go| go.at.max(observed.incarnation_since))
}
