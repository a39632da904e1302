//! What goes into a driver and what comes out of it.

use sandkeep_core::{
    Backing, GatewayId, Identity, Name, Record, SandboxId, Spec, Workspace, WorkspaceId,
};
use serde::{Deserialize, Serialize};

/// What a driver can do. A difference between drivers is one of these, or a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// `freeze` and `thaw` work.
    pub freeze: bool,
    /// The root file system survives stop and start.
    pub keeps_rootfs: bool,
    /// CPU limits are enforced.
    pub cpu_limit: bool,
    /// Memory limits are enforced.
    pub memory_limit: bool,
    /// Process limits are enforced.
    pub pids_limit: bool,
    /// Disk limits are enforced.
    pub disk_limit: bool,
    /// `Image::Host` works.
    pub host_image: bool,
    /// `Image::Directory` works.
    pub directory_image: bool,
    /// `Image::Oci` works.
    pub oci_image: bool,
    /// The engine tells when something ran out of memory.
    pub tells_oom: bool,
}

/// What a workspace must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceRequest {
    /// Its id, and mark.
    pub id: WorkspaceId,
    /// Its name, carried beside the mark so that a lost store can be rebuilt.
    pub name: Name,
    /// It was marked once: make nothing.
    pub marked: bool,
}

/// What `ensure_workspace` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceReport {
    /// It is there and marked.
    Bound {
        /// Where the bytes are: a path, a volume name.
        handle: String,
    },
    /// It was marked once and is not there, or has lost its mark. Nothing was made.
    Missing {
        /// What was looked for, and where.
        message: String,
    },
}

/// Everything that a backing is made from, carried by the backing itself so that a lost store can
/// be rebuilt from what is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateRequest {
    /// The sandbox; names of backings derive from this alone.
    pub id: SandboxId,
    /// What the user calls it.
    pub name: Name,
    /// Host name, session key.
    pub identity: Identity,
    /// The wished configuration.
    pub spec: Spec,
    /// Generation of the intent it is made from.
    pub generation: u64,
    /// Run counter at that time.
    pub run: u64,
}

impl CreateRequest {
    /// From a record as it stands.
    pub fn of(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            identity: record.identity.clone(),
            spec: record.intent.spec.clone(),
            generation: record.intent.generation,
            run: record.intent.run,
        }
    }
}

/// A backing found by label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBacking {
    /// The sandbox it says it is for.
    pub id: SandboxId,
    /// The gateway it says it belongs to.
    pub gateway: GatewayId,
    /// Its state.
    pub backing: Backing,
    /// Everything it was made from; `None`: it cannot be read.
    pub made_from: Option<CreateRequest>,
}

/// A workspace found by its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundWorkspace {
    /// By its mark.
    pub id: WorkspaceId,
    /// By its mark.
    pub name: Name,
    /// Where the bytes are.
    pub handle: String,
}

impl FoundWorkspace {
    /// Whether `workspace` is the one that was found.
    pub fn is(&self, workspace: &Workspace) -> bool {
        self.id == workspace.id
    }
}

/// Proof of who a session's peer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPeer {
    /// The run of the backing whose PID 1 it is.
    pub backing_run: String,
}

/// A hint where to look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// At this sandbox.
    Look(SandboxId),
    /// At everything: something may have been missed.
    Resync,
}
