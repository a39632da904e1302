//! The simulated driver, with supervisors that can be talked to and cut off.

use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sandkeep_core::{BackingReport, SandboxId, WorkspaceId};
use sandkeep_driver::simulated::SimulatedDriver;
use sandkeep_driver::{
    Capabilities, CreateRequest, Driver, DriverError, FoundBacking, FoundWorkspace, SessionPeer,
    SessionStream, WatchEvent, WorkspaceReport, WorkspaceRequest,
};
use tokio::sync::watch;

use crate::supervisor::Supervisor;

/// Bytes under way in the pipe between the two sides.
const PIPE_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct TalkingDriver {
    inner: SimulatedDriver,
    /// `false`: no session comes about, and those that are there end.
    connects: watch::Sender<bool>,
}

impl TalkingDriver {
    pub(crate) fn new(inner: SimulatedDriver) -> Self {
        Self { inner, connects: watch::Sender::new(true) }
    }

    /// Cuts all sessions and lets none come about, or lets them again.
    pub(crate) fn set_connects(&self, connects: bool) {
        self.connects.send_replace(connects);
    }
}

#[async_trait]
impl Driver for TalkingDriver {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn identity(&self) -> Result<String, DriverError> {
        self.inner.identity().await
    }

    async fn list(&self) -> Result<Vec<FoundBacking>, DriverError> {
        self.inner.list().await
    }

    async fn list_workspaces(&self) -> Result<Vec<FoundWorkspace>, DriverError> {
        self.inner.list_workspaces().await
    }

    async fn inspect(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        self.inner.inspect(id).await
    }

    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        self.inner.watch()
    }

    async fn ensure_workspace(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError> {
        self.inner.ensure_workspace(request).await
    }

    async fn create(&self, request: &CreateRequest) -> Result<(), DriverError> {
        self.inner.create(request).await
    }

    async fn start(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        self.inner.start(id).await
    }

    async fn stop(&self, id: &SandboxId, grace: Duration) -> Result<(), DriverError> {
        self.inner.stop(id, grace).await
    }

    async fn kill(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.inner.kill(id).await
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.inner.freeze(id).await
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.inner.thaw(id).await
    }

    async fn remove(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.inner.remove(id).await
    }

    async fn discard_workspace(&self, id: &WorkspaceId) -> Result<(), DriverError> {
        self.inner.discard_workspace(id).await
    }

    async fn open_session(
        &self,
        id: &SandboxId,
        backing_run: &str,
    ) -> Result<(Box<dyn SessionStream>, SessionPeer), DriverError> {
        let (_mute, peer) = self.inner.open_session(id, backing_run).await?;
        let mut connects = self.connects.subscribe();
        drop(connects.wait_for(|connects| *connects).await);
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(async move {
            tokio::select! {
                _ended = Supervisor::new(theirs).run() => {}
                _cut = connects.wait_for(|connects| !*connects) => {}
            }
        });
        Ok((Box::new(ours), peer))
    }
}
