//! Looks: at the backing, the session, the workspace's holder. Changes nothing on a backend.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use sandkeep_core::{
    Backing, BackingReport, Go, MainStatus, Observation, Record, RunResult, SandboxId, Session,
    Timestamp, UnknownWhy, Want, run,
};
use sandkeep_driver::DriverError;
use sandkeep_store::{Priority, StoreError};

use super::compare;
use crate::drivers::Slot;
use crate::sessions::SessionTarget;
use crate::shared::Shared;

/// A look that takes longer says nothing.
pub(super) const LOOK_DEADLINE: Duration = Duration::from_secs(10);

/// Brings everything that is known about one sandbox up to date. An error: the workspace could not
/// be claimed durably, and nothing may be brought up on it.
pub(super) async fn observe(shared: &Arc<Shared>, record: &Arc<Record>) -> Result<(), StoreError> {
    let id = &record.id;
    let Some(slot) = shared.drivers.get(&record.driver).cloned() else {
        shared.registry.stage_observation(id, record.intent.generation, None, None);
        return Ok(());
    };
    let (observed, error) = look(shared, &slot, record).await;
    note_change(shared, record, &observed);
    shared.registry.stage_observation(id, record.intent.generation, Some(observed), error);
    note_mark(shared, id);
    want_session(shared, &slot, id);
    take_execution(shared, id).await;
    take_result(shared, id).await;
    claim_workspace(shared, id).await
}

async fn look(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    record: &Record,
) -> (Observation, Option<String>) {
    let now = shared.clock.now();
    let seen = match inspect(shared, slot, record).await {
        // Another engine answers than the one that was compared: what it carries comes first.
        Ok(report) if slot.is_another_engine(report.engine.as_deref()) => {
            slot.forget_comparison();
            inspect(shared, slot, record).await
        }
        seen => seen,
    };
    match seen {
        Ok(report) => {
            let record = &without_presumption(shared, record, &report);
            let report = believe(recorded_engine(shared, record), report);
            (record.observe(&report, now), None)
        }
        Err(error) => {
            let report = not_seen(&error);
            (record.observe(&report, now), Some(error.message))
        }
    }
}

/// Looks at the backing, on an engine that was compared with the records.
async fn inspect(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    record: &Record,
) -> Result<BackingReport, DriverError> {
    let compared = if slot.compared() { Ok(()) } else { compare::compare_once(shared, slot).await };
    compared?;
    slot.look("inspect", LOOK_DEADLINE, slot.driver.inspect(&record.id)).await
}

/// The record, without its engine if that was presumed only and another one answers: nothing was
/// made on it yet.
fn without_presumption<'a>(
    shared: &Shared,
    record: &'a Record,
    report: &BackingReport,
) -> Cow<'a, Record> {
    let other = report.engine.is_some() && report.engine != record.observed.engine;
    if !other || !shared.registry.engine_is_presumed(&record.id) {
        return Cow::Borrowed(record);
    }
    let observed = Observation { engine: None, ..record.observed.clone() };
    Cow::Owned(Record { observed, ..record.clone() })
}

/// The engine that the backing was made on; before there is one, the engine that its workspace is
/// on.
fn recorded_engine(shared: &Shared, record: &Record) -> Option<String> {
    record
        .observed
        .engine
        .clone()
        .or_else(|| shared.registry.workspace(&record.intent.spec.workspace)?.engine.clone())
}

/// Absence is believed from the recorded engine only.
fn believe(recorded: Option<String>, report: BackingReport) -> BackingReport {
    let other = recorded.is_some() && report.engine.is_some() && recorded != report.engine;
    if report.backing == Backing::Absent && other {
        let message = "another engine answers than the one it was made on".to_owned();
        let backing = Backing::Unknown { why: UnknownWhy::OtherEngine, message };
        return BackingReport { backing, engine: None, ..report };
    }
    report
}

