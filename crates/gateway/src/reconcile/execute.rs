//! Carries one action out. Takes no decision: whatever goes wrong is reported, looked at again and
//! decided anew.

use std::sync::Arc;
use std::time::Duration;

use sandkeep_core::{Action, FailureKind, Record, SandboxId, WorkspaceSeen};
use sandkeep_driver::{CreateRequest, DriverError, ErrorKind, WorkspaceReport, WorkspaceRequest};

use super::queue::Key;
use super::report;
use crate::drivers::Slot;
use crate::sessions::{GoOrder, SessionError};
use crate::shared::Shared;

const WORKSPACE_DEADLINE: Duration = Duration::from_secs(60);
const CREATE_DEADLINE: Duration = Duration::from_secs(120);
const START_DEADLINE: Duration = Duration::from_secs(60);
/// On top of the grace.
const STOP_MARGIN: Duration = Duration::from_secs(30);
const REMOVE_DEADLINE: Duration = Duration::from_secs(300);
/// A large tree takes its time; a call that is cut off goes on at the next try.
pub(super) const DISCARD_DEADLINE: Duration = Duration::from_secs(600);

/// What became of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It came back, well or badly; a failure is stored with the attempt.
    Done,
    /// The intent changed meanwhile: dropped, what it left is found by looking.
    Superseded,
    /// There is no record any more.
    Gone,
    /// What has to be durable could not be stored.
    NotStored,
}

/// Carries `action` out for the intent of `generation`.
pub(super) async fn execute(
    shared: &Arc<Shared>,
    id: &SandboxId,
    generation: u64,
    action: &Action,
) -> Outcome {
    let Some(record) = shared.registry.record(id) else { return Outcome::Gone };
    if record.intent.generation != generation {
        return Outcome::Superseded;
    }
    shared.metrics.actions.increment(action.stage());
    match action {
        Action::ForgetRecord => forget(shared, &record).await,
        Action::RequestDelete { discard_workspace } => {
            request_delete(shared, id, *discard_workspace).await
        }
        _ => {
            shared.registry.set_acting(id, Some(action.stage()));
            let outcome = tokio::select! {
                biased;
                outcome = attempt(shared, &record, action) => Some(outcome),
                () = shared.registry.generation_left(id, generation),
                    if may_be_cut_off(action) => None,
            };
            shared.registry.set_acting(id, None);
            finish(shared, &record, action, outcome).await
        }
    }
}

/// Whether a changed intent ends the call: not when the way back is closed anyhow.
const fn may_be_cut_off(action: &Action) -> bool {
    !matches!(action, Action::Remove | Action::DiscardWorkspace | Action::Kill)
}

async fn finish(
    shared: &Arc<Shared>,
    record: &Arc<Record>,
    action: &Action,
    outcome: Option<Result<(), DriverError>>,
) -> Outcome {
    let stored = match outcome {
        None => {
            tracing::info!(sandbox = %record.id, action = action.stage(), "the intent has changed");
            return Outcome::Superseded;
        }
        Some(Ok(())) => report::succeeded(shared, record, action).await,
        Some(Err(error)) => report::failed(shared, record, &error, failure_kind(error.kind)).await,
    };
    if stored.is_ok() { Outcome::Done } else { Outcome::NotStored }
}

const fn failure_kind(kind: ErrorKind) -> FailureKind {
    match kind {
        ErrorKind::Unavailable | ErrorKind::Conflict | ErrorKind::Exhausted => FailureKind::Outside,
        ErrorKind::Invalid => FailureKind::Invalid,
        ErrorKind::NotFound | ErrorKind::Internal => FailureKind::Transient,
    }
}

async fn attempt(
    shared: &Arc<Shared>,
    record: &Arc<Record>,
    action: &Action,
) -> Result<(), DriverError> {
    let stage = action.stage();
    let Some(slot) = shared.drivers.get(&record.driver) else {
        let message = format!("the driver {:?} is not configured", record.driver);
        return Err(DriverError::new(
            ErrorKind::Unavailable,
            stage,
            "DriverNotConfigured",
            message,
        ));
    };
    tracing::debug!(sandbox = %record.id, name = %record.name, action = stage, "begins");
    crate::failpoint::hit(stage, "before");
    let outcome = call(shared, slot, record, action).await;
    crate::failpoint::hit(stage, "after");
    outcome
}

