//! What goes wrong: on order at a numbered effect, or by chance at any call.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rng::Rng;

/// What happens to one effect, on order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// The gateway dies before the effect reaches its engine.
    CrashBefore,
    /// The effect takes place; the gateway dies before it hears of it.
    CrashAfter,
    /// The effect does not take place and its caller gets an error.
    Error,
    /// The effect takes place; the answer never comes.
    DoneButTimedOut,
    /// The effect takes place twice.
    Twice,
    /// The gateway dies; the effect takes place this much later, when another one is at work.
    LateAnswer(Duration),
}

/// Every kind of fault that is counted, so that a run shows what it tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each name says it all")]
pub enum FaultKind {
    CallError,
    CallDoneButError,
    CallDoneButTimedOut,
    CallTwice,
    CallLate,
    ViewLate,
    WatchLost,
    WatchDoubled,
    WatchLate,
    BootFailed,
    BootMute,
    EngineDown,
    EngineHung,
    EngineSlow,
    EngineFull,
    EngineRestarted,
    OtherEngine,
    MachineRebooted,
    BackingKilled,
    BackingOutOfMemory,
    BackingRemoved,
    BackingStopped,
    BackingPaused,
    WorkspaceLost,
    SessionLost,
    ResultLate,
    GatewayCrashed,
    StoreFull,
    StoreFailed,
    StoreDoneButFailed,
    StoreHungThenCrash,
    StoreRolledBack,
    HomeCopied,
    ClockForward,
    ClockBack,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 35] = [
        Self::CallError,
        Self::CallDoneButError,
        Self::CallDoneButTimedOut,
        Self::CallTwice,
        Self::CallLate,
        Self::ViewLate,
        Self::WatchLost,
        Self::WatchDoubled,
        Self::WatchLate,
        Self::BootFailed,
        Self::BootMute,
        Self::EngineDown,
        Self::EngineHung,
        Self::EngineSlow,
        Self::EngineFull,
        Self::EngineRestarted,
        Self::OtherEngine,
        Self::MachineRebooted,
        Self::BackingKilled,
        Self::BackingOutOfMemory,
        Self::BackingRemoved,
        Self::BackingStopped,
        Self::BackingPaused,
        Self::WorkspaceLost,
        Self::SessionLost,
        Self::ResultLate,
        Self::GatewayCrashed,
        Self::StoreFull,
        Self::StoreFailed,
        Self::StoreDoneButFailed,
        Self::StoreHungThenCrash,
        Self::StoreRolledBack,
        Self::HomeCopied,
        Self::ClockForward,
        Self::ClockBack,
    ];
}

/// How often each fault of a call comes by chance, in a thousand calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// A call fails and does nothing.
    pub error: u64,
    /// A call works and answers with an error.
    pub done_but_error: u64,
    /// A call works and never answers.
    pub done_but_timed_out: u64,
    /// A call is carried out twice.
    pub twice: u64,
    /// A call answers with an error at once and is carried out later.
    pub late: u64,
    /// A look takes its time after the picture was taken.
    pub view_late: u64,
    /// A hint is lost.
    pub watch_lost: u64,
    /// A hint comes twice.
    pub watch_doubled: u64,
    /// A hint comes late.
    pub watch_late: u64,
    /// A start ends at once.
    pub boot_failed: u64,
    /// A supervisor comes up and never reports.
    pub boot_mute: u64,
    /// A result is told later than the end.
    pub result_late: u64,
}

impl Rates {
    /// A rough neighbourhood; still far more works than fails.
    pub const ROUGH: Self = Self {
        error: 40,
        done_but_error: 25,
        done_but_timed_out: 8,
        twice: 25,
        late: 15,
        view_late: 40,
        watch_lost: 150,
        watch_doubled: 80,
        watch_late: 150,
        boot_failed: 40,
        boot_mute: 25,
        result_late: 150,
    };

    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        error: 0,
        done_but_error: 0,
        done_but_timed_out: 0,
        twice: 0,
        late: 0,
        view_late: 0,
        watch_lost: 0,
        watch_doubled: 0,
        watch_late: 0,
        boot_failed: 0,
        boot_mute: 0,
        result_late: 0,
    };
}

/// The faults of one world: planned ones by effect number, the rest by chance.
#[derive(Debug)]
pub struct Faults {
    rng: Rng,
    /// Chances from now on.
    pub rates: Rates,
    planned: BTreeMap<u64, Disturbance>,
    counts: BTreeMap<FaultKind, u64>,
}

impl Faults {
    /// None planned, none by chance.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            rates: Rates::NONE,
            planned: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Orders what happens to effect `number` (the first is 1).
    pub fn plan(&mut self, number: u64, disturbance: Disturbance) {
        self.planned.insert(number, disturbance);
    }

    /// Takes what was ordered for effect `number`.
    pub(super) fn planned(&mut self, number: u64) -> Option<Disturbance> {
        self.planned.remove(&number)
    }

    /// From now on there are none: neither by chance nor among those that were ordered.
    pub fn freeze(&mut self) {
        self.rates = Rates::NONE;
        self.planned.clear();
    }

    /// Whether everything that was ordered has come about.
    pub fn all_met(&self) -> bool {
        self.planned.is_empty()
    }

    /// Counts a fault that took place.
    pub fn count(&mut self, kind: FaultKind) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// How often each kind took place.
    pub const fn counts(&self) -> &BTreeMap<FaultKind, u64> {
        &self.counts
    }

    /// True by chance; then counted.
    pub(super) fn strikes(&mut self, kind: FaultKind) -> bool {
        let rates = &self.rates;
        let rate = match kind {
            FaultKind::CallError => rates.error,
            FaultKind::CallDoneButError => rates.done_but_error,
            FaultKind::CallDoneButTimedOut => rates.done_but_timed_out,
            FaultKind::CallTwice => rates.twice,
            FaultKind::CallLate => rates.late,
            FaultKind::ViewLate => rates.view_late,
            FaultKind::WatchLost => rates.watch_lost,
            FaultKind::WatchDoubled => rates.watch_doubled,
            FaultKind::WatchLate => rates.watch_late,
            FaultKind::BootFailed => rates.boot_failed,
            FaultKind::BootMute => rates.boot_mute,
            FaultKind::ResultLate => rates.result_late,
            _ => 0,
        };
        if rate == 0 || !self.rng.chance(rate) {
            return false;
        }
        self.count(kind);
        true
    }

    /// A delay by chance.
    pub(super) const fn delay(&mut self, low_ms: u64, high_ms: u64) -> Duration {
        self.rng.millis(low_ms, high_ms)
    }
}
