//! The files that outlive every backing: an object of its own, with at most one holder.

use serde::{Deserialize, Serialize};

use crate::id::{Name, SandboxId, WorkspaceId};
use crate::time::Timestamp;

/// A workspace's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// For life.
    pub id: WorkspaceId,
    /// What the user calls it; unique among workspaces.
    pub name: Name,
    /// The driver that keeps it.
    pub driver: String,
    /// The engine that keeps it, once known.
    #[serde(default)]
    pub engine: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// It was ensured and marked with its id once. From then on a missing or unmarked one is an
    /// error, never made anew.
    #[serde(default)]
    pub marked: bool,
    /// The one sandbox that may mount it. Passed on only when the old holder's backing is proved
    /// gone.
    #[serde(default)]
    pub holder: Option<SandboxId>,
    /// The user asked for it to be discarded; carried out once nothing holds it.
    #[serde(default)]
    pub discard: bool,
    /// Where the bytes are, as the driver tells it (a path, a volume name).
    #[serde(default)]
    pub handle: Option<String>,
    /// Size in bytes when last measured.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Store revision, for compare-and-set.
    #[serde(default)]
    pub revision: u64,
}
