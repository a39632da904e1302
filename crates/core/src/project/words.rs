//! The sentences: why it is as it is, and what happens next.

use std::fmt::Write as _;

use super::WaitsFor;
use crate::condition::Reason;
use crate::decide::{Action, Decision};
use crate::live::Live;
use crate::observation::Backing;
use crate::record::Record;
use crate::run::RunState;

/// The word that names the cause: an error's own one while it is what holds things up.
pub(super) fn reason<'a>(record: &'a Record, decision: &Decision) -> &'a str {
    match (decision.reason, &record.attempt.latest_error) {
        (Reason::BackingOff | Reason::InvalidSpec, Some(error)) => &error.reason,
        (reason, _) => reason.as_str(),
    }
}

pub(super) fn message(record: &Record, live: &Live, decision: &Decision) -> String {
    let mut text = sentence(record, live, decision);
    let told = matches!(decision.reason, Reason::BackingOff | Reason::InvalidSpec);
    if let Some(error) = record.attempt.latest_error.as_ref().filter(|_| !told)
        && decision.waits_for == Some(WaitsFor::Time)
        && record.attempt.generation == record.intent.generation
    {
        let _ = write!(text, "; the last error was in {}: {}", error.stage, error.message);
    }
    let connecting = matches!(
        decision.reason,
        Reason::SessionLost | Reason::WaitingForSupervisor | Reason::SupervisorNeverConnected
    );
    if let Some(refused) = live.told.refused.as_ref().filter(|_| connecting) {
        let _ = write!(text, "; a session was refused: {}", refused.message);
    }
    text
}

fn sentence(record: &Record, live: &Live, decision: &Decision) -> String {
    let fixed = match decision.reason {
        Reason::BackingOff | Reason::InvalidSpec => return failure(record),
        Reason::NotYetObserved => return not_yet(&record.observed.backing),
        Reason::EngineUnreachable | Reason::OtherEngine | Reason::Unintelligible => {
            return unseen(record, live);
        }
        Reason::DriverNotConfigured => {
            return format!("driver \"{}\" is not configured in this gateway", record.driver);
        }
        Reason::WorkspaceHeld => return held(record, live),
        Reason::WorkspaceMissing => return missing(record),
        Reason::BackingExited => return exited(&record.observed.backing),
        Reason::CommandCompleted
        | Reason::CommandFailed
        | Reason::CommandRestarting
        | Reason::RemovingWhenDone => return ended(record),
        Reason::Deleting => return deleting(live),
        Reason::GatewayOnHold => "the gateway is in hold and changes nothing on backends",
        Reason::Created => "it was just asked for",
        Reason::EnsuringWorkspace => "the workspace is being made or found",
        Reason::Creating => "the backing is being made",
        Reason::BackingAbsent => "the backing is gone and is made again",
        Reason::BackingIdle => "the backing is there, holds no compute and is started",
        Reason::Starting => "it is being started",
        Reason::WaitingForSupervisor => "the backing runs; its supervisor has not reported yet",
        Reason::SupervisorNeverConnected => "the supervisor did not report before its deadline",
        Reason::StartTimedOut => "the backing was still starting at its deadline",
        Reason::SessionLost => "the backing runs; the session with its supervisor is lost",
        Reason::Ready => "a command can be run now",
        Reason::RunLost => "a command can be run now; the main command was lost with its backing",
        Reason::StoreRolledBack => {
            "the backing is newer than this gateway's record: the store was rolled back"
        }
        Reason::Restarting => "a new run was asked for; the old backing is being stopped",
        Reason::Stopping => "it is being stopped",
        Reason::Stopped => "it is stopped, as asked for",
        Reason::Paused => "it is frozen by its engine and is thawed",
        Reason::Sleeping => "it sleeps and wakes when used",
        Reason::BackingRemoving => "the engine is removing the backing",
        other => other.as_str(),
    };
    fixed.to_owned()
}

fn failure(record: &Record) -> String {
    let attempt = &record.attempt;
    let Some(latest) = &attempt.latest_error else { return "the last try failed".to_owned() };
    let mut text = format!("{} failed: {}", latest.stage, latest.message);
    if let Some(first) = attempt.first_error.as_ref().filter(|first| first.reason != latest.reason)
    {
        let _ = write!(text, "; the first error was in {}: {}", first.stage, first.message);
    }
    text
}

fn not_yet(backing: &Backing) -> String {
    let seen = match backing {
        Backing::Unknown { .. } => return "this gateway has not looked at it yet".to_owned(),
        other => kind(other),
    };
    format!("this gateway has not looked at it yet; when last seen its backing was {seen}")
}

fn unseen(record: &Record, live: &Live) -> String {
    match (&live.look_error, &record.observed.backing) {
        (Some(error), _) => error.clone(),
        (None, Backing::Unknown { message, .. }) => message.clone(),
        (None, _) => "its engine does not answer".to_owned(),
    }
}

