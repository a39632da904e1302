//! The whole simulated world behind one lock, and what a test may do to it and ask of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandkeep_core::{MainStatus, SandboxId, Timestamp, WorkspaceId};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::backing::{SimBacking, SimState};
use super::engine::{Endpoint, Engine, Reach};
use super::fault::{Disturbance, FaultKind, Faults};
use super::supervisor::MainCommand;
use super::trace::Trace;
use crate::WatchEvent;

/// How long things take, each from–to in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// A call on its way, and its answer on its way back.
    pub travel: (u64, u64),
    /// Making a workspace or a backing.
    pub make: (u64, u64),
    /// From the start call to a running PID 1.
    pub boot: (u64, u64),
    /// A main command that was told to end.
    pub exit: (u64, u64),
    /// Removing a backing or a workspace.
    pub remove: (u64, u64),
}

impl Pace {
    /// Always the same: an undisturbed run is the same each time.
    pub const STEADY: Self =
        Self { travel: (1, 1), make: (20, 20), boot: (50, 50), exit: (100, 100), remove: (30, 30) };

    /// As a busy machine.
    pub const VARIED: Self = Self {
        travel: (1, 20),
        make: (1, 800),
        boot: (1, 3000),
        exit: (1, 15_000),
        remove: (1, 2000),
    };
}

/// What becomes of a numbered effect that a test carries out itself (a commit, a `go`).
pub type EffectFate = Option<Disturbance>;

/// What was ever written into a workspace, kept outside every engine.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) written: Vec<u64>,
    pub(super) may_be_discarded: bool,
    /// The test itself took it away.
    pub(super) lost: bool,
}

/// What became of one run of one sandbox.
#[derive(Debug, Default)]
pub(super) struct RunLedger {
    pub(super) carried_out: u64,
    /// By their `restart`.
    pub(super) executions: BTreeSet<u32>,
    /// Code of a result that the gateway acknowledged as stored.
    pub(super) acknowledged: Option<i32>,
}

/// A handle to the world; clones share it.
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    changed: Notify,
}

pub(super) struct Inner {
    pub(super) started: Instant,
    /// Added to virtual time for everything an engine dates.
    pub(super) epoch: Timestamp,
    pub(super) pace: Pace,
    pub(super) engines: BTreeMap<String, Engine>,
    pub(super) endpoints: BTreeMap<String, Endpoint>,
    pub(super) faults: Faults,
    pub(super) trace: Trace,
    pub(super) effects: u64,
    pub(super) acted: u64,
    pub(super) counter: u64,
    pub(super) ledgers: BTreeMap<WorkspaceId, Ledger>,
    pub(super) runs: BTreeMap<(SandboxId, u64), RunLedger>,
    /// Sandboxes whose command has ended at least once.
    pub(super) ended: BTreeSet<SandboxId>,
    pub(super) violations: Vec<String>,
    crash: Option<UnboundedSender<String>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("effects", &self.lock().effects).finish_non_exhaustive()
    }
}

