//! What a sandbox should be like: the user's wishes, complete enough to replay after any loss.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{Name, WorkspaceId};

/// The wished configuration, stored whole in the record and carried by the backing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Where the root file system comes from.
    pub image: Image,
    /// The main command, argv as given; empty: the sandbox just stays up.
    #[serde(default)]
    pub command: Vec<String>,
    /// Environment of the main command and of every exec.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// `name|uid[:group|gid]` inside; `None`: root of the sandbox.
    #[serde(default)]
    pub user: Option<String>,
    /// Absolute path inside; `None`: /workspace.
    #[serde(default)]
    pub workdir: Option<String>,
    /// The workspace mounted at /workspace.
    pub workspace: WorkspaceId,
    /// Its name when the sandbox was made (for messages).
    pub workspace_name: Name,
    /// Resource limits.
    #[serde(default)]
    pub limits: Limits,
    /// Whether the main command is run again when it ends or is lost.
    pub restart: RestartPolicy,
    /// The user's labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Host paths shown inside.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Host directories of tools, shown read-only at their own path.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Extra rights inside the user namespace.
    #[serde(default)]
    pub privileges: Vec<Privilege>,
    /// Limits that the backend cannot enforce are accepted.
    #[serde(default)]
    pub unenforced: bool,
    /// Remove the sandbox, and the workspace that it made, once the command has a result.
    #[serde(default)]
    pub remove_when_done: bool,
    /// The workspace was made for this sandbox alone (`--rm` may discard it).
    #[serde(default)]
    pub made_workspace: bool,
    /// The main command gets a terminal.
    #[serde(default)]
    pub tty: bool,
    /// The main command's stdin can be attached; otherwise it is /dev/null.
    #[serde(default)]
    pub stdin: bool,
    /// A client attaches to the main command: its output waits for that client for a while.
    #[serde(default)]
    pub attach: bool,
    /// Milliseconds between the polite signal and the kill on stop.
    #[serde(default = "default_grace_ms")]
    pub stop_grace_ms: u64,
}

/// As Docker: ten seconds for a main command to end by itself.
const fn default_grace_ms() -> u64 {
    10_000
}

impl Spec {
    /// Nothing was wished but this workspace: the host's system, no command, no limits.
    pub fn bare(workspace: WorkspaceId, workspace_name: Name) -> Self {
        Self {
            image: Image::Host,
            command: Vec::new(),
            env: BTreeMap::new(),
            user: None,
            workdir: None,
            workspace,
            workspace_name,
            limits: Limits::default(),
            restart: RestartPolicy::OnFailure,
            labels: BTreeMap::new(),
            mounts: Vec::new(),
            tools: Vec::new(),
            privileges: Vec::new(),
            unenforced: false,
            remove_when_done: false,
            made_workspace: false,
            tty: false,
            stdin: false,
            attach: false,
            stop_grace_ms: 10_000,
        }
    }

    /// Time between the polite signal and the kill on stop.
    pub const fn stop_grace(&self) -> Duration {
        Duration::from_millis(self.stop_grace_ms)
    }
}

/// Where the root file system comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// The host's own system, shown through an overlay (local driver only).
    Host,
    /// A directory of the host that holds a root file system; absolute path.
    Directory(String),
    /// An OCI image reference.
    Oci(String),
}

/// What happens when the main command ends or is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// One run; a lost run is told (`RunLost`), not repeated.
    Never,
    /// Again after a loss or a non-zero exit.
    OnFailure,
    /// Again whatever happened.
    Always,
}

/// Resource limits; `None` = not limited by Sandkeep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Thousandths of a core.
    #[serde(default)]
    pub cpu_millis: Option<u64>,
    /// Bytes of memory, page cache included.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(default)]
    pub pids: Option<u32>,
    /// Bytes of disk for the root file system and the workspace together.
    #[serde(default)]
    pub disk_bytes: Option<u64>,
}

/// A path of the host shown inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute path on the engine's host.
    pub source: String,
    /// Absolute path inside.
    pub target: String,
    /// Writes are refused inside.
    pub read_only: bool,
}

/// Extra rights inside the user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privilege {
    /// What a package tool needs: chown, setuid and the like, inside the user namespace only.
    Packages,
}
