//! What was asked for. Written by verbs alone.

use serde::{Deserialize, Serialize};

use crate::spec::Spec;
use crate::time::Timestamp;

/// The state that a sandbox should be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// Up, with its command running where it has one.
    Running,
    /// Down, everything on disk kept.
    Stopped,
    /// Gone, the workspace kept unless `discard_workspace`. Final.
    Deleted,
}

/// Everything a user asked for, durable before the verb is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The state asked for last.
    pub want: Want,
    /// The wished configuration.
    pub spec: Spec,
    /// Rises by one with each change of intent or spec; starts at 1.
    pub generation: u64,
    /// How often the user asked for the command to run; starts at 1. `restart` always raises it,
    /// `start` when the current run has ended.
    pub run: u64,
    /// The command of the current run needs an incarnation above this one: `restart`, and `start`
    /// after `stop`, set it to the newest incarnation seen, so an older backing is stopped first.
    #[serde(default)]
    pub fresh_after: u64,
    /// Generation at which `spec` changed last; a backing that carries a lower one is replaced
    /// before its next start, keeping its root file system. 0: never changed.
    #[serde(default)]
    pub spec_generation: u64,
    /// The workspace goes with the sandbox (meaningful with `Deleted` only).
    #[serde(default)]
    pub discard_workspace: bool,
    /// The record goes even though the engine cannot be asked (meaningful with `Deleted` only).
    #[serde(default)]
    pub forget: bool,
    /// Who asked last: `uid:1000`, `sandkeep` for what the gateway carries out itself (`--rm`).
    pub by: String,
    /// When it was asked.
    pub at: Timestamp,
}

impl Intent {
    /// The intent of a sandbox that was just asked for: up, generation 1, run 1.
    pub const fn first(spec: Spec, by: String, at: Timestamp) -> Self {
        Self {
            want: Want::Running,
            spec,
            generation: 1,
            run: 1,
            fresh_after: 0,
            spec_generation: 1,
            discard_workspace: false,
            forget: false,
            by,
            at,
        }
    }
}
