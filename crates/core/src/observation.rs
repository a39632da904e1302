//! What was seen. Written by the reconciler alone, from what a driver or a supervisor answered.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The state of whatever a backend runs for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// It could not be looked at; says nothing about whether it is there.
    Unknown {
        /// Why not.
        why: UnknownWhy,
        /// A sentence for the user.
        message: String,
    },
    /// The recorded engine answered "not found" for that exact id.
    Absent,
    /// Present, holding no compute and not on its way (a container created and never started; a
    /// suspended custom resource whose pod is gone).
    Idle,
    /// On its way up.
    Starting,
    /// Its PID 1 is there.
    Running,
    /// Frozen by its engine.
    Paused,
    /// On its way down.
    Stopping,
    /// It ran and ended; still on disk.
    Exited {
        /// Exit code of PID 1 as the engine tells it, if it does. Decides nothing by itself.
        code: Option<i32>,
        /// The engine says that it ran out of memory.
        oom: bool,
        /// When, if the engine tells.
        finished_at: Option<Timestamp>,
    },
    /// The engine is removing it.
    Removing,
}

/// Why a backing is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownWhy {
    /// Nobody has looked yet since the record was made or loaded.
    NotYetObserved,
    /// The engine does not answer.
    EngineUnreachable,
    /// The engine answers, but is not the one that the backing was made on.
    OtherEngine,
    /// The engine's answer makes no sense.
    Unintelligible,
}

impl Backing {
    /// Something is there that holds compute or will.
    pub const fn is_live(&self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Paused | Self::Stopping)
    }

    /// It is there and holds no compute.
    pub const fn is_down(&self) -> bool {
        matches!(self, Self::Idle | Self::Exited { .. })
    }
}

/// A driver's answer about one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackingReport {
    /// What is there.
    pub backing: Backing,
    /// The driver's opaque name of this run of the backing (local: boot id + pid + start time;
    /// engines: container id + StartedAt). `None` while it never ran or is not known.
    pub backing_run: Option<String>,
    /// Generation of the intent that the backing was made from, as it carries it.
    pub generation: Option<u64>,
    /// The engine it was seen on.
    pub engine: Option<String>,
    /// Limits of the spec that are not enforced here, by name; empty: all are.
    #[serde(default)]
    pub unenforced_limits: Vec<String>,
    /// It runs on another workspace than the one that is in its place: that was replaced.
    #[serde(default)]
    pub workspace_replaced: bool,
}

/// The supervisor's durable word that a run's main command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// Which run.
    pub run: u64,
    /// Which execution of that run, as in [`Go::restart`](crate::Go::restart).
    #[serde(default)]
    pub restart: u32,
    /// The incarnation that it ran in.
    pub incarnation: u64,
    /// Exit code; 128 + n for a signal.
    pub code: i32,
    /// The signal that ended it, if one did.
    #[serde(default)]
    pub signal: Option<i32>,
    /// It was killed for memory.
    #[serde(default)]
    pub oom: bool,
    /// By the supervisor's clock.
    pub finished_at: Timestamp,
    /// The command could not be started at all (code 126 or 127), and why.
    #[serde(default)]
    pub spawn_error: Option<String>,
}

/// What is known of the workspace from the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceSeen {
    /// Not looked at yet for this sandbox.
    #[default]
    NotYet,
    /// There, marked with its id.
    Bound,
    /// It was there once, and now it is gone or unmarked: never replaced by an empty one.
    Missing,
}

/// Everything observed about one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Last answer about the backing.
    pub backing: Backing,
    /// Name of the run of the backing that `incarnation` numbers.
    #[serde(default)]
    pub backing_run: Option<String>,
    /// Name of the run before that one: a late answer that still speaks of it is no news.
    #[serde(default)]
    pub previous_backing_run: Option<String>,
    /// How many different runs of the backing were seen; 0: none yet. Never falls.
    #[serde(default)]
    pub incarnation: u64,
    /// When that incarnation was first seen.
    #[serde(default)]
    pub incarnation_since: Timestamp,
    /// When `backing` last changed its kind.
    #[serde(default)]
    pub since: Timestamp,
    /// Generation that the backing carries; `None`: none seen.
    #[serde(default)]
    pub generation: Option<u64>,
    /// The engine that the backing was made on, recorded before the first create; absence is
    /// believed from this one only.
    #[serde(default)]
    pub engine: Option<String>,
    /// State of the workspace.
    #[serde(default)]
    pub workspace: WorkspaceSeen,
    /// The newest run that ended, by the supervisor's word.
    #[serde(default)]
    pub result: Option<RunResult>,
    /// When this gateway heard of that result, by its own clock.
    #[serde(default)]
    pub result_at: Timestamp,
    /// Limits of the spec that are not enforced.
    #[serde(default)]
    pub unenforced_limits: Vec<String>,
    /// What runs has another workspace than the one that is in its place now.
    #[serde(default)]
    pub workspace_replaced: bool,
    /// How often a backing came up that no verb asked for (losses healed).
    #[serde(default)]
    pub restarts: u64,
}

impl Observation {
    /// Nothing was looked at yet.
    pub fn not_yet(now: Timestamp) -> Self {
        Self {
            backing: Backing::Unknown {
                why: UnknownWhy::NotYetObserved,
                message: "it has not been looked at yet".to_owned(),
            },
            backing_run: None,
            previous_backing_run: None,
            incarnation: 0,
            incarnation_since: Timestamp::EPOCH,
            since: now,
            generation: None,
            engine: None,
            workspace: WorkspaceSeen::NotYet,
            result: None,
            result_at: Timestamp::EPOCH,
            unenforced_limits: Vec::new(),
            workspace_replaced: false,
            restarts: 0,
        }
    }

    /// This observation brought up to date by a driver's answer: numbers a new run of the backing,
    /// keeps `since` while the kind stays the same. Equal facts give an equal value, so a caller
    /// that compares writes nothing at rest.
    ///
    /// `restarts` is left alone: see [`Record::observe`](crate::Record::observe).
    #[must_use]
    pub fn merge(&self, report: &BackingReport, now: Timestamp) -> Self {
        let mut next = self.clone();
        let names_a_run = report.backing_run.is_some();
        if names_a_run && report.backing_run == self.previous_backing_run {
            // A view from before the current run of the backing, delivered late.
            return next;
        }
        if std::mem::discriminant(&self.backing) != std::mem::discriminant(&report.backing) {
            next.since = now;
        }
        next.backing = report.backing.clone();
        if names_a_run && report.backing_run != self.backing_run {
            next.previous_backing_run.clone_from(&self.backing_run);
            next.backing_run.clone_from(&report.backing_run);
            next.incarnation = self.incarnation.saturating_add(1);
            next.incarnation_since = now;
        }
        if !matches!(report.backing, Backing::Unknown { .. }) {
            next.generation = report.generation;
            next.unenforced_limits.clone_from(&report.unenforced_limits);
            next.workspace_replaced = report.workspace_replaced;
        }
        if self.engine.is_none() {
            next.engine.clone_from(&report.engine);
        }
        next
    }

    /// This observation with a supervisor's word that a run ended. An older result than the one
    /// that is known changes nothing. See [`Record::hear`](crate::Record::hear), which checks that
    /// the execution was ordered.
    #[must_use]
    pub fn with_result(&self, result: RunResult, now: Timestamp) -> Self {
        let mut next = self.clone();
        let known = self.result.as_ref().map(|known| (known.run, known.restart));
        if known.is_none_or(|known| known < (result.run, result.restart)) {
            next.result = Some(result);
            next.result_at = now;
        }
        next
    }
}
