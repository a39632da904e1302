//! What users have asked for and were promised: the oracle that the gateway is held against.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sandkeep_core::{Phase, RestartPolicy, SandboxId, WaitsFor, Want, WorkspaceId};
use sandkeep_gateway::Snapshot;
use sandkeep_gateway::refusal::RefusalKind;

use crate::house::House;

/// A lost sandbox may be shown Ready for so long: a probe's deadline, and then some.
const READY_LAG: Duration = Duration::from_secs(30);

/// What was asked of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: SandboxId,
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) policy: RestartPolicy,
    pub(crate) remove_when_done: bool,
    /// Known once the gateway has told.
    pub(crate) workspace: Option<WorkspaceId>,
    /// Every intent that may hold: one after an acknowledged verb, more after one that nobody
    /// answered.
    pub(crate) allowed: BTreeSet<Wish>,
    /// The newest generation that was acknowledged.
    pub(crate) generation: u64,
    /// It was told to be gone: it never comes back.
    pub(crate) gone: bool,
    last_runnable: Duration,
    shown: Option<(Phase, String)>,
}

/// One intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    Absent,
    Running,
    Stopped,
    Deleted,
}

impl Wish {
    const fn of(want: Want) -> Self {
        match want {
            Want::Running => Self::Running,
            Want::Stopped => Self::Stopped,
            Want::Deleted => Self::Deleted,
        }
    }
}

/// All sandboxes ever asked for.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) entries: BTreeMap<SandboxId, Entry>,
    /// Words that were shown.
    pub(crate) reasons: BTreeSet<String>,
    pub(crate) phases: BTreeSet<String>,
}

impl Entry {
    pub(crate) fn new(
        id: SandboxId,
        name: &str,
        driver: &str,
        policy: RestartPolicy,
        remove_when_done: bool,
    ) -> Self {
        Self {
            id,
            name: name.to_owned(),
            driver: driver.to_owned(),
            policy,
            remove_when_done,
            workspace: None,
            allowed: BTreeSet::from([Wish::Absent, Wish::Running]),
            generation: 0,
            gone: false,
            last_runnable: Duration::ZERO,
            shown: None,
        }
    }

    /// The gateway has acknowledged what `snapshot` shows.
    pub(crate) fn acknowledge(&mut self, snapshot: &Snapshot) {
        let intent = &snapshot.record.intent;
        self.allowed = BTreeSet::from([Wish::of(intent.want)]);
        self.generation = self.generation.max(intent.generation);
        self.workspace = Some(intent.spec.workspace.clone());
    }

    /// Nobody knows whether this was taken.
    pub(crate) fn perhaps(&mut self, wish: Wish) {
        self.allowed.insert(wish);
    }

    /// The store was rolled back: whatever it says now is what holds.
    pub(crate) fn forget_promises(&mut self) {
        self.allowed = BTreeSet::from([Wish::Absent, Wish::Running, Wish::Stopped, Wish::Deleted]);
        self.generation = 0;
        self.gone = false;
    }

    fn may_go(&self, house: &House) -> bool {
        self.allowed.contains(&Wish::Deleted)
            || self.allowed.contains(&Wish::Absent)
            || (self.remove_when_done && house.world.has_ended(&self.id))
    }
}

impl Book {
    /// Holds everything that the gateway shows against what was asked and what is.
    pub(crate) fn check(&mut self, house: &House) -> Result<(), String> {
        let now = house.world.elapsed();
        let gateway = std::sync::Arc::clone(house.gateway());
        for entry in self.entries.values_mut() {
            // One that died while no gateway was there to see it has its time from then on.
            if house.world.can_run(&entry.id) || house.is_fresh() {
                entry.last_runnable = now;
            }
            match gateway.get(entry.id.as_str()) {
                Ok(snapshot) => {
                    entry.check_intent(house, &snapshot)?;
                    entry.check_view(&snapshot, now)?;
                    let shown = (snapshot.view.phase, snapshot.view.reason.clone());
                    if entry.shown.as_ref() != Some(&shown) {
                        let (id, name) = (&entry.id, &entry.name);
                        let text = format!("{id} ({name}) shows {} {}", shown.0, shown.1);
                        house.world.note(format_args!("{text}"));
                        self.reasons.insert(shown.1.clone());
                        self.phases.insert(shown.0.to_string());
                        entry.shown = Some(shown);
                    }
                }
                Err(refusal) if refusal.kind == RefusalKind::NotFound => {
                    if !entry.gone && !entry.may_go(house) {
                        return Err(format!("{} is gone, nobody asked for that", entry.id));
                    }
                    entry.gone = true;
                }
                Err(refusal) => return Err(format!("get {} was refused: {refusal}", entry.id)),
            }
        }
        match house.world.violations().first() {
            Some(violation) => Err(violation.clone()),
            None => house.world.work_is_whole(),
        }
    }
}

impl Entry {
    fn check_intent(&mut self, house: &House, snapshot: &Snapshot) -> Result<(), String> {
        let (id, intent) = (&self.id, &snapshot.record.intent);
        if self.gone {
            return Err(format!("{id} was gone and has come back"));
        }
        let wish = Wish::of(intent.want);
        let by_itself = wish == Wish::Deleted
            && self.remove_when_done
            && intent.by == "sandkeep"
            && house.world.has_ended(id);
        if !self.allowed.contains(&wish) && !by_itself {
            let allowed = &self.allowed;
            return Err(format!("{id} is to be {wish:?}; asked for was one of {allowed:?}"));
        }
        if intent.generation < self.generation {
            return Err(format!(
                "{id}: generation {} was acknowledged and is {} now",
                self.generation, intent.generation
            ));
        }
        self.allowed = BTreeSet::from([wish]);
        self.generation = intent.generation;
        self.workspace = Some(intent.spec.workspace.clone());
        if let Some(broken) = sandkeep_core::check::check(&snapshot.record) {
            return Err(format!("{id}: {broken}"));
        }
        Ok(())
    }

    fn check_view(&self, snapshot: &Snapshot, now: Duration) -> Result<(), String> {
        let (id, view) = (&self.id, &snapshot.view);
        if view.phase == Phase::Ready && now.saturating_sub(self.last_runnable) > READY_LAG {
            return Err(format!("{id} is shown Ready and no command can be run in it"));
        }
        let waits = match (view.phase, view.waits_for) {
            (Phase::Ready, waits) => waits.is_none(),
            (_, waits) => waits.is_some(),
        };
        if !waits || view.reason.is_empty() || view.message.is_empty() {
            return Err(format!("{id} does not explain itself: {view:?}"));
        }
        if view.next.is_empty() && view.waits_for.is_some_and(|who| who != WaitsFor::User) {
            return Err(format!("{id} does not say what happens next: {view:?}"));
        }
        Ok(())
    }
}
