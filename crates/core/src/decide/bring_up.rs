//! Want Running: from whatever is there to a backing whose supervisor is connected.
//!
//! ```text
//!            Absent ──create──▶ Idle ──start──▶ Starting ──▶ Running ──session──▶ connected.rs
//!              ▲                 ▲                 │            │
//!              │              Exited ◀───kill──────┴────────────┘  past a deadline, before `go`
//!           Removing             ▲───────────────stop, when a fresh backing was asked for
//! ```

use std::time::Duration;

use super::facts::{Facts, Progress};
use super::{Action, Decision, connected};
use crate::attempt::{Attempt, ErrorNote, FailureKind, Operation};
use crate::backoff;
use crate::condition::Reason;
use crate::live::Session;
use crate::observation::{Backing, WorkspaceSeen};
use crate::project::WaitsFor;
use crate::run::{self, RunState};
use crate::time::Timestamp;

/// A backing that is still on its way up after this time is killed and started again. Half a
/// minute is many times what a start takes on a loaded machine, and short enough for one who waits.
pub const START_DEADLINE: Duration = Duration::from_secs(30);

/// A supervisor that had no `go` and has not reported this long after its backing came up is
/// started again. It reports within milliseconds; the rest is for a machine that swaps.
pub const SUPERVISOR_DEADLINE: Duration = Duration::from_secs(20);

pub(super) fn bring_up(facts: Facts<'_>) -> Decision {
    let progress = facts.progress(Operation::BringUp);
    if let Some(decision) = done_with(facts, progress) {
        return decision;
    }
    match facts.record.observed.backing {
        Backing::Removing => facts.wait_outside(Reason::BackingRemoving),
        Backing::Stopping => facts.going_down(Operation::BringUp, Reason::Stopping),
        Backing::Starting => coming_up(facts, progress),
        Backing::Paused => facts.step(progress, Action::Thaw, Reason::Paused),
        Backing::Running => running(facts, progress),
        // `Unknown` was answered before; nothing else is left than a backing that is down.
        _ => down(facts, progress),
    }
}

/// `--rm`, and the run has its result: whatever state the backing is in, it is not needed again.
/// A lost run has no result, so nothing of it is ever removed.
fn done_with(facts: Facts<'_>, progress: Progress) -> Option<Decision> {
    let spec = &facts.record.intent.spec;
    if !spec.remove_when_done {
        return None;
    }
    let state = RunState::of(facts.record);
    let ended = matches!(state, RunState::Ended(_)) && state.is_over(spec);
    let action = Action::RequestDelete { discard_workspace: spec.made_workspace };
    ended.then(|| facts.step(progress, action, Reason::RemovingWhenDone))
}

fn running(facts: Facts<'_>, progress: Progress) -> Decision {
    let record = facts.record;
    if run::needs_fresh_backing(&record.intent, record.observed.incarnation) {
        let action = if progress.milder_way_failed() {
            Action::Kill
        } else {
            Action::Stop { grace: record.intent.spec.stop_grace() }
        };
        return facts.step(progress, action, Reason::Restarting);
    }
    match facts.connected() {
        Some(main) => connected::connected(facts, main),
        None => not_connected(facts, progress),
    }
}

/// A supervisor that may have work in it is waited for as long as it takes; one that cannot have
/// any has a deadline.
fn not_connected(facts: Facts<'_>, progress: Progress) -> Decision {
    if facts.may_have_work() {
        return facts.wait_outside(Reason::SessionLost);
    }
    let observed = &facts.record.observed;
    let lost_since = match facts.live.session {
        Session::Lost { since } => since,
        _ => Timestamp::EPOCH,
    };
    let from = observed.incarnation_since.max(observed.since);
    let from = from.max(facts.live.listening_since).max(lost_since);
    let deadline = Deadline {
        at: from + SUPERVISOR_DEADLINE,
        length: SUPERVISOR_DEADLINE,
        waiting: Reason::WaitingForSupervisor,
        passed: Reason::SupervisorNeverConnected,
        stage: "session",
        message: "the supervisor did not report before its deadline",
    };
    deadline.keep(facts, progress)
}

fn coming_up(facts: Facts<'_>, progress: Progress) -> Decision {
    let deadline = Deadline {
        at: facts.record.observed.since + START_DEADLINE,
        length: START_DEADLINE,
        waiting: Reason::Starting,
        passed: Reason::StartTimedOut,
        stage: "start",
        message: "the backing was still starting at its deadline",
    };
    deadline.keep(facts, progress)
}

/// A time until which something is waited for before it is killed as a failed try.
struct Deadline {
    at: Timestamp,
    length: Duration,
    waiting: Reason,
    passed: Reason,
    stage: &'static str,
    message: &'static str,
}

