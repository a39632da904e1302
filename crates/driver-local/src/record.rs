//! What is written beside a sandbox: its label and its newest run.

use sandkeep_core::{GatewayId, Name, WorkspaceId};
use sandkeep_driver::CreateRequest;
use serde::{Deserialize, Serialize};

use crate::process::Birth;

/// `backing.json`: whose it is, and everything that it is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) gateway: GatewayId,
    pub(crate) made_from: CreateRequest,
}

/// `mark.json`: which workspace the bytes beside it are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) gateway: GatewayId,
    pub(crate) id: WorkspaceId,
    pub(crate) name: Name,
}

/// `engine.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Engine {
    pub(crate) id: String,
}

/// `runtime.json`: the newest run. Written by the helper while PID 1 waits to be let go, so no
/// PID 1 ever runs that is not on record; means nothing on another boot, so it need not be durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) birth: Birth,
    /// Of the intent that it was started from.
    pub(crate) generation: u64,
    pub(crate) session_dir: SessionDir,
    /// The kernel killed in it for memory; kept when its control group goes.
    #[serde(default)]
    pub(crate) oom: bool,
}

/// The very directory that is mounted inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionDir {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}
