//! The driver's side: what happens to a call on its way to an engine and back.

use std::future::{Future, pending};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sandkeep_core::{Backing, BackingReport, GatewayId, SandboxId, WorkspaceId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use super::engine::{Endpoint, Reach};
use super::fault::{Disturbance, FaultKind};
use super::work::Site;
use super::world::World;
use crate::{
    Capabilities, CreateRequest, Driver, DriverError, ErrorKind, FoundBacking, FoundWorkspace,
    SessionPeer, SessionStream, WatchEvent, WorkspaceReport, WorkspaceRequest,
};

/// Size of the pipe that stands for a session's stream.
const STREAM_BYTES: usize = 64 * 1024;

/// One driver of one gateway on the world.
#[derive(Debug, Clone)]
pub struct SimulatedDriver {
    name: String,
    world: World,
    gateway: GatewayId,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Proceed { answer_after: Duration },
    Error,
    DoneButError,
    DoneButTimedOut,
    Twice,
    LateAfterError(Duration),
    CrashBefore,
    CrashAfter,
    LateAfterCrash(Duration),
}

impl SimulatedDriver {
    /// A driver called `name` (added to the world before) that labels what it makes with `gateway`.
    pub fn new(name: &str, world: World, gateway: GatewayId) -> Self {
        Self { name: name.to_owned(), world, gateway }
    }

    /// A call that only looks.
    async fn look<T>(
        &self,
        what: &'static str,
        look: impl FnOnce(&Site) -> T + Send,
    ) -> Result<T, DriverError> {
        let (travel, error, late) = {
            let mut inner = self.world.lock();
            let error = inner.faults.strikes(FaultKind::CallError);
            let late = inner.faults.strikes(FaultKind::ViewLate);
            let late = if late { inner.faults.delay(50, 5000) } else { Duration::ZERO };
            let (low, high) = inner.pace.travel;
            (inner.faults.delay(low, high), error, late)
        };
        tokio::time::sleep(travel).await;
        let site = self.reach(what).await?;
        if error {
            return Err(failed(what));
        }
        let seen = look(&site);
        tokio::time::sleep(late).await;
        Ok(seen)
    }

    /// A call that changes something.
    async fn act<T, F>(
        &self,
        what: &'static str,
        subject: &(dyn std::fmt::Display + Sync),
        work: impl Fn(Site) -> F + Send + Sync,
    ) -> Result<T, DriverError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DriverError>> + Send + 'static,
    {
        let (travel, fate) = self.draw(what, subject);
        tokio::time::sleep(travel).await;
        if matches!(fate, Fate::CrashBefore) {
            return self.die("before an effect").await;
        }
        let site = self.reach(what).await?;
        self.world.lock().acted += 1;
        match fate {
            Fate::Error => Err(failed(what)),
            Fate::LateAfterError(after) | Fate::LateAfterCrash(after) => {
                let work = work(site);
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    // Whoever asked has heard something else long ago.
                    let _nobody_waits = work.await;
                });
                if matches!(fate, Fate::LateAfterCrash(_)) {
                    return self.die("an effect comes late").await;
                }
                Err(failed(what))
            }
            _ => {
                let mut answer = carry_out(work(site.clone())).await;
                if matches!(fate, Fate::Twice) {
                    answer = carry_out(work(site)).await;
                }
                self.hand_back(what, fate, answer).await
            }
        }
    }

    async fn hand_back<T>(
        &self,
        what: &'static str,
        fate: Fate,
        answer: Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        match fate {
            Fate::DoneButError => Err(failed(what)),
            Fate::DoneButTimedOut => pending().await,
            Fate::CrashAfter => self.die("after an effect").await,
            Fate::Proceed { answer_after } => {
                tokio::time::sleep(answer_after).await;
                answer
            }
            _ => answer,
        }
    }

    fn draw(&self, what: &str, subject: &(dyn std::fmt::Display + Sync)) -> (Duration, Fate) {
        let mut inner = self.world.lock();
        let planned = inner.begin_effect(&format!("{what} {subject}"));
        let (low, high) = inner.pace.travel;
        let travel = inner.faults.delay(low, high);
        let faults = &mut inner.faults;
        let fate = match planned {
            Some(Disturbance::CrashBefore) => Fate::CrashBefore,
            Some(Disturbance::CrashAfter) => Fate::CrashAfter,
            Some(Disturbance::Error) => Fate::Error,
            Some(Disturbance::DoneButTimedOut) => Fate::DoneButTimedOut,
            Some(Disturbance::Twice) => Fate::Twice,
            Some(Disturbance::LateAnswer(after)) => Fate::LateAfterCrash(after),
            None if faults.strikes(FaultKind::CallError) => Fate::Error,
            None if faults.strikes(FaultKind::CallDoneButError) => Fate::DoneButError,
            None if faults.strikes(FaultKind::CallDoneButTimedOut) => Fate::DoneButTimedOut,
            None if faults.strikes(FaultKind::CallTwice) => Fate::Twice,
            None if faults.strikes(FaultKind::CallLate) => {
                Fate::LateAfterError(faults.delay(100, 20_000))
            }
            None => Fate::Proceed { answer_after: faults.delay(low, high) },
        };
        if planned.is_none() && !matches!(fate, Fate::Proceed { .. }) {
            inner.note(format_args!("{what} {subject}: {fate:?}"));
        }
        (travel, fate)
    }

    /// Waits for an engine that does not answer at once; which one is settled when it does.
    async fn reach(&self, what: &'static str) -> Result<Site, DriverError> {
        let (engine, slow) = self
            .world
            .until(|world| {
                let inner = world.lock();
                let Some(endpoint) = inner.endpoints.get(&self.name) else {
                    return Some(Err(unreachable_engine(what)));
                };
                match endpoint.reach {
                    Reach::Up => Some(Ok((endpoint.engine.clone(), Duration::ZERO))),
                    Reach::Slow(by) => Some(Ok((endpoint.engine.clone(), by))),
                    Reach::Down => Some(Err(unreachable_engine(what))),
                    Reach::Hung => None,
                }
            })
            .await?;
        tokio::time::sleep(slow).await;
        if !self.world.lock().endpoints.get(&self.name).is_some_and(Endpoint::answers) {
            return Err(unreachable_engine(what));
        }
        Ok(Site { world: self.world.clone(), engine, gateway: self.gateway.clone() })
    }

    async fn die<T>(&self, why: &str) -> T {
        self.world.order_crash(why);
        pending().await
    }
}

