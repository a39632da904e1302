//! What an engine does with a call, on its own side: it goes on when the caller is gone.

use std::time::Duration;

use sandkeep_core::{BackingReport, GatewayId, Image, SandboxId, WorkspaceId};

use super::backing::{SimBacking, SimState};
use super::engine::SimWorkspace;
use super::fault::FaultKind;
use super::supervisor::SimSupervisor;
use super::world::{Inner, Pace, World};
use crate::{CreateRequest, DriverError, ErrorKind, WatchEvent, WorkspaceReport, WorkspaceRequest};

/// A directory image: no simulated engine has any.
pub const NO_IMAGE: &str = "/no/such/image";

/// An engine as one call has reached it; the call stays there whatever its driver does later.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) world: World,
    pub(super) engine: String,
    pub(super) gateway: GatewayId,
}

impl Site {
    async fn take(&self, of: fn(&Pace) -> (u64, u64)) {
        let delay = {
            let mut inner = self.world.lock();
            let (low, high) = of(&inner.pace);
            inner.faults.delay(low, high)
        };
        tokio::time::sleep(delay).await;
    }

    fn change<T>(&self, id: &SandboxId, work: impl FnOnce(&mut Inner) -> T) -> T {
        let result = {
            let mut inner = self.world.lock();
            let result = work(&mut inner);
            inner.hint(&self.engine, &WatchEvent::Look(id.clone()));
            result
        };
        self.world.touch();
        result
    }

    pub(super) async fn ensure_workspace(
        self,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError> {
        self.take(|pace| pace.make).await;
        let mut inner = self.world.lock();
        let handle = format!("sim:{}", request.name);
        let there =
            inner.engines[&self.engine].workspaces.get(&request.id).map(|found| found.marked);
        match there {
            Some(true) => return Ok(WorkspaceReport::Bound { handle }),
            Some(false) | None if request.marked => {
                let message = format!("no marked workspace at {handle}");
                return Ok(WorkspaceReport::Missing { message });
            }
            Some(false) | None => {}
        }
        if inner.engines[&self.engine].full {
            return Err(exhausted("workspace"));
        }
        inner.make_workspace(&self, &request);
        Ok(WorkspaceReport::Bound { handle })
    }

    pub(super) async fn create(self, request: CreateRequest) -> Result<(), DriverError> {
        self.take(|pace| pace.make).await;
        let id = request.id.clone();
        self.change(&id, |inner| inner.create(&self, request))
    }

    pub(super) async fn start(self, id: SandboxId) -> Result<BackingReport, DriverError> {
        let (report, boots) = self.change(&id, |inner| inner.start(&self, &id))?;
        if let Some(run) = boots {
            tokio::spawn(self.boot(id, run));
        }
        Ok(report)
    }

    async fn boot(self, id: SandboxId, run: String) {
        self.take(|pace| pace.boot).await;
        self.change(&id, |inner| inner.finish_boot(&self.engine, &id, &run));
    }

    pub(super) async fn stop(self, id: SandboxId, grace: Duration) -> Result<(), DriverError> {
        // What is down or not there at all is stopped.
        let stopping = self.change(&id, |inner| {
            let backing = inner.backing_mut(&self.engine, &id)?;
            if !backing.state.is_live() {
                return None;
            }
            backing.state = SimState::Stopping;
            let deaf = backing.supervisor.as_ref().is_some_and(|pid_1| pid_1.deaf);
            Some((backing.backing_run.clone()?, deaf))
        });
        let Some((run, deaf)) = stopping else { return Ok(()) };
        let needed = {
            let mut inner = self.world.lock();
            let (low, high) = inner.pace.exit;
            let needed = inner.faults.delay(low, high);
            if deaf { Duration::MAX } else { needed }
        };
        tokio::time::sleep(needed.min(grace)).await;
        let code = if needed <= grace { 143 } else { 137 };
        self.change(&id, |inner| inner.end_run(&self.engine, &id, Some(&run), code));
        Ok(())
    }

    pub(super) async fn kill(self, id: SandboxId) -> Result<(), DriverError> {
        self.change(&id, |inner| inner.end_run(&self.engine, &id, None, 137));
        Ok(())
    }

    pub(super) async fn set_frozen(self, id: SandboxId, frozen: bool) -> Result<(), DriverError> {
        let stage = if frozen { "freeze" } else { "thaw" };
        self.change(&id, |inner| {
            let backing = inner.backing_mut(&self.engine, &id).ok_or_else(|| absent(stage))?;
            match (backing.state, frozen) {
                (SimState::Running, true) => backing.state = SimState::Paused,
                (SimState::Paused, false) => backing.state = SimState::Running,
                (SimState::Running, false) | (SimState::Paused, true) => {}
                (other, _) => return Err(busy(stage, other)),
            }
            Ok(())
        })
    }

    pub(super) async fn remove(self, id: SandboxId) -> Result<(), DriverError> {
        let there = self.change(&id, |inner| {
            inner.end_run(&self.engine, &id, None, 137);
            let backing = inner.backing_mut(&self.engine, &id)?;
            backing.state = SimState::Removing;
            Some(())
        });
        if there.is_none() {
            return Ok(());
        }
        self.take(|pace| pace.remove).await;
        self.change(&id, |inner| {
            let gone = inner.backing_mut(&self.engine, &id);
            if gone.is_some_and(|backing| backing.state == SimState::Removing) {
                inner.engine_mut(&self.engine).backings.remove(&id);
            }
        });
        Ok(())
    }

    pub(super) async fn discard_workspace(self, id: WorkspaceId) -> Result<(), DriverError> {
        self.take(|pace| pace.remove).await;
        self.world.lock().discard_workspace(&self.engine, &id);
        self.world.touch();
        Ok(())
    }
}

impl Inner {
    pub(super) fn engine_mut(&mut self, name: &str) -> &mut super::engine::Engine {
        self.engines.entry(name.to_owned()).or_default()
    }

