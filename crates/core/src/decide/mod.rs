//! The one place that knows what to do next.
//!
//! [`decide`] is pure and total: every record, every backing, every live fact has an answer, and
//! every answer leads on. It takes a decision only on facts that this process has looked at, never
//! on a phase. The caller carries the decision out, looks again and asks again.

mod bring_up;
mod connected;
mod facts;
mod remove;
mod take_down;

use std::time::Duration;

pub use bring_up::{START_DEADLINE, SUPERVISOR_DEADLINE};

use crate::attempt::Attempt;
use crate::backoff;
use crate::condition::Reason;
use crate::intent::Want;
use crate::live::Live;
use crate::observation::{Backing, UnknownWhy};
use crate::project::WaitsFor;
use crate::record::Record;
use crate::time::Timestamp;
use facts::Facts;

/// One thing to do on a backend, or with the record itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make sure that the workspace is there; made only when it was never marked.
    EnsureWorkspace,
    /// Fetch the image of the spec.
    PullImage,
    /// Make the backing, without starting it.
    Create,
    /// Start the backing.
    Start,
    /// Tell the connected supervisor to run the main command. Done once it has answered with the
    /// state of this execution or a later one, and that is in
    /// [`Session::Connected`](crate::Session).
    Go {
        /// Of this run.
        run: u64,
        /// Which execution of it.
        restart: u32,
        /// Valid in this incarnation only.
        incarnation: u64,
    },
    /// End the backing politely, then by force after the grace.
    Stop {
        /// Between the polite signal and the kill.
        grace: Duration,
    },
    /// End the backing at once.
    Kill,
    /// Freeze it.
    Freeze,
    /// Thaw it.
    Thaw,
    /// Remove the backing and everything that carries the sandbox's id, except the workspace.
    Remove,
    /// Remove the workspace. Only ever after an explicit discard.
    DiscardWorkspace,
    /// Nothing is left on the backend: the record becomes a tombstone.
    ForgetRecord,
    /// The command has its result and `--rm` was asked for: the gateway asks for deletion as a
    /// user would.
    RequestDelete {
        /// The workspace was made for this sandbox alone, and goes with it.
        discard_workspace: bool,
    },
}

impl Action {
    /// The step in one lower-case word, as in [`ErrorNote::stage`](crate::ErrorNote::stage).
    pub const fn stage(&self) -> &'static str {
        match self {
            Self::EnsureWorkspace => "workspace",
            Self::PullImage => "pull",
            Self::Create => "create",
            Self::Start => "start",
            Self::Go { .. } => "session",
            Self::Stop { .. } => "stop",
            Self::Kill => "kill",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Remove => "remove",
            Self::DiscardWorkspace => "discard",
            Self::ForgetRecord => "forget",
            Self::RequestDelete { .. } => "delete",
        }
    }
}

/// What to do next, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What to do now; `None`: nothing until `wake_at` or a new fact.
    pub action: Option<Action>,
    /// Why.
    pub reason: Reason,
    /// Who or what is waited for; `None`: nothing is missing.
    pub waits_for: Option<WaitsFor>,
    /// When to ask again though no fact came; `None`: no timer needed.
    pub wake_at: Option<Timestamp>,
    /// The attempt to store before the action is carried out; `None`: as stored.
    pub attempt: Option<Attempt>,
}

impl Decision {
    const fn act(action: Action, reason: Reason, attempt: Option<Attempt>) -> Self {
        Self {
            action: Some(action),
            reason,
            waits_for: Some(WaitsFor::Time),
            wake_at: None,
            attempt,
        }
    }

    const fn wait(reason: Reason, waits_for: WaitsFor, wake_at: Option<Timestamp>) -> Self {
        Self { action: None, reason, waits_for: Some(waits_for), wake_at, attempt: None }
    }

    const fn settled(reason: Reason, waits_for: Option<WaitsFor>) -> Self {
        Self { action: None, reason, waits_for, wake_at: None, attempt: None }
    }
}