async fn call(
    shared: &Arc<Shared>,
    slot: &Slot,
    record: &Arc<Record>,
    action: &Action,
) -> Result<(), DriverError> {
    let (driver, id, stage) = (&slot.driver, &record.id, action.stage());
    match action {
        Action::EnsureWorkspace => ensure_workspace(shared, slot, record).await,
        // Images are fetched by the drivers that have any, as part of create.
        Action::PullImage | Action::ForgetRecord | Action::RequestDelete { .. } => Ok(()),
        Action::Create => {
            let request = CreateRequest::of(record);
            slot.call(stage, CREATE_DEADLINE, driver.create(&request)).await
        }
        Action::Start => start(shared, slot, record).await,
        Action::Go { .. } => go(shared, record).await,
        Action::Stop { grace } => {
            slot.call(stage, *grace + STOP_MARGIN, driver.stop(id, *grace)).await
        }
        Action::Kill => slot.call(stage, STOP_MARGIN, driver.kill(id)).await,
        Action::Freeze => slot.call(stage, STOP_MARGIN, driver.freeze(id)).await,
        Action::Thaw => slot.call(stage, STOP_MARGIN, driver.thaw(id)).await,
        Action::Remove => slot.call(stage, REMOVE_DEADLINE, driver.remove(id)).await,
        Action::DiscardWorkspace => discard(shared, slot, record).await,
    }
}

async fn ensure_workspace(
    shared: &Arc<Shared>,
    slot: &Slot,
    record: &Arc<Record>,
) -> Result<(), DriverError> {
    let workspace_id = &record.intent.spec.workspace;
    let Some(workspace) = shared.registry.workspace(workspace_id) else { return Ok(()) };
    let request = WorkspaceRequest {
        id: workspace.id.clone(),
        name: workspace.name.clone(),
        marked: workspace.marked,
    };
    let ensured = slot.driver.ensure_workspace(&request);
    match slot.call("workspace", WORKSPACE_DEADLINE, ensured).await? {
        WorkspaceReport::Bound { handle } => {
            shared.registry.stage_workspace(workspace_id, |workspace| {
                workspace.marked = true;
                if workspace.engine.is_none() {
                    workspace.engine.clone_from(&record.observed.engine);
                }
                workspace.handle = Some(handle);
            });
            report::workspace_seen(shared, &record.id, WorkspaceSeen::Bound);
        }
        WorkspaceReport::Missing { message } => {
            report::workspace_seen(shared, &record.id, WorkspaceSeen::Missing);
            shared.registry.stage_event(&record.id, "WorkspaceMissing", message);
        }
    }
    Ok(())
}

async fn start(shared: &Arc<Shared>, slot: &Slot, record: &Arc<Record>) -> Result<(), DriverError> {
    shared.registry.announce_ready(&record.id);
    let started = slot.call("start", START_DEADLINE, slot.driver.start(&record.id)).await;
    if started.as_ref().is_err_and(|error| error.reason == "WorkspaceMissing") {
        report::workspace_seen(shared, &record.id, WorkspaceSeen::Missing);
    }
    started.map(|_| ())
}

async fn go(shared: &Arc<Shared>, record: &Arc<Record>) -> Result<(), DriverError> {
    // The attempt that carries this order was stored before: the record has it now.
    let Some(current) = shared.registry.record(&record.id) else { return Ok(()) };
    let Some(go) = current.attempt.go else { return Ok(()) };
    let order = GoOrder { go, spec: current.intent.spec.clone() };
    shared.registry.announce_ready(&record.id);
    shared.sessions.go(&record.id, order).await.map_err(|error| {
        let (kind, reason) = match &error {
            SessionError::NotConnected | SessionError::Lost => {
                (ErrorKind::Unavailable, "SessionLost".to_owned())
            }
            SessionError::Refused { reason, .. } => (ErrorKind::Internal, reason.clone()),
        };
        DriverError::new(kind, "session", reason, error.to_string())
    })
}

async fn discard(
    shared: &Arc<Shared>,
    slot: &Slot,
    record: &Arc<Record>,
) -> Result<(), DriverError> {
    let id = &record.intent.spec.workspace;
    slot.call("discard", DISCARD_DEADLINE, slot.driver.discard_workspace(id)).await?;
    shared.registry.bury_workspace(id).await.map_err(|error| {
        DriverError::new(ErrorKind::Exhausted, "discard", "StoreUnavailable", error.to_string())
    })
}

/// Nothing is left on the backend: the record becomes a tombstone.
async fn forget(shared: &Arc<Shared>, record: &Arc<Record>) -> Outcome {
    crate::failpoint::hit("forget", "before");
    match shared.registry.bury(&record.id).await {
        Ok(waiting) => {
            crate::failpoint::hit("forget", "after");
            tracing::info!(sandbox = %record.id, name = %record.name, "deleted");
            shared.sessions.release(&record.id);
            shared.sessions.forget(&record.id).await;
            for other in waiting {
                shared.wake(&other);
            }
            shared.queue.wake(Key::Workspace(record.intent.spec.workspace.clone()));
            Outcome::Gone
        }
        Err(error) => {
            tracing::warn!(sandbox = %record.id, %error, "the record is not buried yet");
            Outcome::NotStored
        }
    }
}

/// `--rm`: the gateway asks for deletion as a user would.
async fn request_delete(shared: &Arc<Shared>, id: &SandboxId, discard_workspace: bool) -> Outcome {
    let asked =
        crate::verbs::delete::delete_by_id(shared, id, discard_workspace, false, "sandkeep");
    match asked.await {
        Ok(_) => Outcome::Done,
        Err(_) => Outcome::NotStored,
    }
}
