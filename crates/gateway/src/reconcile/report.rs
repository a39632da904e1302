//! Puts down what came of a pass: attempts, errors, events. Durable before the next step.

use std::sync::Arc;

use sandkeep_core::{
    Action, Attempt, ErrorNote, FailureKind, Phase, Record, SandboxId, WorkspaceSeen, attempt,
};
use sandkeep_driver::DriverError;
use sandkeep_store::{Priority, StoreError};

use crate::shared::Shared;

/// Stores the attempt before its action is carried out; nothing when it is as stored. Refused by
/// nothing but the store: a generation that has moved on is found by the caller's next look.
pub(super) async fn store_attempt(
    shared: &Arc<Shared>,
    record: &Arc<Record>,
    attempt: Option<Attempt>,
) -> Result<(), StoreError> {
    let Some(attempt) = attempt else { return Ok(()) };
    let generation = record.intent.generation;
    let priority = priority_of(record);
    let stored = shared.registry.change(&record.id, priority, move |draft| {
        let current = draft.record.intent.generation == generation;
        let differs = draft.record.attempt != attempt;
        if current && differs {
            draft.record.attempt = attempt;
        }
        current && differs
    });
    stored.await.map(|_| ()).inspect_err(|error| {
        tracing::warn!(sandbox = %record.id, %error, "the attempt could not be stored");
    })
}

/// Keeping what runs and taking down what is to go must work on a full disk too.
const fn priority_of(_record: &Record) -> Priority {
    Priority::Reserve
}

/// The action came back well.
pub(super) async fn succeeded(
    shared: &Arc<Shared>,
    record: &Arc<Record>,
    action: &Action,
) -> Result<(), StoreError> {
    let Some(current) = shared.registry.record(&record.id) else { return Ok(()) };
    store_attempt(shared, &current, attempt::succeeded(&current.attempt, action)).await
}

/// The action came back with an error: kept in the attempt, the first one in the timeline.
pub(super) async fn failed(
    shared: &Arc<Shared>,
    record: &Arc<Record>,
    error: &DriverError,
    kind: FailureKind,
) -> Result<(), StoreError> {
    shared.metrics.reconcile_errors.increment(error.stage);
    let now = shared.clock.now();
    let note = ErrorNote {
        stage: error.stage.to_owned(),
        reason: error.reason.clone(),
        message: error.message.clone(),
        at: now,
    };
    tracing::warn!(
        sandbox = %record.id, name = %record.name,
        stage = error.stage, reason = error.reason, error = error.message, "a step failed"
    );
    let Some(current) = shared.registry.record(&record.id) else { return Ok(()) };
    let known = current.attempt.latest_error.as_ref();
    if known.is_none_or(|known| known.reason != note.reason || known.message != note.message) {
        let message = format!("{}: {}", note.stage, note.message);
        shared.registry.stage_event(&record.id, &note.reason, message);
    }
    let next = attempt::failed(&current.attempt, &record.id, note, kind, now);
    store_attempt(shared, &current, Some(next)).await
}

/// What is known of the workspace.
pub(super) fn workspace_seen(shared: &Shared, id: &SandboxId, seen: WorkspaceSeen) {
    let Some(record) = shared.registry.record(id) else { return };
    let mut observed = record.observed.clone();
    observed.workspace = seen;
    let generation = record.intent.generation;
    shared.registry.stage_observation(id, generation, Some(observed), None);
}

/// A sandbox that is Ready after something happened is news.
pub(super) fn announce(shared: &Shared, id: &SandboxId) {
    let ready = shared.view(id).is_some_and(|view| view.phase == Phase::Ready);
    if ready && shared.registry.take_announcement(id) {
        let Some(record) = shared.registry.record(id) else { return };
        let (run, incarnation) = (record.intent.run, record.observed.incarnation);
        let message = format!("ready (run {run}, incarnation {incarnation})");
        tracing::info!(sandbox = %id, name = %record.name, run, incarnation, "ready");
        shared.registry.stage_event(id, "Ready", message);
    }
}
