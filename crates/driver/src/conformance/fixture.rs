//! What the suite needs besides the driver: hands that reach in from outside, as faults do.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandkeep_core::{Backing, BackingReport, Identity, Image, Name, SandboxId, Spec, WorkspaceId};

use crate::{CreateRequest, Driver, DriverError, ErrorKind, WorkspaceReport, WorkspaceRequest};

/// Why a case did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip(pub String);

/// How long anything may take that a case waits for. Generous: a case waits for a state, and this
/// only ends a wait for a state that never comes.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What an engine holds, counted: processes, mounts, groups, directories … of this fixture's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint(pub BTreeMap<String, u64>);

/// A driver on an engine of its own, and hands that reach in from outside. A method that answers
/// [`Skip`] makes the cases that need it be skipped.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The driver under test: always the same.
    fn driver(&self) -> Arc<dyn Driver>;

    /// Another one on the same engine for the same gateway, as the next process would make it.
    fn reopened(&self) -> Arc<dyn Driver>;

    /// Another one on the same engine for another gateway.
    fn stranger(&self) -> Result<Arc<dyn Driver>, Skip>;

    /// An image that runs here.
    fn image(&self) -> Image {
        Image::Host
    }

    /// Prints a line.
    fn say(&self, line: &str);

    /// SIGKILL to PID 1 of a running backing, as the kernel would for memory.
    async fn kill_pid_1(&self, id: &SandboxId, run: &str) -> Result<(), Skip>;

    /// Lets PID 1 end politely without a word to the driver, as an engine does on its own stop
    /// (exit 143).
    async fn end_pid_1(&self, id: &SandboxId, run: &str) -> Result<(), Skip>;

    /// Stops PID 1 in its tracks (SIGSTOP): it hears no polite signal any more.
    async fn suspend_pid_1(&self, id: &SandboxId, run: &str) -> Result<(), Skip>;

    /// Reboots the machine under everything: nothing runs any more, what is on disk stays.
    async fn reboot(&self) -> Result<Arc<dyn Driver>, Skip>;

    /// Writes a file in the sandbox's root file system, outside of the workspace.
    async fn write_in_root(&self, id: &SandboxId, text: &str) -> Result<(), Skip>;

    /// What [`Fixture::write_in_root`] wrote, if it is there.
    async fn read_in_root(&self, id: &SandboxId) -> Result<Option<String>, Skip>;

    /// Writes a file in a workspace.
    async fn write_in_workspace(&self, handle: &str, text: &str) -> Result<(), Skip>;

    /// What [`Fixture::write_in_workspace`] wrote, if it is there.
    async fn read_in_workspace(&self, handle: &str) -> Result<Option<String>, Skip>;

    /// Takes the workspace's bytes away behind the driver's back.
    async fn lose_workspace(&self, id: &WorkspaceId, handle: &str) -> Result<(), Skip>;

    /// Takes the workspace's mark away and leaves the bytes.
    async fn lose_mark(&self, id: &WorkspaceId, handle: &str) -> Result<(), Skip>;

    /// Has a process inside that is not PID 1 connect to the session socket. Returns once it is
    /// connected; it holds on until the backing ends.
    async fn connect_from_inside(&self, id: &SandboxId, run: &str) -> Result<(), Skip>;

    /// Whether the driver hands over sessions here (PID 1 is a program that dials out).
    fn has_sessions(&self) -> Result<(), Skip>;

    /// Everything on the engine.
    async fn footprint(&self) -> Result<Footprint, Skip>;
}

/// Ids and requests of one case; different `seed`s never meet.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// The sandbox.
    pub id: SandboxId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    name: Name,
    image: Image,
}

impl Wishes {
    /// For sandbox number `seed` of a case.
    ///
    /// # Panics
    /// Never: the name is a valid one.
    pub fn new(fixture: &dyn Fixture, seed: u64) -> Self {
        let name = format!("case-{seed}").parse();
        Self {
            id: SandboxId::from_random(seed.to_le_bytes()),
            workspace: WorkspaceId::from_random(seed.to_le_bytes()),
            name: name.unwrap_or_else(|error| panic!("case-{seed}: {error}")),
            image: fixture.image(),
        }
    }

    /// The workspace, marked before or not.
    pub fn workspace(&self, marked: bool) -> WorkspaceRequest {
        WorkspaceRequest { id: self.workspace.clone(), name: self.name.clone(), marked }
    }

    /// The backing, of that generation.
    pub fn backing(&self, generation: u64) -> CreateRequest {
        CreateRequest {
            id: self.id.clone(),
            name: self.name.clone(),
            identity: Identity { hostname: "case".into(), session_key: "0".repeat(64) },
            spec: Spec {
                image: self.image.clone(),
                ..Spec::bare(self.workspace.clone(), self.name.clone())
            },
            generation,
            run: 1,
        }
    }

    /// Workspace and backing, made.
    pub(super) async fn created(&self, driver: &dyn Driver) -> String {
        let report =
            fine("ensure_workspace", driver.ensure_workspace(&self.workspace(false)).await);
        let WorkspaceReport::Bound { handle } = report else { panic!("{report:?}") };
        fine("create", driver.create(&self.backing(1)).await);
        handle
    }

    /// Workspace and backing, made and running; the run.
    pub(super) async fn running(&self, driver: &dyn Driver) -> String {
        self.created(driver).await;
        self.started(driver).await
    }

    /// Started and running; the run.
    pub(super) async fn started(&self, driver: &dyn Driver) -> String {
        let report = fine("start", driver.start(&self.id).await);
        assert!(
            matches!(report.backing, Backing::Starting | Backing::Running),
            "start reported {report:?}"
        );
        let report = self.until(driver, "running", |b| matches!(b, Backing::Running)).await;
        report.backing_run.unwrap_or_else(|| panic!("a running backing has a run"))
    }

    /// Waits until the backing is in the state that `wished` names.
    pub(super) async fn until(
        &self,
        driver: &dyn Driver,
        name: &str,
        wished: impl Fn(&Backing) -> bool,
    ) -> BackingReport {
        let look = || async {
            let report = fine("inspect", driver.inspect(&self.id).await);
            if wished(&report.backing) { Ok(report) } else { Err(report) }
        };
        eventually(name, look).await
    }

    pub(super) async fn state(&self, driver: &dyn Driver) -> Backing {
        fine("inspect", driver.inspect(&self.id).await).backing
    }
}

/// Repeats `look` until it gives a value.
pub(super) async fn eventually<T, E, F>(name: &str, look: impl Fn() -> F) -> T
where
    E: fmt::Debug,
    F: Future<Output = Result<T, E>>,
{
    let limit = tokio::time::Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(value) => return value,
            Err(seen) if tokio::time::Instant::now() > limit => {
                panic!("waited {PATIENCE:?} for {name}; last seen: {seen:?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// The value, or a panic that says which call failed.
pub(super) fn fine<T>(what: &str, result: Result<T, DriverError>) -> T {
    result.unwrap_or_else(|error| panic!("{what} failed: {error:?}"))
}

/// The error's kind, or a panic.
pub(super) fn refused<T: fmt::Debug>(what: &str, result: Result<T, DriverError>) -> ErrorKind {
    match result {
        Ok(value) => panic!("{what} went through: {value:?}"),
        Err(error) => error.kind,
    }
}
