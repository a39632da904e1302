//! Waiting until a sandbox is as wished: watching it, telling what it waits for, and knowing when
//! waiting makes no sense any more.

use std::time::Duration;

use sandkeep_proto::v1::{Sandbox, SandboxRef, WatchEvent};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tonic::{Code, Streaming};

use crate::client::Gateway;
use crate::error::{Failure, exit};
use crate::progress::Progress;
use crate::render::phrases;

/// How long a verb waits unless told otherwise.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
/// Between two attempts to reach a gateway that is gone.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    /// A command can be run now.
    Ready,
    /// Ready, or the main command ended well already.
    Up,
    /// Down.
    Stopped,
    /// The main command ended with 0.
    Completed,
    /// The record is gone.
    Deleted,
    /// A condition has a status.
    Condition {
        /// Its type, as the gateway writes it.
        kind: String,
        /// `True`, `False`, `Unknown`.
        status: String,
    },
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reached {
    /// It is as wished.
    Sandbox(Box<Sandbox>),
    /// Its record is gone, as wished.
    Gone,
}

/// One look at the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    Pending,
    /// Nothing will be tried until the user does something.
    Stuck,
}

impl Goal {
    /// In words, after "waiting until it is".
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Ready | Self::Up => "ready".to_owned(),
            Self::Stopped => "stopped".to_owned(),
            Self::Completed => "completed".to_owned(),
            Self::Deleted => "deleted".to_owned(),
            Self::Condition { kind, status } => format!("condition={kind}={status}"),
        }
    }

    fn judge(&self, sandbox: &Sandbox) -> Verdict {
        let met = match self {
            Self::Ready => sandbox.phase == "Ready",
            Self::Up => matches!(sandbox.phase.as_str(), "Ready" | "Completed"),
            Self::Stopped => sandbox.phase == "Stopped",
            Self::Completed => sandbox.phase == "Completed",
            Self::Deleted => false,
            Self::Condition { kind, status } => sandbox.conditions.iter().any(|c| {
                c.r#type.eq_ignore_ascii_case(kind) && c.status.eq_ignore_ascii_case(status)
            }),
        };
        if met {
            Verdict::Met
        } else if sandbox.waits_for == "user" {
            Verdict::Stuck
        } else {
            Verdict::Pending
        }
    }
}

/// A sandbox to wait for.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// By which the gateway finds it: the id once it is known, so that a new sandbox of the same
    /// name is not mistaken for it.
    pub(crate) reference: String,
    /// As the user calls it.
    pub(crate) name: String,
}

impl Subject {
    /// What a verb answered.
    pub(crate) fn of(sandbox: &Sandbox) -> Self {
        Self { reference: sandbox.id.clone(), name: sandbox.name.clone() }
    }
}

/// Waits until the goal is met.
///
/// # Errors
/// 1 when it waits for the user, 3 when it was deleted meanwhile, 6 when `timeout` is over, 130 at
/// Ctrl-C. Work goes on in every case.
pub(crate) async fn wait_for(
    gateway: &mut Gateway,
    subject: &Subject,
    goal: &Goal,
    timeout: Duration,
    progress: &mut Progress,
) -> Result<Reached, Failure> {
    let deadline = Instant::now() + timeout;
    let mut latest = None;
    let outcome = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err(interrupted(subject, goal)),
        () = sleep_until(deadline) => Err(timed_out(subject, goal, timeout, None)),
        outcome = watch_until(gateway, subject, goal, deadline, progress, &mut latest) => outcome,
    };
    progress.clear();
    match outcome {
        Err(failure) if failure.exit == exit::TIMED_OUT => {
            Err(timed_out(subject, goal, timeout, latest.as_ref()))
        }
        other => other,
    }
}

async fn watch_until(
    gateway: &mut Gateway,
    subject: &Subject,
    goal: &Goal,
    deadline: Instant,
    progress: &mut Progress,
    latest: &mut Option<Sandbox>,
) -> Result<Reached, Failure> {
    let what = format!("sandbox \"{}\" is not watched", subject.name);
    loop {
        let request = SandboxRef { name: subject.reference.clone() };
        let broken = match gateway.client().watch(request).await {
            Ok(response) => {
                let mut stream = response.into_inner();
                match follow(&mut stream, subject, goal, progress, latest).await {
                    Ok(end) => return end,
                    Err(status) => status,
                }
            }
            Err(status) => status,
        };
        if broken.code() == Code::NotFound && *goal == Goal::Deleted {
            return Ok(Reached::Gone);
        }
        let failure = Failure::of_status(&what, &broken);
        if !failure.transport {
            return Err(failure);
        }
        progress.show(&format!("{}: the gateway is gone; waiting for it", subject.name));
        reconnect_until(gateway, deadline, failure).await?;
    }
}

