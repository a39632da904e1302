//! The whole life of a gateway process: open, serve, reconcile, stop.
//!
//! The API answers before anything is reconciled. Stopping leaves every sandbox as it is: what is
//! under way is finished or settled by the next gateway, which looks at everything anyway.

mod notify;
mod signals;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandkeep_core::GatewayId;
use sandkeep_driver::Driver;
use sandkeep_store::{SqliteStore, Store, StoreError};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, SystemClock};
use crate::entropy::{Entropy, SystemEntropy};
use crate::gateway::{Gateway, GatewayParts};
use crate::grpc::{About, Api};
use crate::home::{Home, Listening, listen, machine_id};
use crate::metrics::Metrics;
use crate::reconcile::queue::{Key, Queue};
use crate::refusal::{Refusal, RefusalKind};
use crate::session::SessionHub;
use crate::sessions::Sessions;
use crate::{grpc, http};

/// Why a gateway did not start, or ended by itself.
pub type ServeError = Refusal;

/// Passes under way get this long to come to an end of their own; a pass that is cut off is
/// settled by the next gateway.
const PASSES_DRAIN: Duration = Duration::from_secs(5);

/// What drivers are made from.
#[derive(Debug, Clone)]
pub struct DriverPlace {
    /// The gateway's home.
    pub home: PathBuf,
    /// Carried by everything that a driver makes.
    pub gateway: GatewayId,
}

/// Makes the drivers, the default one first. Given from outside, so that the gateway knows no
/// runtime. Must be quick: nothing is served before.
pub type DriverFactory =
    Box<dyn FnOnce(&DriverPlace) -> Result<Vec<Arc<dyn Driver>>, Refusal> + Send>;

/// What a gateway is started with.
pub struct GatewayOptions {
    /// The home directory; made when it is not there.
    pub home: PathBuf,
    /// Where metrics and health are served; `None`: nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// The program's version.
    pub version: String,
    /// Makes the drivers.
    pub drivers: DriverFactory,
}

impl fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayOptions").field("home", &self.home).finish_non_exhaustive()
    }
}

/// Runs a gateway until SIGTERM or SIGINT. Must be called inside a multi-threaded tokio runtime.
pub async fn serve(options: GatewayOptions) -> Result<(), ServeError> {
    let mut signals = signals::Signals::install()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    signals::raise_file_limit();
    let home = Home::open(&options.home)?;
    let running = start(options, &home, &clock).await?;
    tokio::select! {
        name = signals.first() => tracing::info!(signal = name, "stopping; sandboxes go on"),
        ended = running.stopping.cancelled() => ended,
        () = home.left() => tracing::error!(
            home = %home.path().display(),
            "the home was moved or replaced while this gateway ran: it ends, and sandboxes go on; \
             a gateway that is started where the home is now takes them over"
        ),
    }
    notify::stopping();
    tokio::select! {
        result = running.end() => result,
        _name = signals.first() => {
            tracing::warn!("told to stop a second time: what is under way is not waited for");
            Ok(())
        }
    }
}

/// A gateway that serves.
#[derive(Debug)]
struct Running {
    gateway: Arc<Gateway>,
    stopping: CancellationToken,
    api: JoinHandle<std::io::Result<()>>,
    metrics: Option<JoinHandle<std::io::Result<()>>>,
    passes: JoinHandle<()>,
    socket: Listening,
    store: Arc<SqliteStore>,
}

async fn start(
    options: GatewayOptions,
    home: &Home,
    clock: &Arc<dyn Clock>,
) -> Result<Running, ServeError> {
    let refused = |error: StoreError| store_refusal(home.path(), &error);
    let store = Arc::new(SqliteStore::open(home.database()).await.map_err(refused)?);
    let opened = Arc::clone(&store) as Arc<dyn Store>;
    let api = open(opened, options.drivers, options.version, home, clock).await?;
    let metrics = match options.metrics_listen {
        Some(address) => Some(http::bind(address).await?),
        None => None,
    };
    let socket = listen(&home.socket())?;
    let listener = socket.listener().map_err(|error| not_started(home.path(), &error))?;
    let running = Running {
        gateway: Arc::clone(&api.gateway),
        stopping: api.stopping.clone(),
        api: tokio::spawn(ending(grpc::serve(api.clone(), listener), api.stopping.clone())),
        metrics: metrics.map(|listener| serve_metrics(api.clone(), listener)),
        passes: spawn_passes(&api.gateway),
        socket,
        store,
    };
    let serving_after = clock.monotonic();
    let millis = u64::try_from(serving_after.as_millis()).unwrap_or(u64::MAX);
    api.metrics.startup.serving_after_ms.set(millis);
    tracing::info!(
        home = %home.path().display(),
        pid = std::process::id(),
        after_ms = millis,
        "the gateway serves"
    );
    notify::ready();
    Ok(running)
}

