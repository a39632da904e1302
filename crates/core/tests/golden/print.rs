//! What stories print: short lines that a person can check.

use sandkeep_core::{Action, Decision, Record, Timestamp, View, WaitsFor};

pub(crate) fn action(action: &Action) -> String {
    match action {
        Action::EnsureWorkspace => "ensure-workspace".to_owned(),
        Action::Go { run, restart, incarnation } => {
            format!("go run={run} restart={restart} incarnation={incarnation}")
        }
        Action::Stop { grace } => format!("stop grace={}s", grace.as_secs()),
        Action::DiscardWorkspace => "discard-workspace".to_owned(),
        Action::ForgetRecord => "forget-record".to_owned(),
        Action::RequestDelete { discard_workspace: true } => {
            "request-delete with the workspace".to_owned()
        }
        Action::RequestDelete { discard_workspace: false } => "request-delete".to_owned(),
        other => other.stage().to_owned(),
    }
}

const fn waits(waits_for: WaitsFor) -> &'static str {
    match waits_for {
        WaitsFor::Time => "time",
        WaitsFor::Outside => "outside",
        WaitsFor::User => "user",
    }
}

fn after(at: Timestamp, now: Timestamp) -> String {
    let millis = at.since(now).as_millis();
    if millis.is_multiple_of(1000) {
        format!("+{}s", millis / 1000)
    } else {
        format!("+{millis}ms")
    }
}

/// `start  reason=BackingExited`, `nothing  reason=Ready`.
pub(crate) fn decision(decision: &Decision, now: Timestamp) -> String {
    let what = decision.action.as_ref().map_or_else(|| "nothing".to_owned(), action);
    let mut line = format!("{what}  reason={}", decision.reason);
    if decision.action.is_none()
        && let Some(waits_for) = decision.waits_for
    {
        line += &format!("  waits={}", waits(waits_for));
    }
    if let Some(at) = decision.wake_at {
        line += &format!("  wake={}", after(at, now));
    }
    if let Some(attempt) = &decision.attempt {
        line += &format!("  stores number={}", attempt.number);
        if let Some(at) = attempt.next_try_at.filter(|at| *at > now) {
            line += &format!(" next={}", after(at, now));
        }
    }
    line
}

/// `Error WorkspaceMissing waits=user: message`, then what happens next.
pub(crate) fn view(view: &View) -> Vec<String> {
    let waits_for = view.waits_for.map(|one| format!(" waits={}", waits(one)));
    let mut lines =
        vec![format!("{} {}{}", view.phase, view.reason, waits_for.unwrap_or_default())];
    lines.push(format!("  why: {}", view.message));
    if !view.next.is_empty() {
        lines.push(format!("  next: {}", view.next));
    }
    lines
}

/// The view, and since when it is so.
pub(crate) fn view_with_age(view: &View, now: Timestamp) -> Vec<String> {
    let mut lines = self::view(view);
    lines.push(format!("  since: {}s ago", now.since(view.since).as_secs()));
    lines
}

pub(crate) fn conditions(view: &View) -> Vec<String> {
    let line = |condition: &sandkeep_core::Condition| {
        let told = format!("{:?}={:?} {}", condition.kind, condition.status, condition.reason);
        format!("{told} {}", condition.message).trim_end().to_owned()
    };
    view.conditions.iter().map(line).collect()
}

pub(crate) fn counters(record: &Record) -> String {
    let observed = &record.observed;
    let intent = &record.intent;
    format!(
        "generation={} run={} incarnation={} restarts={}",
        intent.generation, intent.run, observed.incarnation, observed.restarts
    )
}
