//! A store in memory, for simulation: it can be rolled back in time, filled up, slowed down, and
//! stopped at any commit, before or after it took effect.
//!
//! It is the reference for what a store means: every other one must answer alike (see the
//! conformance suite). It survives no process and is never used by a real gateway.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandkeep_core::{Record, SandboxId, Workspace, WorkspaceId};

use crate::Store;
use crate::bounds::EventBounds;
use crate::change::{Change, Contents, Event, Meta, Priority, Tombstone};
use crate::error::StoreError;

/// What becomes of one commit.
#[derive(Debug, Clone)]
pub enum CommitFate {
    /// It is carried out and answered.
    Proceed,
    /// Nothing is written; the caller gets this error.
    FailBefore(StoreError),
    /// It is written; the caller gets this error all the same (an answer that was lost).
    FailAfter(StoreError),
    /// Nothing is written and the caller never gets an answer (the process dies before).
    HangBefore,
    /// It is written and the caller never gets an answer (the process dies after).
    HangAfter,
}

/// Decides the fate of each commit that would otherwise work.
pub type FateHook = Box<dyn FnMut(Priority, &[Change]) -> CommitFate + Send>;

/// Everything stored at one moment; cheap to take and to keep.
#[derive(Debug, Clone, Default)]
pub struct MemorySnapshot(Data);

/// A store in memory. Clones share the same contents, as processes share a disk.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    data: Data,
    bounds: EventBounds,
    full: bool,
    dropped_events: u64,
    delay: Duration,
    commits: u64,
    fates: VecDeque<CommitFate>,
    hook: Option<FateHook>,
}

/// Values are shared with every snapshot and replaced as a whole, never changed in place.
#[derive(Debug, Clone, Default)]
struct Data {
    records: BTreeMap<SandboxId, Arc<Record>>,
    workspaces: BTreeMap<WorkspaceId, Arc<Workspace>>,
    tombstones: BTreeMap<String, Arc<Tombstone>>,
    events: VecDeque<Arc<Event>>,
    /// How many of `events` each sandbox has, so that a commit need not count them.
    event_counts: BTreeMap<Option<SandboxId>, usize>,
    last_sequence: u64,
    meta: Option<Meta>,
}

impl MemoryStore {
    /// An empty store with the usual bounds.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store with bounds of its own.
    pub fn with_bounds(bounds: EventBounds) -> Self {
        let store = Self::default();
        store.lock().bounds = bounds;
        store
    }

    /// Everything stored now.
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.lock().data.clone())
    }

    /// Rolls the store back (or forward) to `snapshot`, as a restored copy of the disk would.
    pub fn restore(&self, snapshot: &MemorySnapshot) {
        self.lock().data = snapshot.0.clone();
    }

    /// A disk of its own with the same contents, as a copied home has.
    #[must_use]
    pub fn copied(&self) -> Self {
        let copy = Self::default();
        {
            let (from, mut to) = (self.lock(), copy.lock());
            to.data = from.data.clone();
            to.bounds = from.bounds;
        }
        copy
    }

    /// Everything but events, without waiting and without a fate.
    pub fn contents(&self) -> Contents {
        self.lock().data.contents()
    }

    /// The next commit fails and writes nothing. Several calls queue up.
    pub fn fail_next(&self, error: StoreError) {
        self.lock().fates.push_back(CommitFate::FailBefore(error));
    }

    /// The next commit (after those already queued) has this fate.
    pub fn fate_next(&self, fate: CommitFate) {
        self.lock().fates.push_back(fate);
    }

    /// Asks `hook` for the fate of every commit for which none is queued; `None` takes it away.
    pub fn set_hook(&self, hook: Option<FateHook>) {
        self.lock().hook = hook;
    }

    /// With `true` the disk is full: normal commits are refused, events are dropped and counted.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// Every commit takes this long (by tokio's clock) before it takes effect.
    pub fn set_delay(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    /// How many commits took effect so far. It does not move at rest.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.lock();
        f.debug_struct("MemoryStore")
            .field("records", &shared.data.records.len())
            .field("commits", &shared.commits)
            .field("full", &shared.full)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn load(&self) -> Result<Contents, StoreError> {
        Ok(self.contents())
    }

    async fn commit(&self, priority: Priority, changes: Vec<Change>) -> Result<(), StoreError> {
        let delay = self.lock().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let outcome = self.lock().commit(priority, changes);
        match outcome {
            Some(result) => result,
            None => std::future::pending().await,
        }
    }

    async fn events(
        &self,
        sandbox: Option<&SandboxId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let shared = self.lock();
        let wanted = |event: &&Arc<Event>| {
            event.sequence > after && (sandbox.is_none() || event.sandbox.as_ref() == sandbox)
        };
        Ok(shared.data.events.iter().filter(wanted).take(limit).map(|e| (**e).clone()).collect())
    }
}

impl Shared {
    /// `None`: the caller never hears of it.
    fn commit(
        &mut self,
        priority: Priority,
        changes: Vec<Change>,
    ) -> Option<Result<(), StoreError>> {
        let fate = match self.fates.pop_front() {
            Some(fate) => fate,
            None => self.hook.as_mut().map_or(CommitFate::Proceed, |hook| hook(priority, &changes)),
        };
        match fate {
            CommitFate::Proceed => Some(self.write(priority, changes)),
            CommitFate::FailBefore(error) => Some(Err(error)),
            CommitFate::FailAfter(error) => Some(self.write(priority, changes).and(Err(error))),
            CommitFate::HangBefore => None,
            CommitFate::HangAfter => {
                // Whether it worked or was refused, nobody is there to hear it.
                drop(self.write(priority, changes));
                None
            }
        }
    }

