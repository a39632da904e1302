//! What the reconciler needs of sessions, so that simulation can stand in for them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sandkeep_core::{Go, RunResult, SandboxId, Session, SessionNotes, Spec};
use sandkeep_driver::Driver;

/// With whom a session is wanted.
#[derive(Debug, Clone)]
pub struct SessionTarget {
    /// The sandbox.
    pub id: SandboxId,
    /// Its driver, which opens the stream and proves the peer.
    pub driver: Arc<dyn Driver>,
    /// The run of the backing whose PID 1 it has to be.
    pub backing_run: String,
    /// The number of that run.
    pub incarnation: u64,
}

/// The order to run the main command.
#[derive(Debug, Clone)]
pub struct GoOrder {
    /// Durable already.
    pub go: Go,
    /// What to run, and how.
    pub spec: Spec,
}

/// Why something could not be asked of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// There is no session with the incarnation that was meant.
    #[error("there is no session with the sandbox's supervisor")]
    NotConnected,
    /// The session ended before the answer came.
    #[error("the session with the sandbox's supervisor was lost")]
    Lost,
    /// The supervisor refused.
    #[error("the supervisor refused: {message}")]
    Refused {
        /// One CamelCase word.
        reason: String,
        /// A sentence.
        message: String,
    },
}

/// Sessions with supervisors. What they learn wakes the reconciler, which then asks here.
#[async_trait]
pub trait Sessions: Send + Sync + fmt::Debug + 'static {
    /// From now on keep a session open with this run of the backing: connect, probe, reconnect for
    /// ever. Idempotent; another incarnation than before ends the old session.
    fn want(&self, target: SessionTarget);

    /// No session is wanted any more: the one that is there ends.
    fn release(&self, id: &SandboxId);

    /// What is known of the session now.
    fn session(&self, id: &SandboxId) -> Session;

    /// What else was told: missing guards, and why there is no session.
    fn notes(&self, _id: &SandboxId) -> SessionNotes {
        SessionNotes::default()
    }

    /// The newest result that the supervisor told and that is not stored yet.
    fn result(&self, id: &SandboxId) -> Option<RunResult>;

    /// The result of this execution is durable: the supervisor may forget it.
    fn result_stored(&self, id: &SandboxId, run: u64, restart: u32);

    /// Tells the supervisor to run the main command. Returns once the order was written to the
    /// session of its incarnation; that it was taken shows in `session`, which wakes the
    /// reconciler.
    async fn go(&self, id: &SandboxId, order: GoOrder) -> Result<(), SessionError>;

    /// The sandbox is gone: its logs and whatever else is kept for it go too.
    async fn forget(&self, id: &SandboxId);
}
