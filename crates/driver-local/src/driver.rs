//! The driver's face: each call of the trait, handed to the part that does it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sandkeep_core::{Backing, BackingReport, SandboxId, WorkspaceId};
use sandkeep_driver::{
    Capabilities, CreateRequest, Driver, DriverError, FoundBacking, FoundWorkspace, SessionPeer,
    SessionStream, WatchEvent, WorkspaceReport, WorkspaceRequest,
};

use crate::config::LocalConfig;
use crate::failure::{internal, io_failure, not_found};
use crate::local::Local;
use crate::look::Life;

/// The embedded runtime.
#[derive(Debug, Clone)]
pub struct LocalDriver {
    local: Arc<Local>,
}

impl LocalDriver {
    /// Opens the driver on its home, which is made when missing. Touches nothing that runs.
    ///
    /// # Errors
    /// The home cannot be made or written; this machine has no control groups.
    pub fn new(config: LocalConfig) -> Result<Self, DriverError> {
        Ok(Self { local: Arc::new(Local::new(config)?) })
    }

    /// How many peers of that sandbox's socket were not PID 1, since this process began.
    pub fn peers_turned_away(&self, id: &SandboxId) -> u64 {
        self.local.doors.turned_away(id)
    }

    /// Does what walks or writes files where it holds up nobody.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Local) -> Result<T, DriverError> + Send + 'static,
    ) -> Result<T, DriverError> {
        let local = Arc::clone(&self.local);
        let done = tokio::task::spawn_blocking(move || work(&local)).await;
        done.unwrap_or_else(|error| Err(internal("local", error.to_string())))
    }
}

#[async_trait]
impl Driver for LocalDriver {
    fn name(&self) -> &str {
        "local"
    }

    fn capabilities(&self) -> Capabilities {
        let here = &self.local.hierarchies;
        Capabilities {
            freeze: here.can_freeze(),
            keeps_rootfs: true,
            cpu_limit: here.has("cpu"),
            memory_limit: here.has("memory"),
            pids_limit: here.has("pids"),
            disk_limit: false,
            host_image: true,
            directory_image: true,
            oci_image: false,
            tells_oom: here.has("memory"),
        }
    }

    async fn identity(&self) -> Result<String, DriverError> {
        // A disk that hangs holds up whoever asked, and no thread that others need.
        self.aside(Local::engine).await
    }

    async fn list(&self) -> Result<Vec<FoundBacking>, DriverError> {
        self.aside(|local| {
            local.prune_once();
            local.list()
        })
        .await
    }

    async fn list_workspaces(&self) -> Result<Vec<FoundWorkspace>, DriverError> {
        self.aside(Local::list_workspaces).await
    }

    async fn inspect(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        match self.local.label(id)? {
            Some(label) => {
                let report = self.local.report(id, &label)?;
                let [group, helpers] = [self.local.group(id), self.local.helper_group(id)];
                if !report.backing.is_down() || !group.exists() && !helpers.exists() {
                    return Ok(report);
                }
                self.local.sweep(id).await?;
                self.local.report(id, &label)
            }
            None => match self.local.report_unlabelled(id)? {
                Some(report) => Ok(report),
                None => Ok(BackingReport {
                    backing: Backing::Absent,
                    backing_run: None,
                    generation: None,
                    engine: Some(self.local.engine()?),
                    unenforced_limits: Vec::new(),
                    workspace_replaced: false,
                }),
            },
        }
    }

    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        self.local.watch.stream()
    }

    async fn ensure_workspace(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError> {
        self.local.needs_root("workspace")?;
        let request = request.clone();
        self.aside(move |local| local.ensure_workspace(&request)).await
    }

    async fn create(&self, request: &CreateRequest) -> Result<(), DriverError> {
        let request = request.clone();
        self.aside(move |local| local.make(&request)).await
    }

    async fn start(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        self.local.start(id).await
    }

    async fn stop(&self, id: &SandboxId, grace: Duration) -> Result<(), DriverError> {
        self.local.end(id, Some(grace)).await
    }

    async fn kill(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.local.end(id, None).await
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.local.set_frozen(id, true)
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.local.set_frozen(id, false)
    }

    async fn remove(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.local.end(id, None).await?;
        self.local.doors.close(id);
        self.local.remove_files(id).await?;
        self.local.remove_empty_groups(id);
        self.local.house.forget(id);
        self.aside(|local| {
            local.prune();
            Ok(())
        })
        .await
    }

    async fn discard_workspace(&self, id: &WorkspaceId) -> Result<(), DriverError> {
        self.local.discard_workspace(id).await
    }

    async fn open_session(
        &self,
        id: &SandboxId,
        backing_run: &str,
    ) -> Result<(Box<dyn SessionStream>, SessionPeer), DriverError> {
        self.local.open_session(id, backing_run).await
    }
}

impl Local {
    fn set_frozen(&self, id: &SandboxId, frozen: bool) -> Result<(), DriverError> {
        let stage = if frozen { "freeze" } else { "thaw" };
        let group = self.group(id);
        let elsewhere = matches!(self.life(id)?, Life::Elsewhere(_));
        if elsewhere || self.label(id)?.is_none() || !group.exists() {
            return Err(not_found(stage, format!("{id} does not run")));
        }
        let failed = |error| io_failure(stage, format!("the control group of {id}"), &error);
        group.set_frozen(frozen).map_err(failed)
    }
}
