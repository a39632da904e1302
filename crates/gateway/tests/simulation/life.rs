//! The life of one gateway process. When it is over, nothing of that process reaches the world any
//! more, whatever tasks it has left: that is what a crash is.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use sandkeep_core::{BackingReport, SandboxId, WorkspaceId};
use sandkeep_driver::simulated::SimulatedDriver;
use sandkeep_driver::{
    Capabilities, CreateRequest, Driver, DriverError, FoundBacking, FoundWorkspace, SessionPeer,
    SessionStream, WatchEvent, WorkspaceReport, WorkspaceRequest,
};
use tokio::sync::watch;

/// One process's life; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    over: Arc<watch::Sender<bool>>,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self { over: Arc::new(watch::Sender::new(false)) }
    }

    /// The process dies.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// `work`, as long as the process lives; after that it is dropped where it stands, and whoever
    /// waits for it waits for ever.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut over = self.over.subscribe();
        let ends = async move {
            // The sender lives as long as `self`, so this ends with the life only.
            let _ended = over.wait_for(|over| *over).await.is_ok();
        };
        tokio::select! {
            biased;
            () = ends => pending().await,
            done = work => done,
        }
    }
}

/// A driver in the hands of one process.
#[derive(Debug)]
pub(crate) struct HeldDriver {
    pub(crate) driver: SimulatedDriver,
    pub(crate) life: Life,
}

#[async_trait]
impl Driver for HeldDriver {
    fn name(&self) -> &str {
        self.driver.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.driver.capabilities()
    }

    async fn identity(&self) -> Result<String, DriverError> {
        self.life.during(self.driver.identity()).await
    }

    async fn list(&self) -> Result<Vec<FoundBacking>, DriverError> {
        self.life.during(self.driver.list()).await
    }

    async fn list_workspaces(&self) -> Result<Vec<FoundWorkspace>, DriverError> {
        self.life.during(self.driver.list_workspaces()).await
    }

    async fn inspect(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        self.life.during(self.driver.inspect(id)).await
    }

    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        let life = self.life.clone();
        let events = self.driver.watch().then(move |event| {
            let life = life.clone();
            async move { life.during(async { event }).await }
        });
        Box::pin(events)
    }

    async fn ensure_workspace(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError> {
        self.life.during(self.driver.ensure_workspace(request)).await
    }

    async fn create(&self, request: &CreateRequest) -> Result<(), DriverError> {
        self.life.during(self.driver.create(request)).await
    }

    async fn start(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        self.life.during(self.driver.start(id)).await
    }

    async fn stop(&self, id: &SandboxId, grace: Duration) -> Result<(), DriverError> {
        self.life.during(self.driver.stop(id, grace)).await
    }

    async fn kill(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.life.during(self.driver.kill(id)).await
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.life.during(self.driver.freeze(id)).await
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.life.during(self.driver.thaw(id)).await
    }

    async fn remove(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.life.during(self.driver.remove(id)).await
    }

    async fn discard_workspace(&self, id: &WorkspaceId) -> Result<(), DriverError> {
        self.life.during(self.driver.discard_workspace(id)).await
    }

    async fn open_session(
        &self,
        id: &SandboxId,
        backing_run: &str,
    ) -> Result<(Box<dyn SessionStream>, SessionPeer), DriverError> {
        self.life.during(self.driver.open_session(id, backing_run)).await
    }
}