    pub(super) fn backing_mut(&mut self, engine: &str, id: &SandboxId) -> Option<&mut SimBacking> {
        self.engines.get_mut(engine)?.backings.get_mut(id)
    }

    fn make_workspace(&mut self, site: &Site, request: &WorkspaceRequest) {
        let ledger = self.ledgers.entry(request.id.clone()).or_default();
        if !ledger.written.is_empty() && !ledger.may_be_discarded {
            let name = &request.name;
            self.violate(format_args!("workspace {name} with work in it was made a second time"));
        }
        let made = SimWorkspace {
            gateway: site.gateway.clone(),
            name: request.name.clone(),
            marked: true,
            content: Vec::new(),
        };
        self.engine_mut(&site.engine).workspaces.insert(request.id.clone(), made);
    }

    fn create(&mut self, site: &Site, request: CreateRequest) -> Result<(), DriverError> {
        let engine = &self.engines[&site.engine];
        let full = engine.full;
        let there = engine.backings.get(&request.id);
        let kept = match there {
            Some(backing) if backing.gateway != site.gateway => {
                return Err(conflict(
                    "create",
                    "a backing of that name belongs to another gateway",
                ));
            }
            Some(backing) if backing.made_from.generation == request.generation => return Ok(()),
            Some(backing) if backing.made_from.generation > request.generation => {
                return Err(conflict("create", "a backing of a later generation is there"));
            }
            Some(backing) if backing.state.is_live() || backing.state == SimState::Removing => {
                return Err(busy("create", backing.state));
            }
            Some(backing) => Some((backing.rootfs, backing.result.clone())),
            None => None,
        };
        if let Image::Directory(path) = &request.spec.image {
            let message = format!("{path} is not there");
            return Err(DriverError::new(ErrorKind::Invalid, "create", "NoImage", message));
        }
        if request.spec.limits.disk_bytes.is_some() && !request.spec.unenforced {
            let message = "the limit of the disk is not enforced here";
            return Err(DriverError::new(
                ErrorKind::Invalid,
                "create",
                "LimitNotEnforced",
                message,
            ));
        }
        if full {
            return Err(exhausted("create"));
        }
        let (rootfs, result) = match kept {
            Some(kept) => kept,
            None => (self.number(), None),
        };
        let id = request.id.clone();
        let made = SimBacking {
            gateway: site.gateway.clone(),
            made_from: request,
            state: SimState::Idle,
            backing_run: None,
            rootfs,
            supervisor: None,
            result,
            finished_at: None,
        };
        self.engine_mut(&site.engine).backings.insert(id, made);
        Ok(())
    }

