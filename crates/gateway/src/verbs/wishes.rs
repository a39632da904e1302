//! What a user wishes of a new sandbox, before it has an id and a workspace.

use std::collections::BTreeMap;

use sandkeep_core::{Image, Limits, Mount, Name, Privilege, RestartPolicy, Spec, WorkspaceId};

/// A spec without the parts that the gateway gives. Parsed from an API message; checked by
/// [`check`](super::check::check) before anything is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wishes {
    /// Where the root file system comes from.
    pub image: Image,
    /// The main command; empty: the sandbox just stays up.
    pub command: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// `name|uid[:group|gid]`.
    pub user: Option<String>,
    /// Absolute path inside.
    pub workdir: Option<String>,
    /// Resource limits.
    pub limits: Limits,
    /// Whether the command is run again.
    pub restart: RestartPolicy,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// Host paths shown inside.
    pub mounts: Vec<Mount>,
    /// Host directories of tools.
    pub tools: Vec<String>,
    /// Extra rights.
    pub privileges: Vec<Privilege>,
    /// Accept limits that cannot be enforced.
    pub unenforced: bool,
    /// Remove the sandbox once its command has a result.
    pub remove_when_done: bool,
    /// A terminal for the main command.
    pub tty: bool,
    /// Stdin for the main command.
    pub stdin: bool,
    /// A client attaches to the main command.
    pub attach: bool,
    /// Milliseconds of grace on stop.
    pub stop_grace_ms: u64,
}

impl Wishes {
    /// The spec, with its workspace.
    pub fn into_spec(self, workspace: WorkspaceId, workspace_name: Name, made: bool) -> Spec {
        Spec {
            image: self.image,
            command: self.command,
            env: self.env,
            user: self.user,
            workdir: self.workdir,
            workspace,
            workspace_name,
            limits: self.limits,
            restart: self.restart,
            labels: self.labels,
            mounts: self.mounts,
            tools: self.tools,
            privileges: self.privileges,
            unenforced: self.unenforced,
            remove_when_done: self.remove_when_done,
            made_workspace: made,
            tty: self.tty,
            stdin: self.stdin,
            attach: self.attach,
            stop_grace_ms: self.stop_grace_ms,
        }
    }
}
