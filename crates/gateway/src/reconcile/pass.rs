//! One pass over one key: look, decide, act, look again, until there is nothing to do.

use std::sync::Arc;
use std::time::Duration;

use sandkeep_core::attempt;
use sandkeep_core::{
    Action, Backing, Decision, Observation, Reason, SandboxId, Workspace, WorkspaceId, decide,
};

use super::execute::{Outcome, execute};
use super::{Summary, observe, report};
use crate::drivers::Slot;
use crate::shared::Shared;

/// How often a backing that is on its way is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// For how long that is done; what takes longer has its deadline and its backoff.
const PASSING_FOR: Duration = Duration::from_secs(60);

/// A supervisor answers an order within milliseconds; one that did not hear it is told again.
const ORDER_AGAIN: Duration = Duration::from_secs(5);

/// Steps in one pass before others get a turn: more than the longest way between two states.
const STEPS_PER_PASS: usize = 24;

/// Brings one sandbox as far as it goes now.
pub(super) async fn sandbox(shared: &Arc<Shared>, summary: &Summary, id: &SandboxId) {
    let mut carried_out: Option<(Action, Observation)> = None;
    for _ in 0..STEPS_PER_PASS {
        let Some(record) = shared.registry.record(id) else { return };
        if observe::observe(shared, &record).await.is_err() {
            return postpone(shared, id);
        }
        let Some((record, live)) = shared.facts(id) else { return };
        let decision = decide(&record, &live, shared.clock.now());
        let Some(action) = decision.action.clone() else {
            return settle(shared, summary, id, &decision).await;
        };
        summary.acting(shared, id);
        let again = carried_out
            .take()
            .is_some_and(|done| done == (action.clone(), record.observed.clone()));
        if again && matches!(action, Action::Go { .. }) {
            // On its way: the supervisor's answer wakes, and an order that was lost is given again.
            return settle_until_answered(shared, id).await;
        }
        if again {
            let now = shared.clock.now();
            let next = attempt::without_effect(&record.attempt, id, &action, now);
            if report::store_attempt(shared, &record, Some(next)).await.is_err() {
                return postpone(shared, id);
            }
            continue;
        }
        if report::store_attempt(shared, &record, decision.attempt).await.is_err() {
            return postpone(shared, id);
        }
        if shared.registry.flush_engine(id).await.is_err() {
            return postpone(shared, id);
        }
        let standing = shared.registry.standing(id);
        match execute(shared, id, record.intent.generation, &action).await {
            Outcome::Done => carried_out = Some((action, record.observed.clone())),
            Outcome::Superseded => {}
            Outcome::Gone => return summary.gone(shared, standing),
            Outcome::NotStored => return postpone(shared, id),
        }
    }
    shared.wake(id);
}

/// Nothing to do now: what was seen becomes durable, and the next look is planned.
async fn settle(shared: &Arc<Shared>, summary: &Summary, id: &SandboxId, decision: &Decision) {
    if let Some(attempt) = &decision.attempt {
        let Some(record) = shared.registry.record(id) else { return };
        if report::store_attempt(shared, &record, Some(attempt.clone())).await.is_err() {
            return postpone(shared, id);
        }
    }
    report::announce(shared, id);
    shared.registry.touch(id);
    summary.settled(shared, id);
    // Half-way up: what was seen goes with the order to run, a moment later.
    let half_way = decision.reason == Reason::WaitingForSupervisor;
    if !half_way && shared.registry.flush(id).await.is_err() {
        // What was seen stays staged; seeing it again costs nothing.
        return postpone(shared, id);
    }
    if shared.sessions.result(id).is_some() {
        // It could not be stored; nobody else brings it again while the session lasts.
        return postpone(shared, id);
    }
    plan_next_look(shared, id, decision);
}

/// A timer of the decision's, and a look every second at a backing that is on its way somewhere: a
/// hint of its arrival may be lost.
fn plan_next_look(shared: &Shared, id: &SandboxId, decision: &Decision) {
    let now = shared.clock.now();
    let passing = shared.registry.record(id).is_some_and(|record| {
        let observed = &record.observed;
        let on_its_way = matches!(observed.backing, Backing::Starting | Backing::Stopping);
        on_its_way && now.since(observed.since) < PASSING_FOR
    });
    // Never busy: a wake-up that is due already still lets others have a turn.
    let timer = decision.wake_at.map(|at| at.since(now).max(Duration::from_millis(1)));
    let delay =
        if passing { Some(timer.map_or(LOOK_AGAIN, |timer| timer.min(LOOK_AGAIN))) } else { timer };
    if let Some(delay) = delay {
        shared.queue.wake_after(super::queue::Key::Sandbox(id.clone()), delay);
    }
}

/// An order was written to the session, and its answer is not there yet.
async fn settle_until_answered(shared: &Arc<Shared>, id: &SandboxId) {
    shared.registry.touch(id);
    if shared.registry.flush(id).await.is_err() {
        return postpone(shared, id);
    }
    shared.queue.wake_after(super::queue::Key::Sandbox(id.clone()), ORDER_AGAIN);
}

/// The store did not take a change that has to be durable before anything is done.
fn postpone(shared: &Shared, id: &SandboxId) {
    shared.queue.wake_after(super::queue::Key::Sandbox(id.clone()), Duration::from_secs(1));
}

/// Discards a workspace that a user asked to discard.
pub(super) async fn workspace(shared: &Arc<Shared>, id: &WorkspaceId) {
    let Some(workspace) = shared.registry.workspace(id) else { return };
    if !workspace.discard || shared.on_hold() {
        return;
    }
    let again = super::queue::Key::Workspace(id.clone());
    let Some(slot) = shared.drivers.get(&workspace.driver) else { return };
    let compared = slot.compared() || super::compare::compare_once(shared, slot).await.is_ok();
    if !compared || !may_discard(shared, slot, &workspace).await {
        return shared.queue.wake_after(again, shared.discard_tries.in_vain(id));
    }
    let discarded =
        slot.call("discard", super::execute::DISCARD_DEADLINE, slot.driver.discard_workspace(id));
    let outcome = match discarded.await {
        Ok(()) => shared.registry.bury_workspace(id).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = outcome {
        tracing::warn!(workspace = %id, error, "the workspace is not discarded yet");
        return shared.queue.wake_after(again, shared.discard_tries.in_vain(id));
    }
    shared.discard_tries.over(id);
}

/// Not in hold, not while a backing that is not ours uses it, and not on another engine, which
/// would say that it is done and leave the bytes where they are.
async fn may_discard(shared: &Shared, slot: &Slot, workspace: &Workspace) -> bool {
    let engine = slot.look("identity", observe::LOOK_DEADLINE, slot.driver.identity()).await;
    let same = match (&engine, &workspace.engine) {
        (Ok(engine), Some(kept_by)) => engine == kept_by,
        (answer, _) => answer.is_ok(),
    };
    same && !shared.on_hold() && shared.registry.inner().left_alone_on(&workspace.id).is_none()
}
