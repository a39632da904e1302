//! What the reconciler is trying. Written by the reconciler, before the backend is called.

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::decide::Action;
use crate::id::SandboxId;
use crate::time::Timestamp;

/// What one series of backend calls is to bring about. Several calls (workspace, create, start)
/// make one operation, so a create costs one durable write here and not three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Workspace, backing and its run: up.
    BringUp,
    /// Down, kept on disk.
    TakeDown,
    /// Away with everything on the backend.
    Remove,
}

/// An error of a backend call, as the user will read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorNote {
    /// Which step failed: `workspace`, `pull`, `create`, `start`, `session`, `stop`, `remove` …
    pub stage: String,
    /// One CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// When it was seen.
    pub at: Timestamp,
}

/// The order to run the main command, durable before the supervisor hears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// The run that was ordered.
    pub run: u64,
    /// In which incarnation.
    pub incarnation: u64,
    /// How often this run has been started again, by its policy or after a loss; 0: the first
    /// time. (run, restart) names one execution of the command and only ever rises.
    #[serde(default)]
    pub restart: u32,
    /// When.
    pub at: Timestamp,
}

/// What kind of thing went wrong: it says who is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// May well work next time.
    Transient,
    /// Something outside Sandkeep has to mend itself or be mended (an engine, a full disk).
    Outside,
    /// What was asked for cannot be done until the spec, or what it names, changes.
    Invalid,
}

/// The reconciler's own progress with one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attempt {
    /// What is being tried; `None`: nothing was ever needed.
    #[serde(default)]
    pub operation: Option<Operation>,
    /// The generation it is tried for; another one starts the count anew.
    #[serde(default)]
    pub generation: u64,
    /// Tries of this operation that failed or were lost since it last worked for
    /// [`crate::backoff::STEADY_AFTER`]: the number of the current try, 0 for the first.
    #[serde(default)]
    pub number: u32,
    /// When this operation was begun, or its latest loss was seen.
    #[serde(default)]
    pub started_at: Timestamp,
    /// Not before this time; `None`: now.
    #[serde(default)]
    pub next_try_at: Option<Timestamp>,
    /// What went wrong first, kept until Ready again.
    #[serde(default)]
    pub first_error: Option<ErrorNote>,
    /// What went wrong last.
    #[serde(default)]
    pub latest_error: Option<ErrorNote>,
    /// The latest order to run the main command.
    #[serde(default)]
    pub go: Option<Go>,
    /// Kind of the latest error; `None`: the current try has not failed.
    #[serde(default)]
    pub failure: Option<FailureKind>,
    /// Incarnations above this one came out of this try: one that is down again was lost.
    #[serde(default)]
    pub from_incarnation: u64,
    /// The current try makes good a loss that no verb asked for.
    #[serde(default)]
    pub heals_loss: bool,
    /// The newest incarnation that was reached and needed no `go`, because its run had ended: as
    /// one that had `go`, it is never killed by us.
    #[serde(default)]
    pub reached: u64,
    /// The workspace was missing when this try began, and is to be looked for once more.
    #[serde(default)]
    pub seeks_workspace: bool,
    /// The removal was carried out to its end once (operation Remove only).
    #[serde(default)]
    pub removed: bool,
}

impl Attempt {
    /// The first try of an operation for a sandbox that nothing was tried for yet.
    #[must_use]
    pub fn begun(operation: Operation, generation: u64, now: Timestamp) -> Self {
        Self { operation: Some(operation), generation, started_at: now, ..Self::default() }
    }
}

/// The attempt after an action failed: to be stored. The first error is kept, the next try is set.
///
/// `attempt` is the one that was stored before the action was carried out.
pub fn failed(
    attempt: &Attempt,
    id: &SandboxId,
    note: ErrorNote,
    kind: FailureKind,
    now: Timestamp,
) -> Attempt {
    let mut next = attempt.clone();
    next.number = attempt.number.saturating_add(1);
    next.next_try_at = Some(now + backoff::wait_before(id, next.number));
    next.failure = Some(if may_be_hopeless(&note.stage) { kind } else { kind.but_tried_again() });
    next.first_error.get_or_insert_with(|| note.clone());
    next.latest_error = Some(note);
    next
}

/// What is there can always be stopped, thawed or spoken to some time: only making and starting can
/// be hopeless as asked for.
fn may_be_hopeless(stage: &str) -> bool {
    !matches!(stage, "stop" | "kill" | "thaw" | "session")
}

impl FailureKind {
    const fn but_tried_again(self) -> Self {
        match self {
            Self::Invalid => Self::Transient,
            other => other,
        }
    }
}

/// The attempt after an action was carried out: to be stored; `None`: as stored.
pub fn succeeded(attempt: &Attempt, action: &Action) -> Option<Attempt> {
    match action {
        Action::Remove if !attempt.removed => Some(Attempt { removed: true, ..attempt.clone() }),
        // What was found is in the observation, stored before this.
        Action::EnsureWorkspace if attempt.seeks_workspace => {
            Some(Attempt { seeks_workspace: false, ..attempt.clone() })
        }
        _ => None,
    }
}

/// The attempt after an action was reported done though a new look shows that nothing changed:
/// the caller saw the same action decided again. Without this a lying engine makes a hot loop.
pub fn without_effect(
    attempt: &Attempt,
    id: &SandboxId,
    action: &Action,
    now: Timestamp,
) -> Attempt {
    let note = ErrorNote {
        stage: action.stage().to_owned(),
        reason: crate::Reason::NoEffect.to_string(),
        message: format!("{} was reported done, but nothing has changed", action.stage()),
        at: now,
    };
    failed(attempt, id, note, FailureKind::Transient, now)
}
