//! The hub: all sessions of a gateway, as the reconciler and the API see them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use sandkeep_core::{RunResult, SandboxId, Session, Spec};

use crate::clock::Clock;
use crate::session::exec::{ExecRequest, ExecStream};
use crate::session::logs::LogStore;
use crate::sessions::{GoOrder, SessionError, SessionTarget, Sessions};

/// Called with a sandbox whose session facts changed. Must not block.
pub type Wake = Arc<dyn Fn(&SandboxId) + Send + Sync>;

/// All sessions of a gateway.
pub struct SessionHub {
    logs: Arc<LogStore>,
}

impl fmt::Debug for SessionHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHub").finish_non_exhaustive()
    }
}

impl SessionHub {
    /// No sessions yet. `logs` is the directory of the home that keeps logs. Must be called, and
    /// used, inside a tokio runtime.
    pub fn new(logs: PathBuf, clock: Arc<dyn Clock>, wake: Wake) -> Arc<Self> {
        let _unused = wake;
        Arc::new(Self { logs: LogStore::new(logs, clock) })
    }

    /// The logs.
    pub fn logs(&self) -> &Arc<LogStore> {
        &self.logs
    }

    /// Starts a process inside and attaches to it. `spec` is the sandbox's: env, user and workdir
    /// are its unless the request says otherwise. Whether the supervisor could do it comes from
    /// [`ExecStream::next`].
    pub fn exec_open(
        &self,
        id: &SandboxId,
        spec: &Spec,
        request: ExecRequest,
    ) -> Result<ExecStream, SessionError> {
        let _unused = (id, spec, request);
        Err(SessionError::NotConnected)
    }

    /// Attaches to a known exec, or to `main-RUN`. The client has stdout and stderr up to these
    /// offsets.
    pub fn exec_attach(
        &self,
        id: &SandboxId,
        exec_id: &str,
        stdout_offset: u64,
        stderr_offset: u64,
    ) -> Result<ExecStream, SessionError> {
        let _unused = (id, exec_id, stdout_offset, stderr_offset);
        Err(SessionError::NotConnected)
    }
}

#[async_trait]
impl Sessions for SessionHub {
    fn want(&self, target: SessionTarget) {
        let _unused = target;
    }

    fn release(&self, id: &SandboxId) {
        let _unused = id;
    }

    fn session(&self, _id: &SandboxId) -> Session {
        Session::None
    }

    fn result(&self, _id: &SandboxId) -> Option<RunResult> {
        None
    }

    fn result_stored(&self, id: &SandboxId, run: u64, restart: u32) {
        let _unused = (id, run, restart);
    }

    async fn go(&self, _id: &SandboxId, _order: GoOrder) -> Result<(), SessionError> {
        Err(SessionError::NotConnected)
    }

    async fn forget(&self, id: &SandboxId) {
        self.logs.forget(id).await;
    }
}
