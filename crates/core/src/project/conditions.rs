//! The conditions, each derived from its own fact.

use super::Phase;
use crate::condition::{Condition, ConditionType, Reason, Status};
use crate::live::{Live, Session};
use crate::observation::{Backing, UnknownWhy, WorkspaceSeen};
use crate::record::Record;
use crate::spec::Limits;
use crate::time::Timestamp;

/// `reason` and `since` are the view's own.
pub(super) fn of(
    record: &Record,
    live: &Live,
    phase: Phase,
    reason: &str,
    since: Timestamp,
) -> Vec<Condition> {
    let mut conditions =
        vec![workspace(record, live), backed(record, live), connected(record, live)];
    conditions.push(Condition {
        kind: ConditionType::Ready,
        status: match phase {
            Phase::Ready => Status::True,
            Phase::Unknown => Status::Unknown,
            _ => Status::False,
        },
        reason: reason.to_owned(),
        message: String::new(),
        since,
    });
    if record.intent.spec.limits != Limits::default() {
        conditions.push(limits(record));
    }
    conditions.extend(guarded(record, live));
    conditions
}

fn workspace(record: &Record, live: &Live) -> Condition {
    let observed = &record.observed;
    let (status, reason) = if live.workspace.forgotten {
        (Status::False, Reason::WorkspaceMissing)
    } else if live.workspace.held_by.is_some() {
        (Status::False, Reason::WorkspaceHeld)
    } else {
        match observed.workspace {
            WorkspaceSeen::Bound if observed.workspace_replaced => {
                (Status::False, Reason::WorkspaceReplaced)
            }
            WorkspaceSeen::Bound => (Status::True, Reason::WorkspaceBound),
            WorkspaceSeen::NotYet => (Status::False, Reason::EnsuringWorkspace),
            WorkspaceSeen::Missing => (Status::False, Reason::WorkspaceMissing),
        }
    };
    plain(ConditionType::WorkspaceBound, status, reason, record.created_at)
}

fn backed(record: &Record, live: &Live) -> Condition {
    let observed = &record.observed;
    let (status, reason) = match &observed.backing {
        _ if !live.looked => (Status::Unknown, Reason::NotYetObserved),
        Backing::Unknown { why, .. } => (Status::Unknown, of_unknown(*why)),
        _ if live.look_error.is_some() => (Status::Unknown, Reason::EngineUnreachable),
        Backing::Absent => (Status::False, Reason::BackingAbsent),
        Backing::Idle => (Status::False, Reason::BackingIdle),
        Backing::Starting => (Status::False, Reason::Starting),
        Backing::Running => (Status::True, Reason::BackingRunning),
        Backing::Paused => (Status::False, Reason::Paused),
        Backing::Stopping => (Status::False, Reason::Stopping),
        Backing::Exited { .. } => (Status::False, Reason::BackingExited),
        Backing::Removing => (Status::False, Reason::BackingRemoving),
    };
    plain(ConditionType::Backed, status, reason, observed.since)
}

const fn of_unknown(why: UnknownWhy) -> Reason {
    match why {
        UnknownWhy::NotYetObserved => Reason::NotYetObserved,
        UnknownWhy::EngineUnreachable => Reason::EngineUnreachable,
        UnknownWhy::OtherEngine => Reason::OtherEngine,
        UnknownWhy::Unintelligible => Reason::Unintelligible,
    }
}

fn connected(record: &Record, live: &Live) -> Condition {
    let observed = &record.observed;
    let (status, reason, since) = match (&live.session, &live.told.refused) {
        (Session::Connected { incarnation, since, probed_at: Some(_), .. }, _)
            if *incarnation == observed.incarnation && observed.backing == Backing::Running =>
        {
            (Status::True, Reason::Connected, *since)
        }
        (Session::None | Session::Lost { .. }, Some(refused)) => {
            let told = plain(
                ConditionType::Connected,
                Status::False,
                Reason::SessionRefused,
                refused.since,
            );
            return Condition { message: refused.message.clone(), ..told };
        }
        (Session::Lost { since }, None) => (Status::False, Reason::SessionLost, *since),
        _ => (Status::False, Reason::WaitingForSupervisor, observed.incarnation_since),
    };
    plain(ConditionType::Connected, status, reason, since)
}

/// `None`: no supervisor has told of its guards.
fn guarded(record: &Record, live: &Live) -> Option<Condition> {
    let missing = live.told.missing_guards.as_ref()?;
    let (status, reason) = if missing.is_empty() {
        (Status::True, Reason::GuardsUp)
    } else {
        (Status::False, Reason::GuardsMissing)
    };
    let since = record.observed.incarnation_since;
    let message = missing.join(", ");
    Some(Condition { message, ..plain(ConditionType::Guarded, status, reason, since) })
}

fn limits(record: &Record) -> Condition {
    let unenforced = &record.observed.unenforced_limits;
    let (status, reason) = if record.observed.generation.is_none() {
        // No backing has been seen that could enforce them.
        (Status::Unknown, Reason::NotYetObserved)
    } else if unenforced.is_empty() {
        (Status::True, Reason::LimitsEnforced)
    } else {
        (Status::False, Reason::LimitsNotEnforced)
    };
    Condition {
        message: unenforced.join(", "),
        ..plain(ConditionType::LimitsEnforced, status, reason, record.created_at)
    }
}

fn plain(kind: ConditionType, status: Status, reason: Reason, since: Timestamp) -> Condition {
    Condition { kind, status, reason: reason.to_string(), message: String::new(), since }
}
