//! What the reconciler is trying. Written by the reconciler, before the backend is called.

use serde::{Deserialize, Serialize};

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
    /// When.
    pub at: Timestamp,
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
    /// Tries of this operation since it last worked for [`crate::backoff::STEADY_AFTER`].
    #[serde(default)]
    pub number: u32,
    /// When the latest try began.
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
}
