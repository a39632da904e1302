//! What the API calls: verbs and questions. Verbs change intent, durably, and wake the reconciler;
//! questions read memory and never an engine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::stream::BoxStream;
use sandkeep_core::{
    Explanation, GatewayId, Live, Record, SandboxId, Timestamp, View, Workspace, explain,
};
use sandkeep_driver::Driver;
use sandkeep_store::{Change, Event, HomeDirectory, Meta, Priority, Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::drivers::Drivers;
use crate::entropy::Entropy;
use crate::metrics::Metrics;
use crate::reconcile::discard_tries::DiscardTries;
use crate::reconcile::queue::Queue;
use crate::refusal::Refusal;
use crate::registry::Registry;
use crate::sessions::Sessions;
use crate::shared::Shared;
use crate::verbs::wishes::Wishes;
use crate::{adopt, follow, reconcile, verbs};

/// The control plane of one home.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) shared: Arc<Shared>,
}

/// What a gateway is put together from.
#[derive(Debug)]
pub struct GatewayParts {
    /// Open, and this process the only writer.
    pub store: Arc<dyn Store>,
    /// The default one first.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// Whose wake-ups go to `queue`.
    pub sessions: Arc<dyn Sessions>,
    /// New.
    pub queue: Queue,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The home directory: never to be shown inside a sandbox.
    pub home: PathBuf,
    /// The gateway's own facts, as [`Gateway::identify`] gave them.
    pub meta: Meta,
    /// Id of the machine that this process runs on.
    pub machine: String,
    /// Which directory the home is. `None`: it cannot be told from a copy.
    pub directory: Option<HomeDirectory>,
}

/// A request for a new sandbox.
#[derive(Debug, Clone)]
pub struct CreateSandbox {
    /// Chosen by the client, so that a repeated request makes nothing twice.
    pub id: Option<SandboxId>,
    /// As given; `None`: one is made up.
    pub name: Option<String>,
    /// `None`: the first driver.
    pub driver: Option<String>,
    /// An existing workspace to use.
    pub workspace: Option<String>,
    /// A new workspace even though one of the sandbox's name is kept.
    pub new_workspace: bool,
    /// An existing sandbox of that name is the answer.
    pub reuse: bool,
    /// What it should be like.
    pub wishes: Wishes,
}

/// The verbs that change what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentVerb {
    /// Up.
    Start,
    /// Down.
    Stop,
    /// Up anew.
    Restart,
}

/// One sandbox at one moment: facts, and the view derived from them.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The durable facts.
    pub record: Arc<Record>,
    /// The facts in memory.
    pub live: Live,
    /// What people see.
    pub view: View,
    /// Its workspace; `None`: there is no record of it any more.
    pub workspace: Option<WorkspaceView>,
}

/// A workspace at one moment.
#[derive(Debug, Clone)]
pub struct WorkspaceView {
    /// Its record.
    pub workspace: Workspace,
    /// `Pending, Bound, Kept, Missing, Discarding`.
    pub state: &'static str,
    /// Name of the sandbox that holds it.
    pub holder: Option<String>,
}

/// One driver's state.
#[derive(Debug, Clone)]
pub struct DriverState {
    /// Its name.
    pub name: String,
    /// The latest call was answered.
    pub reachable: bool,
    /// The engine's words when it was not.
    pub message: String,
    /// The engine's marker; `None`: not known yet.
    pub engine: Option<String>,
}

/// Why the gateway changes nothing on backends.
#[derive(Debug, Clone)]
pub struct HoldState {
    /// One CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// What was found, a line each.
    pub found: Vec<String>,
    /// Since when.
    pub since: Timestamp,
}

impl Gateway {
    /// The gateway's own facts: made durable in a new store, read from an old one.
    pub async fn identify(
        store: &dyn Store,
        new: GatewayId,
        machine: &str,
    ) -> Result<Meta, StoreError> {
        if let Some(meta) = store.load().await?.meta {
            return Ok(meta);
        }
        let meta = Meta {
            gateway: new,
            machine: machine.to_owned(),
            directory: None,
            hold: None,
            hold_since: Timestamp::EPOCH,
            disowned: Vec::new(),
        };
        store.commit(Priority::Normal, vec![Change::PutMeta(meta.clone())]).await?;
        Ok(meta)
    }

    /// Loads the store. Verbs and questions are answered from now on; nothing is reconciled before
    /// [`run`](Self::run).
    pub async fn open(parts: GatewayParts) -> Result<Arc<Self>, StoreError> {
        let gone = CancellationToken::new();
        let registry = Registry::load(
            parts.store,
            Arc::clone(&parts.clock),
            Arc::clone(&parts.metrics),
            parts.meta,
            gone.clone(),
        );
        let shared = Arc::new(Shared {
            registry: Arc::new(registry.await?),
            drivers: Drivers::new(parts.drivers),
            sessions: parts.sessions,
            queue: parts.queue,
            clock: parts.clock,
            entropy: parts.entropy,
            metrics: parts.metrics,
            home: parts.home,
            machine: parts.machine,
            directory: parts.directory,
            hold: Mutex::default(),
            discard_tries: DiscardTries::default(),
            gone,
        });
        adopt::hold_when_moved(&shared).await;
        Ok(Arc::new(Self { shared }))
    }

