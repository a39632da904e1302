//! What an engine holds for one sandbox.
//!
//! ```text
//!  create        start            boot
//!  ------> Idle -------> Starting ----> Running <--freeze/thaw--> Paused
//!            ^ (kept)       |             | stop
//!            |              v killed      v
//!          Exited <---------+-------- Stopping        remove: Removing -> gone
//! ```

use sandkeep_core::{Backing, BackingReport, GatewayId, RunResult, Timestamp};

use super::supervisor::SimSupervisor;
use crate::CreateRequest;

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimState {
    /// Made, never started since.
    Idle,
    /// On its way up.
    Starting,
    /// PID 1 is there.
    Running,
    /// Frozen.
    Paused,
    /// On its way down.
    Stopping,
    /// It ran and ended.
    Exited {
        /// As the engine tells it.
        code: Option<i32>,
        /// It ran out of memory.
        oom: bool,
    },
    /// Being removed.
    Removing,
}

impl SimState {
    /// It holds compute, or will.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Paused | Self::Stopping)
    }
}

/// One backing.
#[derive(Debug, Clone)]
pub struct SimBacking {
    /// Whose it is, by its label.
    pub gateway: GatewayId,
    /// What it was made from, by its label.
    pub made_from: CreateRequest,
    /// Where it stands.
    pub state: SimState,
    /// The opaque name of its latest run.
    pub backing_run: Option<String>,
    /// Changes with each new root file system.
    pub rootfs: u64,
    /// PID 1, while it is up.
    pub supervisor: Option<SimSupervisor>,
    /// How the newest execution that ended has ended, on its disk: it outlives PID 1.
    pub result: Option<RunResult>,
    /// When it ended last.
    pub finished_at: Option<Timestamp>,
}

impl SimBacking {
    /// As a driver reports it.
    pub fn report(&self, engine: &str) -> BackingReport {
        BackingReport {
            backing: self.seen(),
            backing_run: self.backing_run.clone(),
            generation: Some(self.made_from.generation),
            engine: Some(engine.to_owned()),
            unenforced_limits: self.unenforced(),
            workspace_replaced: false,
        }
    }

    /// The simulated engine enforces every limit but that of the disk.
    fn unenforced(&self) -> Vec<String> {
        let limits = self.made_from.spec.limits;
        limits.disk_bytes.map(|_| "disk".to_owned()).into_iter().collect()
    }

    /// Its state in the words of the core.
    pub fn seen(&self) -> Backing {
        match self.state {
            SimState::Idle => Backing::Idle,
            SimState::Starting => Backing::Starting,
            SimState::Running => Backing::Running,
            SimState::Paused => Backing::Paused,
            SimState::Stopping => Backing::Stopping,
            SimState::Exited { code, oom } => {
                Backing::Exited { code, oom, finished_at: self.finished_at }
            }
            SimState::Removing => Backing::Removing,
        }
    }

    /// PID 1 and everything below it are gone.
    pub fn end(&mut self, code: Option<i32>, oom: bool, now: Timestamp) {
        self.state = SimState::Exited { code, oom };
        self.supervisor = None;
        self.finished_at = Some(now);
    }
}