fn held(record: &Record, live: &Live) -> String {
    let holder = live.workspace.held_by.as_ref().map_or("another one", |id| id.as_str());
    let name = &record.intent.spec.workspace_name;
    format!("workspace \"{name}\" is held by sandbox {holder} until its backing is gone")
}

fn missing(record: &Record) -> String {
    let name = &record.intent.spec.workspace_name;
    format!("workspace \"{name}\" was there once and is gone; no empty one is put in its place")
}

fn exited(backing: &Backing) -> String {
    match backing {
        Backing::Exited { oom: true, .. } => "the backing ran out of memory and ended".to_owned(),
        Backing::Exited { code: Some(code), .. } => {
            format!("the backing ended with {code} without being told to")
        }
        _ => "the backing ended without being told to".to_owned(),
    }
}

fn ended(record: &Record) -> String {
    let RunState::Ended(result) = RunState::of(record) else {
        return "the main command was lost with its backing and is run again".to_owned();
    };
    let mut text = match (&result.spawn_error, result.signal, result.oom) {
        (Some(error), _, _) => format!("the main command could not be started: {error}"),
        (None, _, true) => "the main command ran out of memory and was killed".to_owned(),
        (None, Some(signal), false) => format!("the main command was ended by signal {signal}"),
        (None, None, false) => format!("the main command ended with {}", result.code),
    };
    if result.restart > 0 {
        let _ = write!(text, " (restart {})", result.restart);
    }
    text
}

fn deleting(live: &Live) -> String {
    live.look_error.as_ref().map_or_else(
        || "it is being deleted".to_owned(),
        |error| format!("it is being deleted; its engine does not answer: {error}"),
    )
}

/// The backing's state in one lower-case word.
pub(crate) const fn kind(backing: &Backing) -> &'static str {
    match backing {
        Backing::Unknown { .. } => "unknown",
        Backing::Absent => "absent",
        Backing::Idle => "idle",
        Backing::Starting => "starting",
        Backing::Running => "running",
        Backing::Paused => "frozen",
        Backing::Stopping => "stopping",
        Backing::Exited { .. } => "exited",
        Backing::Removing => "being removed",
    }
}

/// What happens next; empty only when it is Ready and nothing does.
pub(super) fn next(record: &Record, live: &Live, decision: &Decision) -> String {
    let unlooked = !live.looked;
    let text = match (&decision.action, decision.waits_for) {
        (Some(action), _) => of_action(action),
        (None, None) => "",
        (None, Some(WaitsFor::User)) => of_user(decision.reason),
        (None, Some(WaitsFor::Outside)) => match decision.reason {
            Reason::WorkspaceHeld => "it goes on as soon as the workspace is free",
            Reason::SessionLost => {
                "the gateway takes the session as soon as the supervisor reports"
            }
            Reason::DriverNotConfigured => "it goes on when the gateway has that driver again",
            Reason::BackingOff => "it is tried again, for as long as it takes",
            _ => "the gateway looks again, for as long as it takes",
        },
        (None, Some(WaitsFor::Time)) => match decision.reason {
            Reason::Created | Reason::NotYetObserved => "the gateway looks at it",
            Reason::CommandRestarting => "the main command is run again",
            Reason::Starting | Reason::Deleting | Reason::Stopping if unlooked => {
                "the gateway looks at it"
            }
            Reason::Starting | Reason::WaitingForSupervisor => {
                "past its deadline it is killed and started again"
            }
            Reason::Stopping | Reason::Deleting if record.observed.backing == Backing::Stopping => {
                "past its grace it is ended by force"
            }
            _ => "it is tried again",
        },
    };
    text.to_owned()
}

const fn of_action(action: &Action) -> &'static str {
    match action {
        Action::EnsureWorkspace => "the workspace is made or found",
        Action::PullImage => "the image is fetched",
        Action::Create => "the backing is made",
        Action::Start => "the backing is started",
        Action::Go { .. } => "the supervisor is told to go",
        Action::Stop { .. } => "the backing is asked to end, and ended by force after its grace",
        Action::Kill => "the backing is ended by force",
        Action::Freeze => "the backing is frozen",
        Action::Thaw => "the backing is thawed",
        Action::Remove => "the backing and all that carries its id is removed",
        Action::DiscardWorkspace => "the workspace is discarded",
        Action::ForgetRecord => "the record is put away",
        Action::RequestDelete { .. } => "it is deleted, as --rm asked",
    }
}

const fn of_user(reason: Reason) -> &'static str {
    match reason {
        Reason::Stopped => "nothing until it is started or deleted",
        Reason::Sleeping => "it wakes when it is used",
        Reason::CommandCompleted | Reason::CommandFailed => {
            "it stays up for exec; start runs the command again"
        }
        Reason::WorkspaceMissing => {
            "nothing until the workspace is back and it is started, or it is deleted"
        }
        Reason::StoreRolledBack | Reason::GatewayOnHold => {
            "nothing until the hold is ended by gateway adopt or gateway disown"
        }
        _ => "nothing until the cause is mended and it is started, or it is deleted",
    }
}
