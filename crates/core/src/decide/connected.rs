//! Want Running and the supervisor is connected: what is to be done about the main command.

use std::time::Duration;

use super::facts::{Facts, Progress};
use super::{Action, Decision};
use crate::attempt::{Attempt, Go, Operation};
use crate::backoff;
use crate::condition::Reason;
use crate::live::MainStatus;
use crate::observation::RunResult;
use crate::project::WaitsFor;
use crate::run::{self, RunState};

/// How soon to ask again whether a result that was told is stored; that it is stored wakes too.
const STORED_WITHIN: Duration = Duration::from_secs(1);

pub(super) fn connected(facts: Facts<'_>, main: MainStatus) -> Decision {
    let record = facts.record;
    let progress = of_this_incarnation(facts);
    if let Some(go) = unrecorded_order(facts, main) {
        let attempt = Attempt { go: Some(go), ..facts.attempt(progress) };
        return forget_tries(facts, Some(attempt), Decision::settled(Reason::Ready, None));
    }
    let spec = &record.intent.spec;
    match RunState::of(record) {
        RunState::NotGiven => order(facts, progress, 0, Reason::Starting),
        RunState::Alive => alive(facts, progress, main),
        RunState::Lost if facts.live.result_waiting => {
            let again = facts.now + STORED_WITHIN;
            Decision::wait(Reason::WaitingForSupervisor, WaitsFor::Time, Some(again))
        }
        RunState::Lost if run::again_after_loss(spec) => {
            order(facts, progress, next_restart(facts), Reason::CommandRestarting)
        }
        RunState::Lost => settle(facts, progress, Reason::RunLost, None),
        RunState::Ended(result) if run::again_after(spec, result) => {
            repeat(facts, progress, result)
        }
        RunState::Ended(result) => {
            let completed = result.code == 0;
            let reason = if completed { Reason::CommandCompleted } else { Reason::CommandFailed };
            settle(facts, progress, reason, Some(WaitsFor::User))
        }
    }
}

/// The try in hand; a new one counts the incarnation that is up as its own, so that losing it is
/// seen as a loss.
fn of_this_incarnation(facts: Facts<'_>) -> Progress {
    let progress = facts.progress(Operation::BringUp);
    if progress.stored {
        return progress;
    }
    Progress { from_incarnation: facts.record.observed.incarnation.saturating_sub(1), ..progress }
}

/// The supervisor runs the current run, and the record does not say so for this incarnation: the
/// order was numbered otherwise, or is not in a record that was rebuilt. It is recorded, never
/// given twice.
fn unrecorded_order(facts: Facts<'_>, main: MainStatus) -> Option<Go> {
    let MainStatus::Running { run, restart } = main else { return None };
    let incarnation = facts.record.observed.incarnation;
    if run != facts.record.intent.run {
        return None;
    }
    match facts.record.attempt.go {
        Some(go) if (go.run, go.restart) > (run, restart) => None,
        Some(go) if (go.run, go.restart, go.incarnation) == (run, restart, incarnation) => None,
        _ => Some(Go { run, incarnation, restart, at: facts.now }),
    }
}

fn alive(facts: Facts<'_>, progress: Progress, main: MainStatus) -> Decision {
    let given = facts.record.attempt.go.map(|go| (go.run, go.restart));
    let heard = match main {
        MainStatus::Waiting => None,
        MainStatus::Running { run, restart } | MainStatus::Ended { run, restart } => {
            Some((run, restart))
        }
    };
    if heard >= given {
        return settle(facts, progress, Reason::Ready, None);
    }
    // Stored, and cut off before the supervisor heard it.
    let restart = given.map_or(0, |(_, restart)| restart);
    let go = Action::Go {
        run: facts.record.intent.run,
        restart,
        incarnation: facts.record.observed.incarnation,
    };
    facts.step(progress, go, Reason::Starting)
}

fn repeat(facts: Facts<'_>, progress: Progress, result: &RunResult) -> Decision {
    let observed = &facts.record.observed;
    let given_at = facts.record.attempt.go.map_or(observed.result_at, |go| go.at);
    let ended_at = observed.result_at.max(given_at);
    let steady = ended_at.since(given_at) >= backoff::STEADY_AFTER;
    let number = if steady { 1 } else { progress.number.saturating_add(1) };
    // A run that was lost with its backing after it had ended waits no second time.
    let wait = if result.incarnation == observed.incarnation {
        backoff::wait_before(&facts.record.id, number)
    } else {
        Duration::ZERO
    };
    let due = ended_at + wait;
    if !backoff::is_due(due, backoff::LONGEST, facts.now) {
        return Decision::wait(Reason::CommandRestarting, WaitsFor::Time, Some(due));
    }
    let counted = Progress { number, ..progress };
    order(facts, counted, next_restart(facts), Reason::CommandRestarting)
}

fn next_restart(facts: Facts<'_>) -> u32 {
    facts.record.attempt.go.map_or(0, |go| go.restart.saturating_add(1))
}

/// Orders a new execution of the current run. The order is stored before the supervisor hears it,
/// so a crash in between makes a run that is lost at worst, never one that runs twice. Coming this
/// far ends the errors of the try.
fn order(facts: Facts<'_>, progress: Progress, restart: u32, reason: Reason) -> Decision {
    if let Some(wait) = facts.wait_to_try(progress, reason) {
        return wait;
    }
    let run = facts.record.intent.run;
    let incarnation = facts.record.observed.incarnation;
    let attempt = Attempt {
        go: Some(Go { run, incarnation, restart, at: facts.now }),
        number: progress.number,
        next_try_at: None,
        failure: None,
        first_error: None,
        latest_error: None,
        ..facts.attempt(progress)
    };
    Decision::act(Action::Go { run, restart, incarnation }, reason, Some(attempt))
}

/// Everything is done. What is left: remember that this incarnation was reached, and forget the
/// count of tries once it has been steady. At rest neither is needed, and nothing is written.
fn settle(
    facts: Facts<'_>,
    progress: Progress,
    reason: Reason,
    waits_for: Option<WaitsFor>,
) -> Decision {
    let incarnation = facts.record.observed.incarnation;
    let reached = (!facts.may_have_work())
        .then(|| Attempt { reached: incarnation, ..facts.attempt(progress) });
    forget_tries(facts, reached, Decision::settled(reason, waits_for))
}

/// Adds to a decision that needs no action: `attempt` as it is to be stored, if that differs, with
/// the count of tries and the errors gone once the incarnation has been up for long enough.
fn forget_tries(facts: Facts<'_>, attempt: Option<Attempt>, decision: Decision) -> Decision {
    let tries = attempt.as_ref().unwrap_or(&facts.record.attempt);
    let clean = tries.number == 0
        && tries.next_try_at.is_none()
        && tries.failure.is_none()
        && tries.latest_error.is_none()
        && tries.first_error.is_none();
    if clean {
        return Decision { attempt, ..decision };
    }
    let up_since = facts.record.observed.incarnation_since;
    let steady_at = tries.go.map_or(up_since, |go| go.at.max(up_since)) + backoff::STEADY_AFTER;
    if !backoff::is_due(steady_at, backoff::STEADY_AFTER, facts.now) {
        return Decision { attempt, wake_at: Some(steady_at), ..decision };
    }
    let attempt = Attempt {
        number: 0,
        next_try_at: None,
        failure: None,
        first_error: None,
        latest_error: None,
        ..attempt.unwrap_or_else(|| facts.record.attempt.clone())
    };
    Decision { attempt: Some(attempt), ..decision }
}