    fn write(&mut self, priority: Priority, mut changes: Vec<Change>) -> Result<(), StoreError> {
        if self.full && priority == Priority::Normal {
            return Err(StoreError::DiskFull);
        }
        self.data.check(&changes)?;
        if self.full {
            let before = changes.len();
            changes.retain(|change| !matches!(change, Change::AppendEvent(_)));
            self.dropped_events += (before - changes.len()) as u64;
        }
        for change in changes {
            self.data.apply(change, &mut self.dropped_events);
        }
        self.data.trim(self.bounds);
        self.commits += 1;
        Ok(())
    }
}

impl Data {
    fn contents(&self) -> Contents {
        Contents {
            records: self.records.values().map(|r| (**r).clone()).collect(),
            workspaces: self.workspaces.values().map(|w| (**w).clone()).collect(),
            tombstones: self.tombstones.values().map(|t| (**t).clone()).collect(),
            meta: self.meta.clone(),
        }
    }

    /// Finds the first change that does not hold, so that applying cannot fail half-way.
    fn check(&self, changes: &[Change]) -> Result<(), StoreError> {
        // Revisions as this batch leaves them so far; `None`: buried. Batches are small.
        let mut touched: Vec<(&str, &str, Option<u64>)> = Vec::new();
        for change in changes {
            let (kind, id, expected, after) = match change {
                Change::PutRecord(r) => {
                    ("sandbox", r.id.as_str(), r.revision, Some(r.revision.saturating_add(1)))
                }
                Change::BuryRecord { id, revision, .. } => {
                    ("sandbox", id.as_str(), *revision, None)
                }
                Change::PutWorkspace(w) => {
                    ("workspace", w.id.as_str(), w.revision, Some(w.revision.saturating_add(1)))
                }
                Change::BuryWorkspace { id, revision, .. } => {
                    ("workspace", id.as_str(), *revision, None)
                }
                Change::DropTombstone { .. } | Change::AppendEvent(_) | Change::PutMeta(_) => {
                    continue;
                }
            };
            let earlier = touched.iter().rev().find(|(k, i, _)| (*k, *i) == (kind, id));
            let stored = match earlier {
                Some((_, _, revision)) => *revision,
                None => self.revision(kind, id),
            };
            let inserts = expected == 0 && after.is_some();
            let buried = self.tombstones.contains_key(id) || touched.contains(&(kind, id, None));
            let holds =
                if inserts { stored.is_none() && !buried } else { stored == Some(expected) };
            if !holds {
                return Err(StoreError::Conflict { what: format!("{kind} {id}"), expected });
            }
            touched.push((kind, id, after));
        }
        Ok(())
    }

    fn revision(&self, kind: &str, id: &str) -> Option<u64> {
        if kind == "sandbox" {
            let id = id.parse::<SandboxId>().ok()?;
            self.records.get(&id).map(|record| record.revision)
        } else {
            let id = id.parse::<WorkspaceId>().ok()?;
            self.workspaces.get(&id).map(|workspace| workspace.revision)
        }
    }

    fn apply(&mut self, change: Change, dropped_events: &mut u64) {
        match change {
            Change::PutRecord(mut record) => {
                record.revision += 1;
                self.records.insert(record.id.clone(), Arc::new(*record));
            }
            Change::BuryRecord { id, tombstone, .. } => {
                self.records.remove(&id);
                self.tombstones.insert(tombstone.id.clone(), Arc::new(tombstone));
            }
            Change::PutWorkspace(mut workspace) => {
                workspace.revision += 1;
                self.workspaces.insert(workspace.id.clone(), Arc::new(*workspace));
            }
            Change::BuryWorkspace { id, tombstone, .. } => {
                self.workspaces.remove(&id);
                self.tombstones.insert(tombstone.id.clone(), Arc::new(tombstone));
            }
            Change::DropTombstone { id } => {
                self.tombstones.remove(&id);
            }
            Change::AppendEvent(mut event) => {
                self.last_sequence += 1;
                event.sequence = self.last_sequence;
                event.dropped = std::mem::take(dropped_events);
                *self.event_counts.entry(event.sandbox.clone()).or_default() += 1;
                self.events.push_back(Arc::new(event));
            }
            Change::PutMeta(meta) => self.meta = Some(meta),
        }
    }

    fn trim(&mut self, bounds: EventBounds) {
        let too_many = EventBounds::trim_above(bounds.per_sandbox);
        let mut surplus: BTreeMap<Option<SandboxId>, usize> = self
            .event_counts
            .iter()
            .filter(|(_, count)| **count > too_many)
            .map(|(sandbox, count)| (sandbox.clone(), count - bounds.per_sandbox))
            .collect();
        let over_all = self.events.len() > EventBounds::trim_above(bounds.total);
        if surplus.is_empty() && !over_all {
            return;
        }
        self.events.retain(|event| match surplus.get_mut(&event.sandbox) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
        if over_all {
            let surplus = self.events.len().saturating_sub(bounds.total);
            self.events.drain(..surplus);
        }
        self.event_counts.clear();
        for event in &self.events {
            *self.event_counts.entry(event.sandbox.clone()).or_default() += 1;
        }
    }
}
