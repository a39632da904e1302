//! The start-up line: how the sandboxes were found, said once when each was looked at.

use std::sync::atomic::{AtomicUsize, Ordering};

use sandkeep_core::{Phase, SandboxId, WaitsFor};

use crate::registry::Standing;
use crate::shared::Shared;

/// Counts the sandboxes that were loaded and have not settled yet.
#[derive(Debug)]
pub(crate) struct Summary {
    left: AtomicUsize,
}

impl Summary {
    /// From what was loaded.
    pub(super) fn begin(shared: &Shared) -> Self {
        let left = shared.registry.ids().len();
        if left == 0 {
            tracing::info!("started: no sandboxes");
        }
        Self { left: AtomicUsize::new(left) }
    }

    /// The sandbox was not as intended: something is being done.
    pub(super) fn acting(&self, shared: &Shared, id: &SandboxId) {
        if shared.registry.standing(id) == Some(Standing::Loaded) {
            shared.registry.set_standing(id, Standing::Acting);
        }
    }

    /// Nothing is to be done for the sandbox now. One that is being mended counts when it is there.
    pub(super) fn settled(&self, shared: &Shared, id: &SandboxId) {
        let standing = shared.registry.standing(id);
        if !matches!(standing, Some(Standing::Loaded | Standing::Acting)) {
            return;
        }
        let Some(view) = shared.view(id) else { return };
        let startup = &shared.metrics.startup;
        let arriving = matches!(view.phase, Phase::Starting | Phase::Provisioning | Phase::Unknown)
            && view.waits_for == Some(WaitsFor::Time);
        if arriving {
            return;
        }
        let gauge = match (view.waits_for, standing) {
            (Some(WaitsFor::User), _) if view.phase == Phase::Error => &startup.failed,
            (Some(WaitsFor::Time | WaitsFor::Outside), _) => &startup.waiting,
            (_, Some(Standing::Acting)) => &startup.recovered,
            _ => &startup.resumed,
        };
        gauge.increment();
        shared.registry.set_standing(id, Standing::Settled);
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            tracing::info!(
                resumed = startup.resumed.get(),
                recovered = startup.recovered.get(),
                waiting = startup.waiting.get(),
                failed = startup.failed.get(),
                "started"
            );
        }
    }
}
