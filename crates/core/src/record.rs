//! The record of one sandbox: the four facts side by side, and who it is.

use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::attempt::Attempt;
use crate::id::{Name, SandboxId};
use crate::intent::Intent;
use crate::observation::Observation;
use crate::time::Timestamp;

/// What makes a sandbox the same one for life; made once, never again by a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Host name inside.
    pub hostname: String,
    /// 32 random bytes in hexadecimal, for sessions over transports that do not prove the peer.
    pub session_key: String,
}

/// Everything that is durable about one sandbox. Facts of sessions and probes are in
/// [`crate::Live`] and in memory only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// For life.
    pub id: SandboxId,
    /// What the user calls it. Free again at the moment of `delete`.
    pub name: Name,
    /// The driver that backs it.
    pub driver: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Made once.
    pub identity: Identity,
    /// Written by verbs.
    pub intent: Intent,
    /// Written by the reconciler from what was seen.
    pub observed: Observation,
    /// Written by the reconciler before it acts.
    pub attempt: Attempt,
    /// Written by the activity tracker.
    #[serde(default)]
    pub activity: Activity,
    /// Store revision, for compare-and-set.
    #[serde(default)]
    pub revision: u64,
}