    /// Reconciles everything until [`stop`](Self::stop); then waits for the passes under way.
    pub async fn run(&self) {
        reconcile::run(Arc::clone(&self.shared)).await;
    }

    /// Ends [`run`](Self::run). Sandboxes are left as they are.
    pub fn stop(&self) {
        self.shared.queue.close();
    }

    /// The counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// Makes a sandbox. Answered once durable. A repeated id answers with what is there.
    pub async fn create(&self, request: CreateSandbox, by: &str) -> Result<Snapshot, Refusal> {
        let id = verbs::create::create(&self.shared, request, by).await?;
        self.get(id.as_str())
    }

    /// start, stop, restart: by name (the newest of that name) or id.
    pub async fn set_intent(
        &self,
        name: &str,
        verb: IntentVerb,
        by: &str,
    ) -> Result<Snapshot, Refusal> {
        let id = verbs::intent::set_intent(&self.shared, name, verb, by).await?;
        self.get(id.as_str())
    }

    /// delete: accepted in every state. Answers with what is left to see, which is the sandbox as
    /// it was asked to go when it is gone already.
    pub async fn delete(
        &self,
        name: &str,
        discard_workspace: bool,
        forget: bool,
        by: &str,
    ) -> Result<Snapshot, Refusal> {
        let before = self.get(name)?;
        let id = verbs::delete::delete(&self.shared, name, discard_workspace, forget, by).await?;
        Ok(self.shared.snapshot(&id).unwrap_or(before))
    }

    /// One sandbox, by name (the newest of that name) or id.
    pub fn get(&self, name: &str) -> Result<Snapshot, Refusal> {
        let id = self.shared.registry.resolve(name)?;
        self.shared.snapshot(&id).map_or_else(|| self.get(name), Ok)
    }

    /// All sandboxes whose labels hold all of `selector`, by creation time, oldest first.
    pub fn list(&self, selector: &BTreeMap<String, String>) -> Vec<Snapshot> {
        self.list_as(selector, |snapshot| snapshot)
    }

    /// As [`list`](Self::list), each turned into something else at once: thousands of snapshots are
    /// never there side by side.
    pub(crate) fn list_as<T>(
        &self,
        selector: &BTreeMap<String, String>,
        turned: impl Fn(Snapshot) -> T,
    ) -> Vec<T> {
        let ids = self.shared.registry.ids_by_age();
        let snapshots = ids.iter().filter_map(|id| self.shared.snapshot(id));
        snapshots.filter(|snapshot| matches(&snapshot.record, selector)).map(turned).collect()
    }

    /// The sandbox now, then after each change of its facts (a slow reader sees the newest only);
    /// `None` and the end once its record is gone.
    pub fn watch(&self, name: &str) -> Result<BoxStream<'static, Option<Snapshot>>, Refusal> {
        follow::watch(&self.shared, name)
    }

    /// The timeline, oldest first; with `follow` it goes on as things happen. Of one sandbox (by
    /// name or id, also of one that is gone, by id), or of all.
    pub fn events(
        &self,
        name: Option<&str>,
        follow: bool,
    ) -> Result<BoxStream<'static, Result<Event, Refusal>>, Refusal> {
        follow::events(&self.shared, name, follow)
    }

    /// What was asked, what is seen, what differs and what may be done.
    pub fn explain(&self, name: &str) -> Result<(Snapshot, Explanation), Refusal> {
        let snapshot = self.get(name)?;
        let now = self.shared.clock.now();
        let explanation = explain(&snapshot.record, &snapshot.live, now);
        Ok((snapshot, explanation))
    }

    /// All workspaces, by name.
    pub fn workspaces(&self) -> Vec<WorkspaceView> {
        let mut all: Vec<_> =
            self.shared.registry.inner().workspaces.values().map(Arc::clone).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.iter().map(|workspace| self.shared.view_workspace(workspace)).collect()
    }

    /// One workspace, by name or id.
    pub fn workspace(&self, name: &str) -> Result<WorkspaceView, Refusal> {
        let workspace = self.shared.registry.resolve_workspace(name)?;
        Ok(self.shared.view_workspace(&workspace))
    }

    /// Discards a workspace that nothing holds or refers to.
    pub async fn delete_workspace(&self, name: &str, _by: &str) -> Result<WorkspaceView, Refusal> {
        let workspace = verbs::workspace::delete(&self.shared, name).await?;
        Ok(self.shared.view_workspace(&workspace))
    }

    /// The drivers and whether they answer.
    pub fn drivers(&self) -> Vec<DriverState> {
        self.shared.drivers.report()
    }

    /// Set while the gateway is in hold.
    pub fn hold(&self) -> Option<HoldState> {
        self.shared.hold()
    }

    /// Ends the hold: what was found is ours again. Names of what was adopted.
    pub async fn adopt(&self, by: &str) -> Result<Vec<String>, Refusal> {
        adopt::adopt(&self.shared, by).await
    }

    /// Ends the hold: what was found is left alone from now on. Names of what was disowned.
    pub async fn disown(&self, _by: &str) -> Result<Vec<String>, Refusal> {
        adopt::disown(&self.shared).await
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.queue.close();
        self.shared.gone.cancel();
    }
}

fn matches(record: &Record, selector: &BTreeMap<String, String>) -> bool {
    let labels = &record.intent.spec.labels;
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