/// The engine works on by itself when the caller stops waiting.
async fn carry_out<T: Send + 'static>(
    work: impl Future<Output = Result<T, DriverError>> + Send + 'static,
) -> Result<T, DriverError> {
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        // The caller may have stopped waiting.
        let _heard = sender.send(work.await);
    });
    receiver.await.unwrap_or_else(|_| Err(failed("engine")))
}

fn failed(what: &'static str) -> DriverError {
    DriverError::new(ErrorKind::Internal, what, "EngineFailed", "the engine failed by chance")
}

fn unreachable_engine(what: &'static str) -> DriverError {
    let message = "the engine refuses connections";
    DriverError::new(ErrorKind::Unavailable, what, "EngineUnreachable", message)
}

#[async_trait]
impl Driver for SimulatedDriver {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            freeze: true,
            keeps_rootfs: true,
            cpu_limit: true,
            memory_limit: true,
            pids_limit: true,
            disk_limit: false,
            host_image: true,
            directory_image: true,
            oci_image: true,
            tells_oom: true,
        }
    }

    async fn identity(&self) -> Result<String, DriverError> {
        self.look("identity", |site| site.engine.clone()).await
    }

    async fn list(&self) -> Result<Vec<FoundBacking>, DriverError> {
        self.look("list", |site| {
            let inner = site.world.lock();
            let backings = inner.engines[&site.engine].backings.iter();
            backings
                .filter(|(_, backing)| backing.gateway == site.gateway)
                .map(|(id, backing)| FoundBacking {
                    id: id.clone(),
                    gateway: backing.gateway.clone(),
                    backing: backing.seen(),
                    made_from: Some(backing.made_from.clone()),
                })
                .collect()
        })
        .await
    }

    async fn list_workspaces(&self) -> Result<Vec<FoundWorkspace>, DriverError> {
        self.look("list workspaces", |site| {
            let inner = site.world.lock();
            let workspaces = inner.engines[&site.engine].workspaces.iter();
            workspaces
                .filter(|(_, workspace)| workspace.gateway == site.gateway && workspace.marked)
                .map(|(id, workspace)| FoundWorkspace {
                    id: id.clone(),
                    name: workspace.name.clone(),
                    handle: format!("sim:{}", workspace.name),
                })
                .collect()
        })
        .await
    }

    async fn inspect(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        self.look("inspect", |site| {
            let inner = site.world.lock();
            match inner.engines[&site.engine].backings.get(id) {
                Some(backing) => backing.report(&site.engine),
                None => BackingReport {
                    backing: Backing::Absent,
                    backing_run: None,
                    generation: None,
                    engine: Some(site.engine.clone()),
                    unenforced_limits: Vec::new(),
                    workspace_replaced: false,
                },
            }
        })
        .await
    }

    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        let (sender, receiver) = unbounded_channel();
        if let Some(endpoint) = self.world.lock().endpoints.get_mut(&self.name) {
            endpoint.subscribers.push(sender);
        }
        Box::pin(futures::stream::unfold(receiver, |mut receiver| async {
            match receiver.recv().await {
                Some(event) => Some((event, receiver)),
                None => pending().await,
            }
        }))
    }

    async fn ensure_workspace(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError> {
        self.act("workspace", &request.name, |site| site.ensure_workspace(request.clone())).await
    }

    async fn create(&self, request: &CreateRequest) -> Result<(), DriverError> {
        self.act("create", &request.id, |site| site.create(request.clone())).await
    }

    async fn start(&self, id: &SandboxId) -> Result<BackingReport, DriverError> {
        self.act("start", id, |site| site.start(id.clone())).await
    }

    async fn stop(&self, id: &SandboxId, grace: Duration) -> Result<(), DriverError> {
        self.act("stop", id, |site| site.stop(id.clone(), grace)).await
    }

    async fn kill(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.act("kill", id, |site| site.kill(id.clone())).await
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.act("freeze", id, |site| site.set_frozen(id.clone(), true)).await
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.act("thaw", id, |site| site.set_frozen(id.clone(), false)).await
    }

    async fn remove(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.act("remove", id, |site| site.remove(id.clone())).await
    }

    async fn discard_workspace(&self, id: &WorkspaceId) -> Result<(), DriverError> {
        self.act("discard", &"a workspace", |site| site.discard_workspace(id.clone())).await
    }

    async fn open_session(
        &self,
        id: &SandboxId,
        backing_run: &str,
    ) -> Result<(Box<dyn SessionStream>, SessionPeer), DriverError> {
        let engine = self.world.until(|world| world.take_session(id, backing_run)).await?;
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        tokio::spawn(keep_stream(
            self.world.clone(),
            engine,
            id.clone(),
            backing_run.to_owned(),
            theirs,
        ));
        Ok((Box::new(ours), SessionPeer { backing_run: backing_run.to_owned() }))
    }
}

/// PID 1's end of a stream: it speaks first, and lets go when the other side has, or with its run.
async fn keep_stream(
    world: World,
    engine: String,
    id: SandboxId,
    run: String,
    mut stream: tokio::io::DuplexStream,
) {
    // The other side may be gone already; then reading says so.
    let _spoken = stream.write_all(b"!").await;
    let mut heard = [0; 256];
    let over = world.until(|world| {
        let inner = world.lock();
        let backing = inner.engines.get(&engine).and_then(|engine| engine.backings.get(&id));
        let there =
            backing.is_some_and(|b| b.backing_run.as_ref() == Some(&run) && b.state.is_live());
        (!there).then_some(())
    });
    let hung_up = async { while matches!(stream.read(&mut heard).await, Ok(1..)) {} };
    tokio::select! {
        biased;
        () = over => {}
        () = hung_up => world.release_session(&engine, &id, &run),
    }
}
