//! What the driver asks the helper, and what comes back.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use sandkeep_core::{Image, Mount};
use sandkeep_driver::{DriverError, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::config::{Guard, Step};
use crate::failure::io_failure;
use crate::process::Birth;
use crate::tree::Left;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Launch(Box<Launch>),
    Remount(Remount),
    Clear(Clear),
}

/// Everything that PID 1 is made from.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) id: String,
    pub(crate) hostname: String,
    pub(crate) sandbox_dir: PathBuf,
    pub(crate) runtime_dir: PathBuf,
    pub(crate) template: PathBuf,
    pub(crate) workspace_files: PathBuf,
    pub(crate) supervisor: PathBuf,
    pub(crate) init_args: Vec<String>,
    pub(crate) image: Image,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) tools: Vec<String>,
    pub(crate) uid_base: u32,
    pub(crate) uid_count: u32,
    /// Path of the group in every hierarchy, without a leading slash.
    pub(crate) cgroup: String,
    pub(crate) limits: Enforced,
    pub(crate) generation: u64,
    pub(crate) boot_id: String,
    pub(crate) without_guards: Vec<Guard>,
    pub(crate) dies_at: Option<Step>,
}

impl Launch {
    /// Whether a guard is up.
    pub(crate) fn guards(&self, guard: Guard) -> bool {
        !self.without_guards.contains(&guard)
    }
}

/// The limits that are set; what is absent is not limited.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Enforced {
    pub(crate) pids: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
    /// Swap counts into the memory limit.
    pub(crate) swap: bool,
    pub(crate) cpu_millis: Option<u64>,
}

/// Put a new session directory in place of one that was removed while PID 1 runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Remount {
    pub(crate) birth: Birth,
    pub(crate) session_dir: PathBuf,
    pub(crate) supervisor: PathBuf,
}

/// Remove what is in each of these directories, with the agent's identity. The directories stay;
/// one that is not there, or is none, has nothing in it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Clear {
    pub(crate) trees: Vec<PathBuf>,
    pub(crate) uid_base: u32,
    pub(crate) uid_count: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Launched {
        birth: Birth,
    },
    Remounted,
    Cleared(Left),
    /// Another helper is at work for this sandbox, or something of it is alive: look again.
    Busy {
        message: String,
    },
    Failed(Failure),
}

/// A [`DriverError`] on its way to the driver.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) stage: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum FailureKind {
    Unavailable,
    NotFound,
    Conflict,
    Invalid,
    Exhausted,
    Internal,
}

impl Failure {
    pub(crate) fn internal(stage: &str, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Internal,
            stage: stage.to_owned(),
            reason: "LocalFailure".to_owned(),
            message: message.into(),
        }
    }

    pub(crate) fn invalid(reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Invalid,
            stage: "start".to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        let kind = match error.kind {
            ErrorKind::Unavailable => FailureKind::Unavailable,
            ErrorKind::NotFound => FailureKind::NotFound,
            ErrorKind::Conflict => FailureKind::Conflict,
            ErrorKind::Invalid => FailureKind::Invalid,
            ErrorKind::Exhausted => FailureKind::Exhausted,
            ErrorKind::Internal => FailureKind::Internal,
        };
        let stage = error.stage.to_owned();
        Self { kind, stage, reason: error.reason, message: error.message }
    }
}

impl Failure {
    /// As the driver reports it; the stage is always `start` or `session` by then.
    pub(crate) fn into_error(self, stage: &'static str) -> DriverError {
        let kind = match self.kind {
            FailureKind::Unavailable => ErrorKind::Unavailable,
            FailureKind::NotFound => ErrorKind::NotFound,
            FailureKind::Conflict => ErrorKind::Conflict,
            FailureKind::Invalid => ErrorKind::Invalid,
            FailureKind::Exhausted => ErrorKind::Exhausted,
            FailureKind::Internal => ErrorKind::Internal,
        };
        DriverError::new(kind, stage, self.reason, self.message)
    }
}

/// Says what was being done when an input or output error came.
pub(crate) trait While<T> {
    fn when(self, what: impl Display) -> Result<T, Failure>;
}

impl<T> While<T> for io::Result<T> {
    fn when(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| io_failure("start", what, &error).into())
    }
}

impl<T> While<T> for Result<T, rustix::io::Errno> {
    fn when(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(io::Error::from).when(what)
    }
}
