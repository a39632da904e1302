//! What a run of many seeds has tried and reached, so that a simulation that tries nothing fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sandkeep_driver::simulated::FaultKind;

/// Counts over seeds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) seeds: u64,
    pub(crate) faults: BTreeMap<FaultKind, u64>,
    pub(crate) actions: BTreeMap<String, u64>,
    pub(crate) verbs: BTreeMap<&'static str, u64>,
    pub(crate) reasons: BTreeSet<String>,
    pub(crate) phases: BTreeSet<String>,
    pub(crate) effects: u64,
    pub(crate) sandbox_ms: u64,
}

/// Actions that a run has to carry out. Images are fetched as part of create, and nothing puts a
/// sandbox to sleep yet, so `pull` and `freeze` are not among them.
const ACTIONS: [&str; 11] = [
    "workspace",
    "create",
    "start",
    "session",
    "stop",
    "kill",
    "thaw",
    "remove",
    "discard",
    "forget",
    "delete",
];

/// Reasons that a run has to show.
const REASONS: [&str; 29] = [
    "NotYetObserved",
    "EngineUnreachable",
    "OtherEngine",
    "Unintelligible",
    "DriverNotConfigured",
    "GatewayOnHold",
    "EnsuringWorkspace",
    "WorkspaceHeld",
    "WorkspaceMissing",
    "Creating",
    "BackingAbsent",
    "BackingIdle",
    "BackingExited",
    "Starting",
    "WaitingForSupervisor",
    "SupervisorNeverConnected",
    "SessionLost",
    "Ready",
    "RunLost",
    "CommandCompleted",
    "CommandFailed",
    "CommandRestarting",
    "NoImage",
    "Restarting",
    "Stopping",
    "Stopped",
    "Paused",
    "BackingRemoving",
    "Deleting",
];

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.effects += other.effects;
        self.sandbox_ms += other.sandbox_ms;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (action, count) in other.actions {
            *self.actions.entry(action).or_default() += count;
        }
        for (verb, count) in other.verbs {
            *self.verbs.entry(verb).or_default() += count;
        }
        self.reasons.extend(other.reasons);
        self.phases.extend(other.phases);
    }

    pub(crate) fn verb(&mut self, verb: &'static str) {
        *self.verbs.entry(verb).or_default() += 1;
    }

    /// Everything that should have been tried or reached and was not.
    pub(crate) fn unreached(&self) -> Vec<String> {
        let faults = FaultKind::ALL.iter().filter(|kind| !self.faults.contains_key(kind));
        let actions = ACTIONS.iter().filter(|action| !self.actions.contains_key(**action));
        let reasons = REASONS.iter().filter(|reason| !self.reasons.contains(**reason));
        let faults = faults.map(|kind| format!("fault {kind:?}"));
        let actions = actions.map(|action| format!("action {action}"));
        faults.chain(actions).chain(reasons.map(|reason| format!("reason {reason}"))).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let years = self.sandbox_ms / 1000 / 3600 / 24;
        let faults: u64 = self.faults.values().sum();
        writeln!(
            f,
            "simulation: {} seeds, {}.{:02} sandbox-years, {} effects, {faults} faults",
            self.seeds,
            years / 365,
            years % 365 * 100 / 365,
            self.effects,
        )?;
        writeln!(f, "  faults:  {:?}", self.faults)?;
        writeln!(f, "  verbs:   {:?}", self.verbs)?;
        writeln!(f, "  actions: {:?}", self.actions)?;
        writeln!(f, "  phases:  {:?}", self.phases)?;
        write!(f, "  reasons: {:?}", self.reasons)
    }
}
