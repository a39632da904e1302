//! The facts that live in memory only, put together for `decide` and `project`.

use std::sync::Arc;

use sandkeep_core::{
    Backing, Live, Observation, Record, SandboxId, Session, SessionNotes, Timestamp, Want,
    WorkspaceFacts,
};
use sandkeep_store::Event;
use tokio::sync::watch;

use super::entry::Standing;
use super::{Inner, Registry};

impl Registry {
    /// Everything about one sandbox but its session and the gateway's own state.
    pub(crate) fn live(&self, id: &SandboxId, session: Session) -> Option<(Arc<Record>, Live)> {
        let inner = self.inner();
        let entry = inner.entries.get(id)?;
        let record = Arc::clone(&entry.record);
        let live = Live {
            looked: entry.looked_generation >= record.intent.generation,
            looked_before: entry.looked_generation > 0,
            look_error: entry.look_error.clone(),
            session,
            told: SessionNotes::default(),
            listening_since: entry.listening_since,
            result_waiting: false,
            workspace: inner.workspace_facts(&record),
            gateway_hold: false,
            driver_missing: false,
            acting: entry.acting,
        };
        Some((record, live))
    }

    /// What was seen, visible at once, durable with the next durable change. `generation` is the
    /// one that the look was taken at. Says whether the facts differ from before.
    pub(crate) fn stage_observation(
        &self,
        id: &SandboxId,
        generation: u64,
        observed: Option<Observation>,
        look_error: Option<String>,
    ) -> bool {
        let mut inner = self.inner();
        let Some(entry) = inner.entries.get_mut(id) else { return false };
        let first_look = entry.looked_generation < generation;
        let mut changed = first_look || entry.look_error != look_error;
        entry.looked_generation = entry.looked_generation.max(generation);
        entry.look_error = look_error;
        if let Some(observed) = observed.filter(|observed| *observed != entry.record.observed) {
            entry.engine_staged |= observed.engine != entry.record.observed.engine;
            Arc::make_mut(&mut entry.record).observed = observed;
            entry.dirty = true;
            changed = true;
        }
        if changed {
            entry.touch();
        }
        changed
    }

    /// A line of the timeline, stored with the next durable change of this sandbox, or a
    /// moment later without one.
    pub(crate) fn stage_event(&self, id: &SandboxId, reason: &str, message: String) {
        let now = self.clock.now();
        let mut inner = self.inner();
        let Some(entry) = inner.entries.get_mut(id) else { return };
        let event = Event {
            sequence: 0,
            at: now,
            sandbox: Some(id.clone()),
            name: entry.record.name.to_string(),
            reason: reason.to_owned(),
            message,
            dropped: 0,
        };
        entry.pending_events.push(event);
        drop(inner);
        self.event_staged.notify_one();
    }

    /// Whether the engine on record may still give way to another one that answers: it was presumed
    /// when the sandbox was asked for, and nothing has been done since.
    pub(crate) fn engine_is_presumed(&self, id: &SandboxId) -> bool {
        self.inner().entries.get(id).is_some_and(|entry| entry.engine_presumed)
    }

    /// The backend call under way; `None`: none. From the first one on, the engine on record is the
    /// sandbox's.
    pub(crate) fn set_acting(&self, id: &SandboxId, acting: Option<&'static str>) {
        let mut inner = self.inner();
        if let Some(entry) = inner.entries.get_mut(id) {
            entry.acting = acting;
            entry.engine_presumed &= acting.is_none();
            entry.touch();
        }
    }

    /// This process waits for a session with this incarnation, since `now` unless it did already;
    /// 0: with none.
    pub(crate) fn listening(&self, id: &SandboxId, incarnation: u64, now: Timestamp) {
        if let Some(entry) = self.inner().entries.get_mut(id)
            && entry.listening_for != incarnation
        {
            entry.listening_for = incarnation;
            entry.listening_since = now;
        }
    }

    /// Returns once the sandbox's intent is of another generation, or the sandbox is gone.
    pub(crate) async fn generation_left(&self, id: &SandboxId, generation: u64) {
        let Some(mut version) = self.watch_version(id) else { return };
        loop {
            let current = self.record(id).map(|record| record.intent.generation);
            if current != Some(generation) || version.changed().await.is_err() {
                return;
            }
        }
    }

    /// Changes with every fact of the sandbox.
    pub(crate) fn watch_version(&self, id: &SandboxId) -> Option<watch::Receiver<u64>> {
        self.inner().entries.get(id).map(|entry| entry.version.subscribe())
    }

    /// Watchers look again (a session has changed).
    pub(crate) fn touch(&self, id: &SandboxId) {
        if let Some(entry) = self.inner().entries.get(id) {
            entry.touch();
        }
    }

    /// Whether the next Ready of this sandbox is news; asking for it settles it.
    pub(crate) fn take_announcement(&self, id: &SandboxId) -> bool {
        let mut inner = self.inner();
        inner.entries.get_mut(id).is_some_and(|entry| std::mem::take(&mut entry.announce_ready))
    }

    /// The next Ready is news.
    pub(crate) fn announce_ready(&self, id: &SandboxId) {
        if let Some(entry) = self.inner().entries.get_mut(id) {
            entry.announce_ready = true;
        }
    }

    /// Moves the sandbox's standing since the start on; says what it was.
    pub(crate) fn set_standing(&self, id: &SandboxId, standing: Standing) -> Option<Standing> {
        let mut inner = self.inner();
        let entry = inner.entries.get_mut(id)?;
        Some(std::mem::replace(&mut entry.standing, standing))
    }

    /// The sandbox's standing since the start.
    pub(crate) fn standing(&self, id: &SandboxId) -> Option<Standing> {
        self.inner().entries.get(id).map(|entry| entry.standing)
    }
}

impl Inner {
    fn workspace_facts(&self, record: &Record) -> WorkspaceFacts {
        let spec = &record.intent.spec;
        let Some(workspace) = self.workspaces.get(&spec.workspace) else {
            return WorkspaceFacts { forgotten: true, ..WorkspaceFacts::default() };
        };
        let users = self.users.get(&spec.workspace);
        let others = users.into_iter().flatten().filter(|id| **id != record.id);
        let others = others.filter_map(|id| self.entries.get(id)).map(|entry| &*entry.record);
        let others: Vec<&Record> = others.collect();
        let shared = record.intent.want == Want::Deleted && !others.is_empty();
        let holder = workspace.holder.as_ref().filter(|holder| **holder != record.id);
        // After a rollback another one may be up on it whatever the old store says.
        let up = || others.iter().find(|other| may_be_up(other)).map(|other| &other.id);
        let held_by = holder.or_else(|| self.left_alone_on(&spec.workspace)).or_else(up);
        WorkspaceFacts {
            held_by: held_by.cloned(),
            marked: workspace.marked,
            shared,
            forgotten: false,
        }
    }
}

/// It holds compute, or did when it could be looked at last.
fn may_be_up(record: &Record) -> bool {
    match record.observed.backing {
        Backing::Unknown { .. } => record.observed.incarnation > 0,
        ref seen => seen.is_live(),
    }
}