impl World {
    /// An empty world whose chances come from `seed`; lines of its trace are kept with
    /// `keep_trace`. Has to be made inside a tokio runtime.
    pub fn new(seed: u64, pace: Pace, keep_trace: bool) -> Self {
        let inner = Inner {
            started: Instant::now(),
            epoch: Timestamp::EPOCH,
            pace,
            engines: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            faults: Faults::new(seed),
            trace: Trace::new(keep_trace),
            effects: 0,
            acted: 0,
            counter: 0,
            ledgers: BTreeMap::new(),
            runs: BTreeMap::new(),
            ended: BTreeSet::new(),
            violations: Vec::new(),
            crash: None,
        };
        Self { shared: Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new() }) }
    }

    /// Adds driver `name`, leading to an engine of its own with identity `engine`.
    pub fn add_driver(&self, name: &str, engine: &str) {
        let mut inner = self.lock();
        inner.engines.entry(engine.to_owned()).or_default();
        let endpoint =
            Endpoint { engine: engine.to_owned(), reach: Reach::Up, subscribers: Vec::new() };
        inner.endpoints.insert(name.to_owned(), endpoint);
    }

    /// What engines call the time is virtual time after `epoch`.
    pub fn set_epoch(&self, epoch: Timestamp) {
        self.lock().epoch = epoch;
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everyone who waits for a change.
    pub(super) fn touch(&self) {
        self.shared.changed.notify_waiters();
    }

    /// Waits until `done` gives something, asking again after each change of the world.
    pub async fn until<T>(&self, mut done: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = done(self) {
                return found;
            }
            changed.await;
        }
    }

    /// Adds a line to the trace.
    pub fn note(&self, text: fmt::Arguments<'_>) {
        self.lock().note(text);
    }

    /// Steers the faults.
    pub fn with_faults<T>(&self, steer: impl FnOnce(&mut Faults) -> T) -> T {
        steer(&mut self.lock().faults)
    }

    /// Fingerprint of everything that happened so far.
    pub fn trace_hash(&self) -> u64 {
        self.lock().trace.hash()
    }

    /// The trace; empty unless kept.
    pub fn trace_lines(&self) -> Vec<String> {
        self.lock().trace.lines().to_vec()
    }

    /// What must never happen and did.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Notes something that must never happen.
    pub fn violate(&self, text: fmt::Arguments<'_>) {
        self.lock().violate(text);
    }

    /// How many effects were begun: backend calls that change something, and what the test counts.
    pub fn effects(&self) -> u64 {
        self.lock().effects
    }

    /// How many calls that change something have reached an engine.
    pub fn acted(&self) -> u64 {
        self.lock().acted
    }

    /// Counts an effect that the test carries out itself, and says what was ordered for it.
    pub fn count_effect(&self, what: &str) -> EffectFate {
        self.lock().begin_effect(what)
    }

    /// Where to hear that the gateway has to die now, and why.
    pub fn crashes(&self) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        self.lock().crash = Some(sender);
        receiver
    }

    /// Orders the gateway to die.
    pub fn order_crash(&self, why: &str) {
        let inner = self.lock();
        if let Some(crash) = &inner.crash {
            // Nobody listens any more: the run is over.
            let _sent = crash.send(why.to_owned());
        }
    }

    /// The engine that `driver` leads to.
    pub fn engine_of(&self, driver: &str) -> Option<String> {
        self.lock().endpoints.get(driver).map(|endpoint| endpoint.engine.clone())
    }

    /// Looks at a backing on the engine that `driver` leads to.
    pub fn with_backing<T>(
        &self,
        driver: &str,
        id: &SandboxId,
        look: impl FnOnce(Option<&SimBacking>) -> T,
    ) -> T {
        let inner = self.lock();
        look(inner.engine(driver).and_then(|engine| engine.backings.get(id)))
    }

    /// Looks at one whole engine.
    pub fn with_engine<T>(&self, name: &str, look: impl FnOnce(&Engine) -> T) -> Option<T> {
        self.lock().engines.get(name).map(look)
    }

    /// From now on `workspace` may be removed: a user asked for it.
    pub fn allow_discard(&self, workspace: &WorkspaceId) {
        self.lock().ledgers.entry(workspace.clone()).or_default().may_be_discarded = true;
    }

    /// Whether all that was ever written is still there, in every workspace that nobody asked to
    /// discard and that the test did not take away itself.
    pub fn work_is_whole(&self) -> Result<(), String> {
        let inner = self.lock();
        for (id, ledger) in &inner.ledgers {
            if ledger.may_be_discarded || ledger.lost || ledger.written.is_empty() {
                continue;
            }
            let mut copies = inner.engines.values().filter_map(|e| e.workspaces.get(id));
            if !copies.any(|copy| copy.content == ledger.written) {
                return Err(format!("the work of {} writes is lost", ledger.written.len()));
            }
        }
        Ok(())
    }

    /// The engine that `driver` leads to does not have this workspace.
    pub fn is_missing(&self, driver: &str, workspace: &WorkspaceId) -> bool {
        let inner = self.lock();
        inner.engine(driver).is_none_or(|engine| !engine.workspaces.contains_key(workspace))
    }

    /// How many backings, up or down, are made on this workspace.
    pub fn uses_of(&self, workspace: &WorkspaceId) -> usize {
        let inner = self.lock();
        let backings = inner.engines.values().flat_map(|engine| engine.backings.values());
        backings.filter(|backing| backing.made_from.spec.workspace == *workspace).count()
    }

    /// Some command that will end by itself is still at work.
    pub fn is_busy(&self) -> bool {
        let inner = self.lock();
        let mut backings = inner.engines.values().flat_map(|engine| engine.backings.values());
        backings.any(|backing| {
            if !speaks(backing.state) {
                return false;
            }
            let main = backing.supervisor.as_ref().map(|pid_1| pid_1.main);
            let Some(MainStatus::Running { restart, .. }) = main else { return false };
            MainCommand::of(&backing.made_from.spec, restart) != MainCommand::Forever
        })
    }

    /// Some execution of the sandbox's command has a result on its disk or had one.
    pub fn has_ended(&self, id: &SandboxId) -> bool {
        self.lock().ended.contains(id)
    }

    /// How often a run was carried out.
    pub fn carried_out(&self, id: &SandboxId, run: u64) -> u64 {
        self.lock().runs.get(&(id.clone(), run)).map_or(0, |run| run.carried_out)
    }

    /// The gateway forgot part of what happened (its store was rolled back): what it lets happen
    /// again is not held against it.
    pub fn forgive_runs(&self) {
        self.lock().runs.clear();
    }

    /// By chance, a result is told later than the end of its command.
    pub fn strikes_result_late(&self) -> bool {
        self.lock().faults.strikes(FaultKind::ResultLate)
    }

    /// Virtual time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.lock().started.elapsed()
    }
}

