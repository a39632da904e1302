//! The `Driver` trait: what every runtime must be able to do for Sandkeep.
//!
//! A driver knows one runtime. It looks and it acts; it takes no decision about a sandbox's life,
//! and it keeps nothing that cannot be found again by looking. Every call is idempotent: a call
//! that is repeated, or that was cut off half-way, ends where one call would have.
//!
//! Deliberately absent: records, intent, retries, backoff, phases.

mod error;
mod request;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "simulated")]
pub mod simulated;

pub use error::{DriverError, ErrorKind};
pub use request::{
    Capabilities, CreateRequest, FoundBacking, FoundWorkspace, SessionPeer, WatchEvent,
    WorkspaceReport, WorkspaceRequest,
};

use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sandkeep_core::{BackingReport, SandboxId, WorkspaceId};
use tokio::io::{AsyncRead, AsyncWrite};

/// A proved, ordered byte stream to a supervisor.
pub trait SessionStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> SessionStream for T {}

/// One runtime. Cheap to call concurrently for different sandboxes; the caller sees to it that
/// there is one call at a time for one sandbox (`inspect`, `list` and `open_session` excepted).
#[async_trait]
pub trait Driver: Send + Sync + std::fmt::Debug + 'static {
    /// The name in records and on the command line: `local`, `docker` …
    fn name(&self) -> &str;

    /// What this driver can do; fixed for the life of the process.
    fn capabilities(&self) -> Capabilities;

    /// A marker of ours in the engine, made when missing: names this engine and no other.
    async fn identity(&self) -> Result<String, DriverError>;

    /// Every backing that carries this gateway's id, in any state.
    async fn list(&self) -> Result<Vec<FoundBacking>, DriverError>;

    /// Every workspace that carries this gateway's id.
    async fn list_workspaces(&self) -> Result<Vec<FoundWorkspace>, DriverError>;

    /// Looks at one sandbox's backing. `Backing::Absent` only when the engine answered "not found"
    /// for that exact id; whatever else goes wrong is an error.
    async fn inspect(&self, id: &SandboxId) -> Result<BackingReport, DriverError>;

    /// Hints where to look again; may be late, doubled or lost. Ends never; a broken connection is
    /// [`WatchEvent::Resync`] after it is mended.
    fn watch(&self) -> BoxStream<'static, WatchEvent>;

    /// Makes the workspace when `request.marked` is false and it is not there, and marks it with
    /// its id. A marked one that is not there, or does not carry its mark, is reported
    /// [`WorkspaceReport::Missing`] and nothing is made.
    async fn ensure_workspace(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError>;

    /// Makes the backing, not started. One that is there with the same id is adopted when it
    /// carries the same generation, else replaced in a way that keeps its root file system where
    /// [`Capabilities::keeps_rootfs`].
    async fn create(&self, request: &CreateRequest) -> Result<(), DriverError>;

    /// Starts it: rebuilds mounts, session directory and whatever a reboot takes away, checks the
    /// workspace's mark, starts PID 1. A backing that runs already is left alone. `Starting` or
    /// `Running` is reported.
    async fn start(&self, id: &SandboxId) -> Result<BackingReport, DriverError>;

    /// Asks PID 1 to end (SIGTERM), kills after `grace`, returns when it is down.
    async fn stop(&self, id: &SandboxId, grace: Duration) -> Result<(), DriverError>;

    /// Ends it at once, returns when it is down.
    async fn kill(&self, id: &SandboxId) -> Result<(), DriverError>;

    /// Freezes it ([`Capabilities::freeze`]).
    async fn freeze(&self, id: &SandboxId) -> Result<(), DriverError>;

    /// Thaws it.
    async fn thaw(&self, id: &SandboxId) -> Result<(), DriverError>;

    /// Removes the backing, its root file system and all that carries its id, whatever is missing
    /// already. The workspace stays. Returns when nothing is left.
    async fn remove(&self, id: &SandboxId) -> Result<(), DriverError>;

    /// Removes a workspace's bytes and mark. Absent: done.
    async fn discard_workspace(&self, id: &WorkspaceId) -> Result<(), DriverError>;

    /// Waits for a session with PID 1 of exactly this run of the backing, proved to be it, and
    /// hands it over with the peer's proof. Any process inside can reach the socket; none but
    /// PID 1 is ever handed over. Dropping the future stops waiting.
    async fn open_session(
        &self,
        id: &SandboxId,
        backing_run: &str,
    ) -> Result<(Box<dyn SessionStream>, SessionPeer), DriverError>;
}
