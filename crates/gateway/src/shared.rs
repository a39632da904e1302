//! What verbs, questions and the reconciler have in common.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sandkeep_core::{Live, Record, SandboxId, View, Workspace, project};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::drivers::Drivers;
use crate::entropy::Entropy;
use crate::gateway::{HoldState, Snapshot, WorkspaceView};
use crate::metrics::Metrics;
use crate::reconcile::discard_tries::DiscardTries;
use crate::reconcile::queue::{Key, Queue};
use crate::registry::Registry;
use crate::sessions::Sessions;

/// The parts of one gateway.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) registry: Arc<Registry>,
    pub(crate) drivers: Drivers,
    pub(crate) sessions: Arc<dyn Sessions>,
    pub(crate) queue: Queue,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) home: PathBuf,
    /// Id of the machine that this process runs on.
    pub(crate) machine: String,
    /// Which directory the home is. `None`: it cannot be told from a copy.
    pub(crate) directory: Option<sandkeep_store::HomeDirectory>,
    pub(crate) hold: Mutex<Option<HoldState>>,
    pub(crate) discard_tries: DiscardTries,
    /// The gateway is gone: nothing that was begun goes on.
    pub(crate) gone: CancellationToken,
}

impl Shared {
    /// Facts of one sandbox for `decide` and `project`.
    pub(crate) fn facts(&self, id: &SandboxId) -> Option<(Arc<Record>, Live)> {
        let session = self.sessions.session(id);
        let (record, live) = self.registry.live(id, session)?;
        let compared = self.drivers.get(&record.driver).map(|slot| slot.compared());
        let live = Live {
            told: self.sessions.notes(id),
            gateway_hold: self.on_hold(),
            // Asked after the session was: a result that came with it is not missed.
            result_waiting: self.sessions.result(id).is_some(),
            driver_missing: compared.is_none(),
            looked: live.looked && compared.unwrap_or(true),
            ..live
        };
        Some((record, live))
    }

    /// One sandbox as people see it now.
    pub(crate) fn snapshot(&self, id: &SandboxId) -> Option<Snapshot> {
        let (record, live) = self.facts(id)?;
        let view = project(&record, &live, self.clock.now());
        let workspace = self.registry.workspace(&record.intent.spec.workspace);
        let workspace = workspace.map(|workspace| self.view_workspace(&workspace));
        Some(Snapshot { record, live, view, workspace })
    }

    /// The derived view alone.
    pub(crate) fn view(&self, id: &SandboxId) -> Option<View> {
        let (record, live) = self.facts(id)?;
        Some(project(&record, &live, self.clock.now()))
    }

    /// A workspace as people see it now.
    pub(crate) fn view_workspace(&self, workspace: &Workspace) -> WorkspaceView {
        let holder = workspace.holder.as_ref().and_then(|id| self.registry.record(id));
        let missing = holder.as_ref().is_some_and(|record| {
            record.observed.workspace == sandkeep_core::WorkspaceSeen::Missing
        });
        let state = match (workspace.discard, workspace.marked, missing, holder.is_some()) {
            (true, ..) => "Discarding",
            (_, false, ..) => "Pending",
            (_, _, true, _) => "Missing",
            (_, _, _, true) => "Bound",
            (_, _, _, false) => "Kept",
        };
        WorkspaceView {
            workspace: workspace.clone(),
            state,
            holder: holder.map(|record| record.name.to_string()),
        }
    }

    pub(crate) fn on_hold(&self) -> bool {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn set_hold(&self, hold: Option<HoldState>) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = hold;
    }

    pub(crate) fn hold(&self) -> Option<HoldState> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Look at this sandbox soon.
    pub(crate) fn wake(&self, id: &SandboxId) {
        self.queue.wake(Key::Sandbox(id.clone()));
    }

    /// Look at everything soon.
    pub(crate) fn wake_all(&self) {
        for id in self.registry.ids() {
            self.queue.wake(Key::Sandbox(id));
        }
    }
}