impl Deadline {
    fn keep(&self, facts: Facts<'_>, progress: Progress) -> Decision {
        if !backoff::is_due(self.at, self.length, facts.now) {
            return Decision::wait(self.waiting, WaitsFor::Time, Some(self.at));
        }
        // A kill that failed is tried again at the next try, and counts as one.
        if let Some(wait) = facts.wait_to_try(progress, self.passed) {
            return wait;
        }
        let note = ErrorNote {
            stage: self.stage.to_owned(),
            reason: self.passed.to_string(),
            message: self.message.to_owned(),
            at: facts.now,
        };
        let attempt = Attempt {
            from_incarnation: facts.record.observed.incarnation,
            heals_loss: false,
            ..facts.attempt(progress)
        };
        let id = &facts.record.id;
        let failed = crate::attempt::failed(&attempt, id, note, FailureKind::Transient, facts.now);
        Decision::act(Action::Kill, self.passed, Some(failed))
    }
}

fn down(facts: Facts<'_>, progress: Progress) -> Decision {
    if !is_lost(facts, progress) {
        return raise(facts, progress);
    }
    let attempt = after_loss(facts, progress);
    let decision = raise(facts, Progress::read(&attempt, Operation::BringUp));
    Decision { attempt: Some(attempt), ..decision }
}

/// The next step of a backing that is down.
fn raise(facts: Facts<'_>, progress: Progress) -> Decision {
    if let Some(decision) = workspace_in_the_way(facts, progress) {
        return decision;
    }
    let observed = &facts.record.observed;
    let outdated =
        observed.generation.is_some_and(|carried| carried < facts.record.intent.spec_generation);
    match observed.backing {
        Backing::Absent if observed.incarnation == 0 => {
            facts.step(progress, Action::Create, Reason::Creating)
        }
        Backing::Absent => facts.step(progress, Action::Create, Reason::BackingAbsent),
        _ if outdated => facts.step(progress, Action::Create, Reason::Creating),
        Backing::Idle => facts.step(progress, Action::Start, Reason::BackingIdle),
        _ => facts.step(progress, Action::Start, reason_of_exit(facts)),
    }
}

/// An end that we brought about (stop, restart, sleep) is no surprise.
fn reason_of_exit(facts: Facts<'_>) -> Reason {
    let record = facts.record;
    let ours = record.attempt.operation == Some(Operation::TakeDown)
        || run::needs_fresh_backing(&record.intent, record.observed.incarnation);
    if ours { Reason::Starting } else { Reason::BackingExited }
}

fn workspace_in_the_way(facts: Facts<'_>, progress: Progress) -> Option<Decision> {
    let workspace = &facts.live.workspace;
    if workspace.forgotten {
        return Some(Decision::wait(Reason::WorkspaceMissing, WaitsFor::User, None));
    }
    if workspace.held_by.is_some() {
        return Some(facts.wait_outside(Reason::WorkspaceHeld));
    }
    match facts.record.observed.workspace {
        WorkspaceSeen::Bound => None,
        // It was looked for under this intent. `start` makes a new intent, and looks again.
        WorkspaceSeen::Missing if progress.stored && !facts.record.attempt.seeks_workspace => {
            Some(Decision::wait(Reason::WorkspaceMissing, WaitsFor::User, None))
        }
        WorkspaceSeen::Missing | WorkspaceSeen::NotYet => {
            Some(facts.step(progress, Action::EnsureWorkspace, Reason::EnsuringWorkspace))
        }
    }
}

/// The try in hand brought up an incarnation, and that one is down.
fn is_lost(facts: Facts<'_>, progress: Progress) -> bool {
    progress.stored && facts.record.observed.incarnation > progress.from_incarnation
}

/// The first loss in a row is made good at once, each further one after a longer wait.
fn after_loss(facts: Facts<'_>, progress: Progress) -> Attempt {
    let steady = was_steady(facts);
    let losses = if steady { 0 } else { progress.number };
    let wait = backoff::wait_before(&facts.record.id, losses);
    let mut attempt = facts.attempt(progress);
    attempt.number = losses.saturating_add(1);
    attempt.started_at = facts.now;
    attempt.next_try_at = (!wait.is_zero()).then(|| facts.now + wait);
    attempt.failure = None;
    attempt.from_incarnation = facts.record.observed.incarnation;
    attempt.heals_loss = true;
    if steady {
        attempt.first_error = None;
        attempt.latest_error = None;
    }
    attempt
}

/// The latest try began so long ago that this loss is no sign of it having failed.
fn was_steady(facts: Facts<'_>) -> bool {
    let attempt = &facts.record.attempt;
    let began = attempt.next_try_at.map_or(attempt.started_at, |at| at.max(attempt.started_at));
    facts.now.since(began) >= backoff::STEADY_AFTER
}