/// Dials until a gateway answers or the time is over.
pub(crate) async fn reconnect_until(
    gateway: &mut Gateway,
    deadline: Instant,
    lost: Failure,
) -> Result<(), Failure> {
    let mut last = lost.clone();
    loop {
        match timeout_at(deadline, gateway.reconnect(&lost)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) if failure.exit != exit::UNREACHABLE => return Err(failure),
            Ok(Err(failure)) => last = failure,
            Err(_elapsed) => return Err(last),
        }
        if Instant::now() + RETRY_PAUSE >= deadline {
            return Err(last);
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Follows one stream; `Err`: it broke.
async fn follow(
    stream: &mut Streaming<WatchEvent>,
    subject: &Subject,
    goal: &Goal,
    progress: &mut Progress,
    latest: &mut Option<Sandbox>,
) -> Result<Result<Reached, Failure>, tonic::Status> {
    loop {
        let next = tokio::select! {
            next = stream.message() => next?,
            () = progress.due() => {
                progress.flush();
                continue;
            }
        };
        let Some(event) = next else {
            return Err(tonic::Status::unavailable("the watch ended"));
        };
        if event.gone {
            return Ok(if *goal == Goal::Deleted {
                Ok(Reached::Gone)
            } else {
                Err(deleted(subject))
            });
        }
        let Some(sandbox) = event.sandbox else { continue };
        match goal.judge(&sandbox) {
            Verdict::Met => return Ok(Ok(Reached::Sandbox(Box::new(sandbox)))),
            Verdict::Stuck => return Ok(Err(stuck(&sandbox, goal))),
            Verdict::Pending => {
                progress.show(&phrases::state(&sandbox));
                *latest = Some(sandbox);
            }
        }
    }
}

fn stuck(sandbox: &Sandbox, goal: &Goal) -> Failure {
    let name = &sandbox.name;
    let next = if sandbox.next.is_empty() {
        format!("see what you can do: sandkeep explain {name}")
    } else {
        sandbox.next.clone()
    };
    Failure {
        reason: sandbox.reason.clone(),
        ..Failure::new(
            exit::FAILED,
            format!("sandbox \"{name}\" is {}, not {}", sandbox.phase, goal.words()),
            phrases::why(sandbox),
            next,
        )
    }
}

fn deleted(subject: &Subject) -> Failure {
    Failure::new(
        exit::NOT_FOUND,
        format!("sandbox \"{}\" is gone", subject.name),
        "it was deleted while it was waited for",
        "see what there is: sandkeep list",
    )
}

fn timed_out(
    subject: &Subject,
    goal: &Goal,
    timeout: Duration,
    latest: Option<&Sandbox>,
) -> Failure {
    let name = &subject.name;
    let why = latest.map_or_else(|| "nothing was heard of it".to_owned(), phrases::state_of);
    Failure::new(
        exit::TIMED_OUT,
        format!("sandbox \"{name}\" was not {} within {}", goal.words(), phrases::span(timeout)),
        why,
        format!("the work goes on; to wait again: sandkeep wait {name} --for {}", goal.words()),
    )
}

fn interrupted(subject: &Subject, goal: &Goal) -> Failure {
    let name = &subject.name;
    Failure::new(
        exit::INTERRUPTED,
        format!("the waiting for sandbox \"{name}\" was ended"),
        "Ctrl-C ends the waiting, not the work",
        format!("the work goes on; to wait again: sandkeep wait {name} --for {}", goal.words()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(phase: &str, waits_for: &str) -> Sandbox {
        Sandbox { phase: phase.into(), waits_for: waits_for.into(), ..Sandbox::default() }
    }

    #[test]
    fn each_goal_is_met_by_its_phase_and_stuck_when_the_user_must_act() {
        for (goal, phase, waits_for, expect) in [
            (Goal::Ready, "Ready", "", Verdict::Met),
            (Goal::Ready, "Starting", "time", Verdict::Pending),
            (Goal::Ready, "Unknown", "outside", Verdict::Pending),
            (Goal::Ready, "Error", "user", Verdict::Stuck),
            (Goal::Ready, "Completed", "user", Verdict::Stuck),
            (Goal::Up, "Completed", "user", Verdict::Met),
            (Goal::Stopped, "Stopped", "user", Verdict::Met),
            (Goal::Stopped, "Ready", "", Verdict::Pending),
            (Goal::Completed, "Completed", "user", Verdict::Met),
            (Goal::Completed, "Error", "user", Verdict::Stuck),
            (Goal::Deleted, "Deleting", "time", Verdict::Pending),
        ] {
            assert_eq!(goal.judge(&sandbox(phase, waits_for)), expect, "{goal:?} {phase}");
        }
    }
}