/// Says what to do next. Total and pure: same arguments, same answer.
///
/// The caller's side of the loop:
/// 1. look ([`Record::observe`]), then decide;
/// 2. store `attempt` if there is one, together with what was observed, before anything is done;
/// 3. carry the action out; store [`attempt::succeeded`](crate::attempt::succeeded) or
///    [`attempt::failed`](crate::attempt::failed);
/// 4. look and decide again. The same action decided again on an unchanged observation is a
///    failure too: [`attempt::without_effect`](crate::attempt::without_effect).
pub fn decide(record: &Record, live: &Live, now: Timestamp) -> Decision {
    let decision = on_facts(Facts { record, live, now });
    if !live.gateway_hold {
        return decision;
    }
    // What needs nothing done is as true in hold as ever.
    if decision.action.is_some() {
        return Decision::wait(Reason::GatewayOnHold, WaitsFor::User, None);
    }
    Decision { attempt: None, ..decision }
}

fn on_facts(facts: Facts<'_>) -> Decision {
    let record = facts.record;
    if record.intent.want == Want::Deleted && remove::forget_now(facts) {
        return Decision::act(Action::ForgetRecord, Reason::Deleting, None);
    }
    if let Some(decision) = not_seen(facts) {
        return decision;
    }
    if store_rolled_back(record) {
        return Decision::wait(Reason::StoreRolledBack, WaitsFor::User, None);
    }
    match record.intent.want {
        Want::Deleted => remove::remove(facts),
        Want::Stopped => take_down::take_down(facts),
        Want::Running if record.asleep() => take_down::sleep(facts),
        Want::Running => bring_up::bring_up(facts),
    }
}

/// Nothing is concluded, and nothing done, while the backing cannot be looked at.
fn not_seen(facts: Facts<'_>) -> Option<Decision> {
    let Facts { record, live, now } = facts;
    if live.driver_missing {
        return Some(facts.wait_outside(Reason::DriverNotConfigured));
    }
    let why = match record.observed.backing {
        Backing::Unknown { why, .. } => Some(why),
        _ => None,
    };
    if why.is_none() && live.look_error.is_some() {
        return Some(facts.wait_outside(Reason::EngineUnreachable));
    }
    if live.look_error.is_none() {
        let unlooked = why == Some(UnknownWhy::NotYetObserved);
        if unlooked || !live.looked {
            let again = now + NOT_YET_AGAIN;
            return Some(Decision::wait(not_looked(facts), WaitsFor::Time, Some(again)));
        }
    }
    let reason = match why? {
        UnknownWhy::NotYetObserved | UnknownWhy::EngineUnreachable => Reason::EngineUnreachable,
        UnknownWhy::OtherEngine => Reason::OtherEngine,
        UnknownWhy::Unintelligible => Reason::Unintelligible,
    };
    let again = backoff::look_again(record.observed.since, now);
    Some(Decision::wait(reason, WaitsFor::Outside, Some(again)))
}

/// Looking is the caller's first step: this is what is true until it is done.
fn not_looked(facts: Facts<'_>) -> Reason {
    let Facts { record, live, .. } = facts;
    let never =
        matches!(record.observed.backing, Backing::Unknown { why: UnknownWhy::NotYetObserved, .. });
    match record.intent.want {
        _ if !never && !live.looked_before => Reason::NotYetObserved,
        Want::Deleted => Reason::Deleting,
        Want::Stopped => Reason::Stopping,
        Want::Running if never => Reason::Created,
        Want::Running => Reason::Starting,
    }
}

/// The backing was made from a newer intent than the record knows: the store was rolled back, and
/// whatever the record says of it is too old to act on.
fn store_rolled_back(record: &Record) -> bool {
    let seen = !matches!(record.observed.backing, Backing::Unknown { .. } | Backing::Absent);
    seen && record.observed.generation.is_some_and(|carried| carried > record.intent.generation)
}

/// How soon to ask again about a backing that is being looked at for the first time.
const NOT_YET_AGAIN: Duration = Duration::from_secs(1);
