//! Looks: at the backing, the session, the workspace's holder. Changes nothing on a backend.

use std::sync::Arc;
use std::time::Duration;

use sandkeep_core::{
    Backing, BackingReport, Observation, Record, RunResult, SandboxId, Timestamp, UnknownWhy, Want,
};
use sandkeep_driver::DriverError;
use sandkeep_store::Priority;

use super::compare;
use crate::drivers::Slot;
use crate::sessions::SessionTarget;
use crate::shared::Shared;

/// A look that takes longer says nothing.
const LOOK_DEADLINE: Duration = Duration::from_secs(10);

/// Brings everything that is known about one sandbox up to date.
pub(super) async fn observe(shared: &Arc<Shared>, record: &Arc<Record>) {
    let id = &record.id;
    let Some(slot) = shared.drivers.get(&record.driver).cloned() else {
        shared.registry.stage_observation(id, record.intent.generation, None, None);
        return;
    };
    let (observed, error) = look(shared, &slot, record).await;
    note_change(shared, record, &observed);
    shared.registry.stage_observation(id, record.intent.generation, Some(observed), error);
    want_session(shared, &slot, id);
    take_result(shared, id).await;
    claim_workspace(shared, id).await;
}

async fn look(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    record: &Record,
) -> (Observation, Option<String>) {
    let now = shared.clock.now();
    let compared = if slot.compared() { Ok(()) } else { compare::compare_once(shared, slot).await };
    let seen = match compared {
        Ok(()) => slot.look("inspect", LOOK_DEADLINE, slot.driver.inspect(&record.id)).await,
        Err(error) => Err(error),
    };
    match seen {
        Ok(report) => {
            let report = believe(record, report);
            (record.observe(&report, now), None)
        }
        Err(error) => {
            let report = not_seen(&error);
            (record.observe(&report, now), Some(error.message))
        }
    }
}

/// Absence is believed from the recorded engine only.
fn believe(record: &Record, report: BackingReport) -> BackingReport {
    let recorded = record.observed.engine.as_ref();
    let other = recorded.is_some() && report.engine.is_some() && recorded != report.engine.as_ref();
    if report.backing == Backing::Absent && other {
        let message = "another engine answers than the one it was made on".to_owned();
        let backing = Backing::Unknown { why: UnknownWhy::OtherEngine, message };
        return BackingReport { backing, ..report };
    }
    report
}

fn not_seen(error: &DriverError) -> BackingReport {
    let why = match error.kind {
        sandkeep_driver::ErrorKind::Internal | sandkeep_driver::ErrorKind::NotFound => {
            UnknownWhy::Unintelligible
        }
        _ => UnknownWhy::EngineUnreachable,
    };
    BackingReport {
        backing: Backing::Unknown { why, message: error.message.clone() },
        backing_run: None,
        generation: None,
        engine: None,
        unenforced_limits: Vec::new(),
    }
}

/// A backing that ended though it was wanted is news.
fn note_change(shared: &Shared, record: &Record, observed: &Observation) {
    let wanted = record.intent.want == Want::Running && record.activity.asleep_since.is_none();
    let before = &record.observed.backing;
    let was_up = matches!(before, Backing::Running | Backing::Starting | Backing::Paused);
    if !(wanted && was_up) {
        return;
    }
    let (reason, message) = match &observed.backing {
        Backing::Exited { code, oom, .. } => {
            let code = code.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
            let memory = if *oom { ", out of memory" } else { "" };
            ("BackingExited", format!("the backing ended by itself, exit {code}{memory}"))
        }
        Backing::Absent => ("BackingAbsent", "the backing is gone".to_owned()),
        Backing::Idle => ("BackingIdle", "the backing holds no compute any more".to_owned()),
        Backing::Unknown { message, .. } => ("BackingUnknown", message.clone()),
        _ => return,
    };
    tracing::info!(sandbox = %record.id, name = %record.name, reason, message);
    shared.registry.stage_event(&record.id, reason, message);
    shared.registry.announce_ready(&record.id);
}

fn want_session(shared: &Shared, slot: &Slot, id: &SandboxId) {
    let Some(record) = shared.registry.record(id) else { return };
    let observed = &record.observed;
    match (&observed.backing, &observed.backing_run) {
        (Backing::Running, Some(run)) => {
            shared.sessions.want(SessionTarget {
                id: id.clone(),
                driver: Arc::clone(&slot.driver),
                backing_run: run.clone(),
                incarnation: observed.incarnation,
            });
            shared.registry.listening(id, observed.incarnation, shared.clock.now());
        }
        // Whether it is there is not known: a session that is up stays.
        (Backing::Unknown { .. } | Backing::Paused, _) => {}
        _ => {
            shared.sessions.release(id);
            shared.registry.listening(id, 0, Timestamp::EPOCH);
        }
    }
}

/// A result that the supervisor told becomes durable, then the supervisor may forget it.
async fn take_result(shared: &Arc<Shared>, id: &SandboxId) {
    let Some(result) = shared.sessions.result(id) else { return };
    let (run, restart) = (result.run, result.restart);
    let now = shared.clock.now();
    let stored = shared.registry.change(id, Priority::Reserve, move |draft| {
        let message = ended(&result);
        let heard = draft.record.hear(result, now);
        let is_news = heard != draft.record.observed;
        if is_news {
            draft.events.push(("CommandEnded", message));
            draft.record.observed = heard;
        }
        is_news
    });
    if stored.await.is_ok() {
        crate::failpoint::hit("result", "stored");
        shared.sessions.result_stored(id, run, restart);
    }
}

fn ended(result: &RunResult) -> String {
    match (&result.spawn_error, result.signal) {
        (Some(error), _) => format!("the command of run {} did not start: {error}", result.run),
        (None, Some(signal)) => {
            format!("the command of run {} was ended by signal {signal}", result.run)
        }
        (None, None) => format!("the command of run {} ended with {}", result.run, result.code),
    }
}

/// A workspace that nobody holds passes to the sandbox that wants it.
async fn claim_workspace(shared: &Arc<Shared>, id: &SandboxId) {
    let Some(record) = shared.registry.record(id) else { return };
    if record.intent.want != Want::Running {
        return;
    }
    let workspace_id = &record.intent.spec.workspace;
    let Some(workspace) = shared.registry.workspace(workspace_id) else { return };
    let free = |holder: &Option<SandboxId>| {
        holder.as_ref().is_none_or(|holder| shared.registry.record(holder).is_none())
    };
    if workspace.holder.as_ref() == Some(id) || !free(&workspace.holder) {
        return;
    }
    let (claimant, seen) = (id.clone(), workspace.holder.clone());
    let claimed =
        shared.registry.change_workspace(workspace_id, Priority::Normal, move |workspace| {
            if workspace.holder == seen {
                workspace.holder = Some(claimant);
            }
        });
    if let Err(error) = claimed.await {
        tracing::warn!(sandbox = %id, %error, "the workspace could not be claimed");
    }
}
