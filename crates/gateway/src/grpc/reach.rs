//! Waits until the inside of a sandbox can be reached, as long as waiting can help, and says why
//! not when it cannot.

use std::time::Duration;

use futures::StreamExt;
use sandkeep_core::{MainStatus, Phase, Session, WaitsFor, Want};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::gateway::{Gateway, Snapshot};
use crate::grpc::status;
use crate::refusal::{Refusal, RefusalKind};

/// How long a client waits for a sandbox that is on its way up, unless it says otherwise: longer
/// than a start on a busy machine, shorter than a person's patience.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A session with the supervisor.
    Session,
    /// A session whose supervisor had `go` for this run.
    Run(u64),
}

/// The sandbox once it can be reached. Refuses at once what no waiting mends.
pub(crate) async fn reach(
    gateway: &Gateway,
    name: &str,
    need: Need,
    deadline: Instant,
) -> Result<Snapshot, Status> {
    let mut snapshots = gateway.watch(name).map_err(|refusal| status::of(&refusal))?;
    let mut last = None;
    loop {
        match tokio::time::timeout_at(deadline, snapshots.next()).await {
            Ok(Some(Some(snapshot))) => {
                if reached(&snapshot, need) {
                    return Ok(snapshot);
                }
                if let Some(status) = hopeless(&snapshot) {
                    return Err(status);
                }
                last = Some(snapshot);
            }
            Ok(Some(None) | None) => return Err(status::of(&gone(name))),
            Err(_elapsed) => return Err(status::of(&still_waiting(name, last.as_ref()))),
        }
    }
}

fn reached(snapshot: &Snapshot, need: Need) -> bool {
    let Session::Connected { incarnation, probed_at: Some(_), main, .. } = &snapshot.live.session
    else {
        return false;
    };
    let current = *incarnation == snapshot.record.observed.incarnation;
    let wanted_up = snapshot.record.intent.want == Want::Running;
    let given = match (need, main) {
        (Need::Session, _) => true,
        (Need::Run(_), MainStatus::Waiting) => false,
        (Need::Run(wanted), MainStatus::Running { run, .. } | MainStatus::Ended { run, .. }) => {
            *run >= wanted
        }
    };
    current && wanted_up && given
}

fn hopeless(snapshot: &Snapshot) -> Option<Status> {
    let name = &snapshot.record.name;
    let view = &snapshot.view;
    let what = format!("sandbox \"{name}\" cannot be reached");
    if snapshot.record.intent.want == Want::Deleted {
        let refusal = Refusal::new(
            RefusalKind::Conflict,
            "Deleting",
            what,
            "it is being deleted",
            "its files stay unless they were discarded: sandkeep workspace list",
        );
        return Some(status::of(&refusal));
    }
    if snapshot.record.intent.want == Want::Stopped {
        let refusal = Refusal::new(
            RefusalKind::Failed,
            "Stopped",
            what,
            if view.phase == Phase::Stopped { "it is stopped" } else { "it is being stopped" },
            format!("start it: sandkeep start {name}"),
        );
        return Some(status::with_code(Code::FailedPrecondition, &refusal));
    }
    // A sandbox that waits for a user because its command is over is up all the same, and its
    // session comes with time.
    let command_over = matches!(view.reason.as_str(), "CommandCompleted" | "CommandFailed");
    if view.waits_for == Some(WaitsFor::User) && !command_over {
        let refusal = Refusal::new(
            RefusalKind::Failed,
            "NotReady",
            what,
            because(snapshot),
            format!("see: sandkeep explain {name}"),
        );
        return Some(status::with_code(Code::FailedPrecondition, &refusal));
    }
    None
}

fn gone(name: &str) -> Refusal {
    Refusal::new(
        RefusalKind::NotFound,
        "NotFound",
        format!("sandbox {} cannot be reached", crate::verbs::check::quoted(name)),
        "it was deleted",
        "see what there is: sandkeep list",
    )
}

fn still_waiting(name: &str, last: Option<&Snapshot>) -> Refusal {
    let (kind, why) = match last {
        Some(last) if last.view.waits_for == Some(WaitsFor::Outside) => {
            (RefusalKind::Unreachable, because(last))
        }
        Some(last) => (RefusalKind::TimedOut, because(last)),
        None => (RefusalKind::TimedOut, "it was not looked at in time".to_owned()),
    };
    let name = last.map_or_else(|| name.to_owned(), |last| last.record.name.to_string());
    Refusal::new(
        kind,
        "NotReady",
        format!("sandbox \"{name}\" cannot be reached yet"),
        why,
        format!("Sandkeep goes on trying; see: sandkeep explain {name}"),
    )
}

fn because(snapshot: &Snapshot) -> String {
    let view = &snapshot.view;
    match view.message.as_str() {
        "" => format!("it is {} ({})", view.phase, view.reason),
        message => format!("it is {} ({}): {message}", view.phase, view.reason),
    }
}
