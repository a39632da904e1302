//! What a driver can fail with, by what the reconciler can do about it.

use std::fmt;

/// What the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The engine does not answer: try again, conclude nothing.
    Unavailable,
    /// The engine answers: there is no such thing.
    NotFound,
    /// Something else has the place: look, adopt what is ours, wait for what is not.
    Conflict,
    /// What was asked for cannot be done here until the spec changes.
    Invalid,
    /// Out of disk, memory, ids: try again later.
    Exhausted,
    /// Anything else: try again.
    Internal,
}

/// An error of a driver call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DriverError {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// Which step failed: `workspace`, `pull`, `create`, `start`, `session`, `stop`, `remove` …
    pub stage: &'static str,
    /// One CamelCase word for the user.
    pub reason: String,
    /// A sentence for the user, the whole cause in it.
    pub message: String,
}

impl DriverError {
    /// An error with everything in it.
    pub fn new(
        kind: ErrorKind,
        stage: &'static str,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, stage, reason: reason.into(), message: message.into() }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.message)
    }
}
