//! Why a verb or a question was refused, in the three parts that a user reads.

use sandkeep_store::StoreError;

/// What kind of refusal it is; the API turns it into a status, the CLI into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request makes no sense (exit 2).
    Invalid,
    /// There is no such sandbox or workspace (exit 3).
    NotFound,
    /// The name is taken (exit 4).
    AlreadyExists,
    /// Not while it is in this state (exit 4).
    Conflict,
    /// An engine or a session cannot be reached (exit 5).
    Unreachable,
    /// It took too long; work goes on (exit 6).
    TimedOut,
    /// Not permitted (exit 7).
    NotPermitted,
    /// The gateway's disk is full (exit 1).
    DiskFull,
    /// Anything else (exit 1).
    Failed,
}

impl RefusalKind {
    /// The CLI's exit code.
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Invalid => 2,
            Self::NotFound => 3,
            Self::AlreadyExists | Self::Conflict => 4,
            Self::Unreachable => 5,
            Self::TimedOut => 6,
            Self::NotPermitted => 7,
            Self::DiskFull | Self::Failed => 1,
        }
    }
}

/// A refusal: what failed, why, what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Refusal {
    /// What kind.
    pub kind: RefusalKind,
    /// One CamelCase word for programs.
    pub reason: &'static str,
    /// What failed, a clause: `sandbox "lab" was not made`.
    pub what: String,
    /// Why, a clause.
    pub why: String,
    /// What to do next, a clause or a command; may be empty.
    pub next: String,
}

impl Refusal {
    /// A refusal with everything in it.
    pub fn new(
        kind: RefusalKind,
        reason: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { kind, reason, what: what.into(), why: why.into(), next: next.into() }
    }

    /// The store refused to keep what was asked; nothing was changed.
    pub fn of_store(what: impl Into<String>, error: &StoreError) -> Self {
        let what = what.into();
        match error {
            StoreError::DiskFull => Self::new(
                RefusalKind::DiskFull,
                "DiskFull",
                what,
                "the disk of the gateway's home is full; nothing was changed",
                "make room; stop and delete still work",
            ),
            StoreError::Conflict { .. } => Self::new(
                RefusalKind::Conflict,
                "Conflict",
                what,
                "it was changed at the same moment by someone else",
                "try again",
            ),
            other => Self::new(
                RefusalKind::Failed,
                "StoreUnavailable",
                what,
                other.to_string(),
                "see: sandkeep gateway status",
            ),
        }
    }
}