/// A backing that ever ran proves that its workspace was marked, for its start has checked that. A
/// gateway that died before it could store the mark learns it again here, before any work is done.
fn note_mark(shared: &Shared, id: &SandboxId) {
    let Some(record) = shared.registry.record(id) else { return };
    let workspace_id = &record.intent.spec.workspace;
    let unmarked = |id| shared.registry.workspace(id).is_some_and(|workspace| !workspace.marked);
    if record.observed.incarnation > 0 && unmarked(workspace_id) {
        shared.registry.stage_workspace(workspace_id, |workspace| {
            workspace.marked = true;
            workspace.engine.clone_from(&record.observed.engine);
        });
    }
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
        workspace_replaced: false,
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
    // An end that was asked for is told as what it is, whatever code it left.
    let restarts = run::needs_fresh_backing(&record.intent, record.observed.incarnation);
    let (reason, message) = match &observed.backing {
        Backing::Exited { .. } | Backing::Idle if restarts => {
            ("Restarting", "the backing was stopped for the restart that was asked for".to_owned())
        }
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

/// A supervisor that is at a newer execution than the record knows, or has the result of one: the
/// record was rebuilt or is an old copy. What is found counts as ordered, so that it is neither
/// carried out again nor ordered for ever without effect.
async fn take_execution(shared: &Arc<Shared>, id: &SandboxId) {
    let Some(record) = shared.registry.record(id) else { return };
    let at = shared.clock.now();
    let running = match shared.sessions.session(id) {
        Session::Connected { incarnation, main, .. }
            if incarnation == record.observed.incarnation =>
        {
            order_of(main, incarnation, at)
        }
        _ => None,
    };
    let ended = shared.sessions.result(id).map(|result| Go {
        run: result.run,
        restart: result.restart,
        // An old copy of the store counts incarnations anew.
        incarnation: result.incarnation.min(record.observed.incarnation),
        at,
    });
    let newest = running.into_iter().chain(ended).max_by_key(|go| (go.run, go.restart));
    let known = record.attempt.go.map(|go| (go.run, go.restart));
    let news = newest.filter(|go| {
        go.run >= record.intent.run && known.is_none_or(|known| known < (go.run, go.restart))
    });
    let Some(go) = news else { return };
    let stored = shared.registry.change(id, Priority::Reserve, move |draft| {
        let intent = &mut draft.record.intent;
        if go.run > intent.run {
            intent.run = go.run;
            intent.generation = (intent.generation + 1).max(go.run);
        }
        draft.record.attempt.go = Some(go);
        draft.events.push(("RunFound", format!("its command is at run {} already", go.run)));
        true
    });
    if let Err(error) = stored.await {
        tracing::warn!(sandbox = %id, %error, "the run that was found could not be stored");
    }
}

/// The order that a supervisor must have had.
const fn order_of(main: MainStatus, incarnation: u64, at: Timestamp) -> Option<Go> {
    match main {
        MainStatus::Waiting => None,
        MainStatus::Running { run, restart } | MainStatus::Ended { run, restart } => {
            Some(Go { run, restart, incarnation, at })
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
async fn claim_workspace(shared: &Arc<Shared>, id: &SandboxId) -> Result<(), StoreError> {
    let Some(record) = shared.registry.record(id) else { return Ok(()) };
    if record.intent.want != Want::Running {
        return Ok(());
    }
    let workspace_id = &record.intent.spec.workspace;
    let Some(workspace) = shared.registry.workspace(workspace_id) else { return Ok(()) };
    let free = |holder: &Option<SandboxId>| {
        holder.as_ref().is_none_or(|holder| shared.registry.record(holder).is_none())
    };
    if workspace.holder.as_ref() == Some(id) || !free(&workspace.holder) {
        return Ok(());
    }
    let (claimant, seen) = (id.clone(), workspace.holder.clone());
    let claimed =
        shared.registry.change_workspace(workspace_id, Priority::Normal, move |workspace| {
            if workspace.holder == seen {
                workspace.holder = Some(claimant);
            }
        });
    claimed.await.map(|_| ()).inspect_err(|error| {
        tracing::warn!(sandbox = %id, %error, "the workspace could not be claimed");
    })
}