/// Puts the gateway together; changes nothing on backends.
async fn open(
    store: Arc<dyn Store>,
    drivers: DriverFactory,
    version: String,
    home: &Home,
    clock: &Arc<dyn Clock>,
) -> Result<Api, ServeError> {
    let refused = |error: StoreError| store_refusal(home.path(), &error);
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let new = entropy.bytes().map_err(|error| not_started(home.path(), &error))?;
    let machine = machine_id();
    let new = GatewayId::from_random(new);
    let meta = Gateway::identify(store.as_ref(), new, &machine).await.map_err(refused)?;
    let place = DriverPlace { home: home.path().to_owned(), gateway: meta.gateway.clone() };
    let drivers = drivers(&place)?;
    let metrics = Arc::new(Metrics::default());
    let queue = Queue::new();
    let hub = hub(home, clock, &queue);
    let about = About {
        home: home.path().to_owned(),
        version,
        started_at: clock.now(),
        gateway: meta.gateway.clone(),
    };
    let parts = GatewayParts {
        store,
        drivers,
        sessions: Arc::clone(&hub) as Arc<dyn Sessions>,
        queue,
        clock: Arc::clone(clock),
        entropy,
        metrics: Arc::clone(&metrics),
        home: home.path().to_owned(),
        meta,
        machine,
        directory: home.directory(),
    };
    let gateway = Gateway::open(parts).await.map_err(refused)?;
    let stopping = CancellationToken::new();
    let under_way = TaskTracker::new();
    Ok(Api { gateway, hub, metrics, about: Arc::new(about), stopping, under_way })
}

fn hub(home: &Home, clock: &Arc<dyn Clock>, queue: &Queue) -> Arc<SessionHub> {
    let queue = queue.clone();
    let wake = Arc::new(move |id: &sandkeep_core::SandboxId| queue.wake(Key::Sandbox(id.clone())));
    SessionHub::new(home.logs(), Arc::clone(clock), wake)
}

fn spawn_passes(gateway: &Arc<Gateway>) -> JoinHandle<()> {
    let gateway = Arc::clone(gateway);
    tokio::spawn(async move { gateway.run().await })
}

/// Metrics that end are missed by nobody but their reader: the gateway goes on.
fn serve_metrics(api: Api, listener: TcpListener) -> JoinHandle<std::io::Result<()>> {
    tokio::spawn(async move {
        let ended = http::serve(api, listener).await;
        if let Err(error) = &ended {
            tracing::error!(%error, "metrics are not served any more");
        }
        ended
    })
}

/// Without its API a gateway is of no use: its end ends all.
async fn ending<T>(serving: impl Future<Output = T>, stopping: CancellationToken) -> T {
    let ended = serving.await;
    stopping.cancel();
    ended
}

impl Running {
    /// Answers what is under way, ends the passes, closes the store, removes the socket.
    async fn end(mut self) -> Result<(), ServeError> {
        self.stopping.cancel();
        let served = (&mut self.api).await;
        self.gateway.stop();
        if tokio::time::timeout(PASSES_DRAIN, &mut self.passes).await.is_err() {
            tracing::info!("some work on backends is cut off; the next gateway settles it");
            self.passes.abort();
            let _aborted = (&mut self.passes).await;
        }
        if let Some(metrics) = self.metrics.take() {
            metrics.abort();
            let _aborted = metrics.await;
        }
        let home = self.socket.path().parent().unwrap_or_else(|| Path::new("/")).to_owned();
        drop(self.gateway);
        close(self.store).await;
        match served {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(ended_early(&home, &error)),
            Err(error) => Err(ended_early(&home, &std::io::Error::other(error))),
        }
    }
}

/// Writes everything back. What is answered is durable without that; it only spares the next
/// gateway from reading the log again.
async fn close(store: Arc<SqliteStore>) {
    match Arc::into_inner(store) {
        Some(store) => {
            let _closed = tokio::task::spawn_blocking(|| drop(store)).await;
        }
        None => tracing::warn!("the store is still in use at the end and is not written back"),
    }
}

fn what(home: &Path) -> String {
    format!("the gateway of {} was not started", home.display())
}

fn not_started(home: &Path, error: &std::io::Error) -> Refusal {
    let next = "mend the cause, then: sandkeep gateway start";
    Refusal::new(RefusalKind::Failed, "NotStarted", what(home), error.to_string(), next)
}

fn ended_early(home: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        RefusalKind::Failed,
        "Ended",
        format!("the gateway of {} ended by itself", home.display()),
        error.to_string(),
        "start it again: sandkeep gateway start",
    )
}

fn store_refusal(home: &Path, error: &StoreError) -> Refusal {
    let database = home.join("gateway.db");
    let database = database.display();
    let (kind, reason, next) = match error {
        StoreError::Locked { .. } => (
            RefusalKind::Conflict,
            "StoreLocked",
            "end that process, or set SANDKEEP_HOME to another directory".to_owned(),
        ),
        StoreError::Newer { .. } => (
            RefusalKind::Failed,
            "StoreNewer",
            "use the newer version that made it, or restore a copy from before".to_owned(),
        ),
        StoreError::Damaged { .. } => (
            RefusalKind::Failed,
            "StoreDamaged",
            format!(
                "restore {database} from a copy; or move it away: a gateway with a new one finds \
                 the sandboxes that are there, and takes them over with: sandkeep gateway adopt"
            ),
        ),
        StoreError::ReadOnly { .. } => (
            RefusalKind::NotPermitted,
            "StoreReadOnly",
            format!("make {database} and its directory writable for this user"),
        ),
        StoreError::DiskFull => {
            (RefusalKind::DiskFull, "DiskFull", format!("make room on the disk of {database}"))
        }
        StoreError::Conflict { .. } | StoreError::Unavailable { .. } => (
            RefusalKind::Failed,
            "StoreUnavailable",
            format!("look at the disk of {database}, then: sandkeep gateway start"),
        ),
    };
    Refusal::new(kind, reason, what(home), error.to_string(), next)
}