impl Inner {
    pub(super) fn note(&mut self, text: fmt::Arguments<'_>) {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.trace.add(millis, text);
    }

    pub(super) fn violate(&mut self, text: fmt::Arguments<'_>) {
        self.note(format_args!("VIOLATION {text}"));
        let text = text.to_string();
        if !self.violations.contains(&text) {
            self.violations.push(text);
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.epoch + self.started.elapsed()
    }

    pub(super) const fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn engine(&self, driver: &str) -> Option<&Engine> {
        self.engines.get(&self.endpoints.get(driver)?.engine)
    }

    /// The engine that has this run of the sandbox's backing, wherever drivers lead to now: a
    /// session goes to a process and not through its engine.
    pub(super) fn engine_with(&self, id: &SandboxId, run: &str) -> Option<String> {
        let mut engines = self.engines.iter();
        let is_it = |backing: &SimBacking| backing.backing_run.as_deref() == Some(run);
        let found = engines.find(|(_, engine)| engine.backings.get(id).is_some_and(is_it));
        found.map(|(name, _)| name.clone())
    }

    /// The engine that has a running backing of the sandbox.
    pub(super) fn engine_running(&self, id: &SandboxId) -> Option<String> {
        let mut engines = self.engines.iter();
        let runs = |backing: &SimBacking| {
            speaks(backing.state) && backing.supervisor.as_ref().is_some_and(|s| !s.mute)
        };
        let found = engines.find(|(_, engine)| engine.backings.get(id).is_some_and(runs));
        found.map(|(name, _)| name.clone())
    }

    pub(super) fn begin_effect(&mut self, what: &str) -> EffectFate {
        self.effects += 1;
        let number = self.effects;
        let fate = self.faults.planned(number);
        match fate {
            Some(fate) => self.note(format_args!("effect {number} {what}: {fate:?}")),
            None => self.note(format_args!("effect {number} {what}")),
        }
        fate
    }

    /// Tells the watchers of `engine` to look; hints may be lost, doubled, late.
    pub(super) fn hint(&mut self, engine: &str, event: &WatchEvent) {
        let listening: Vec<String> = self
            .endpoints
            .iter()
            .filter(|(_, endpoint)| endpoint.engine == engine && endpoint.answers())
            .map(|(name, _)| name.clone())
            .collect();
        for name in listening {
            if self.faults.strikes(FaultKind::WatchLost) {
                continue;
            }
            let times = if self.faults.strikes(FaultKind::WatchDoubled) { 2 } else { 1 };
            let late = self.faults.strikes(FaultKind::WatchLate);
            let delay = if late { self.faults.delay(100, 20_000) } else { Duration::ZERO };
            let Some(endpoint) = self.endpoints.get_mut(&name) else { continue };
            endpoint.subscribers.retain(|subscriber| !subscriber.is_closed());
            for subscriber in &endpoint.subscribers {
                tell(subscriber.clone(), event.clone(), times, delay);
            }
        }
    }

    /// Checks what must never be, after something came up on `engine`.
    pub(super) fn check_live(&mut self, id: &SandboxId) {
        let live = |backing: &&SimBacking| backing.state.is_live();
        let of_id =
            self.engines.values().filter_map(|engine| engine.backings.get(id)).filter(live).count();
        if of_id > 1 {
            self.violate(format_args!("{id} has {of_id} live backings"));
        }
        let workspace = self
            .engines
            .values()
            .filter_map(|engine| engine.backings.get(id))
            .find(live)
            .map(|backing| backing.made_from.spec.workspace.clone());
        let Some(workspace) = workspace else { return };
        let holders: Vec<String> = self
            .engines
            .values()
            .flat_map(|engine| engine.backings.iter())
            .filter(|(_, b)| b.state.is_live() && b.made_from.spec.workspace == workspace)
            .map(|(id, _)| id.to_string())
            .collect();
        if holders.len() > 1 {
            self.violate(format_args!("a workspace has live holders {}", holders.join(" and ")));
        }
    }
}

/// Whether a PID 1 can be spoken with.
pub(super) const fn speaks(state: SimState) -> bool {
    matches!(state, SimState::Running)
}

fn tell(to: UnboundedSender<WatchEvent>, event: WatchEvent, times: u32, delay: Duration) {
    let send = move || {
        for _ in 0..times {
            // The watcher is gone: nobody to tell.
            let _sent = to.send(event.clone());
        }
    };
    if delay.is_zero() {
        send();
    } else {
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            send();
        });
    }
}