    /// The report, and the run to boot when it was down.
    fn start(
        &mut self,
        site: &Site,
        id: &SandboxId,
    ) -> Result<(BackingReport, Option<String>), DriverError> {
        let number = self.number();
        let engine = self.engine_mut(&site.engine);
        let marked = |engine: &super::engine::Engine, id| {
            engine.workspaces.get(id).is_some_and(|workspace| workspace.marked)
        };
        let backing = engine.backings.get(id).ok_or_else(|| absent("start"))?;
        match backing.state {
            SimState::Starting | SimState::Running | SimState::Paused => {
                return Ok((backing.report(&site.engine), None));
            }
            SimState::Stopping | SimState::Removing => return Err(busy("start", backing.state)),
            SimState::Idle | SimState::Exited { .. } => {}
        }
        if !marked(engine, &backing.made_from.spec.workspace) {
            let message = "the workspace is not there or has lost its mark";
            return Err(DriverError::new(
                ErrorKind::Invalid,
                "workspace",
                "WorkspaceMissing",
                message,
            ));
        }
        let run = format!("{}#{number}", site.engine);
        let Some(backing) = engine.backings.get_mut(id) else { return Err(absent("start")) };
        backing.state = SimState::Starting;
        backing.backing_run = Some(run.clone());
        let report = backing.report(&site.engine);
        self.check_live(id);
        Ok((report, Some(run)))
    }

    fn finish_boot(&mut self, engine: &str, id: &SandboxId, run: &str) {
        let waiting = self.backing_mut(engine, id).is_some_and(|backing| {
            backing.state == SimState::Starting && backing.backing_run.as_deref() == Some(run)
        });
        if !waiting {
            return;
        }
        if self.faults.strikes(FaultKind::BootFailed) {
            self.end_run(engine, id, Some(run), 1);
            return;
        }
        let mute = self.faults.strikes(FaultKind::BootMute);
        let boot = self.number();
        if let Some(backing) = self.backing_mut(engine, id) {
            backing.state = SimState::Running;
            backing.supervisor = Some(SimSupervisor::new(boot, mute));
        }
        self.note(format_args!("{id} is up"));
    }

    /// Ends this run, or whichever there is; nothing when another one is there or none.
    pub(super) fn end_run(&mut self, engine: &str, id: &SandboxId, run: Option<&str>, code: i32) {
        let now = self.now();
        let Some(backing) = self.backing_mut(engine, id) else { return };
        let same = run.is_none_or(|run| backing.backing_run.as_deref() == Some(run));
        if same && backing.state.is_live() {
            backing.end(Some(code), false, now);
            self.note(format_args!("{id} is down ({code})"));
        }
    }

    fn discard_workspace(&mut self, engine: &str, id: &WorkspaceId) {
        let in_use = |backing: &&SimBacking| {
            backing.state.is_live() && backing.made_from.spec.workspace == *id
        };
        if self.engines[engine].backings.values().any(|backing| in_use(&backing)) {
            self.violate(format_args!("a workspace was discarded under a live backing"));
        }
        if let Some(gone) = self.engine_mut(engine).workspaces.remove(id) {
            // One that nobody ever worked in loses nothing.
            let allowed = self
                .ledgers
                .get(id)
                .is_none_or(|ledger| ledger.may_be_discarded || ledger.written.is_empty());
            self.note(format_args!("workspace {} is discarded", gone.name));
            if allowed {
                // What was in it is gone as asked; an old store may make it anew.
                self.ledgers.entry(id.clone()).or_default().written.clear();
            }
            if !allowed {
                self.violate(format_args!("workspace {} was discarded unasked", gone.name));
            }
        }
    }
}

fn absent(stage: &'static str) -> DriverError {
    DriverError::new(ErrorKind::NotFound, stage, "BackingAbsent", "there is no such backing")
}

fn busy(stage: &'static str, state: SimState) -> DriverError {
    conflict(stage, &format!("the backing is {state:?}"))
}

fn conflict(stage: &'static str, message: &str) -> DriverError {
    DriverError::new(ErrorKind::Conflict, stage, "Conflict", message)
}

fn exhausted(stage: &'static str) -> DriverError {
    DriverError::new(ErrorKind::Exhausted, stage, "NoSpace", "no space left on the engine")
}
