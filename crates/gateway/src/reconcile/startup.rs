//! The start-up line: how the sandboxes were found, said once when each was looked at.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandkeep_core::{Phase, Reason, SandboxId, View, WaitsFor};

use crate::registry::Standing;
use crate::shared::Shared;

/// Counts the sandboxes that were loaded and have not settled yet.
#[derive(Debug)]
pub(crate) struct Summary {
    left: AtomicUsize,
    /// On the monotonic clock.
    begun: Duration,
}

/// Supervisors try to connect at least once a second; the rest is for a machine that is busy.
const RECONNECT_WITHIN: Duration = Duration::from_secs(15);

impl Summary {
    /// From what was loaded.
    pub(super) fn begin(shared: &Shared) -> Self {
        let left = shared.registry.ids().len();
        if left == 0 {
            tracing::info!("started: no sandboxes");
        }
        Self { left: AtomicUsize::new(left), begun: shared.clock.monotonic() }
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
        if self.is_arriving(shared, &view) {
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
        self.count_down(shared);
    }

    /// A deletion that was under way when the last gateway ended has come to its end.
    pub(super) fn gone(&self, shared: &Shared, standing: Option<Standing>) {
        if matches!(standing, Some(Standing::Loaded | Standing::Acting)) {
            shared.metrics.startup.recovered.increment();
            self.count_down(shared);
        }
    }

    /// On its way: a supervisor that has had no time to connect again yet is not lost.
    fn is_arriving(&self, shared: &Shared, view: &View) -> bool {
        let under_way =
            matches!(view.phase, Phase::Starting | Phase::Provisioning | Phase::Unknown);
        let reconnecting = view.reason == Reason::SessionLost.as_str()
            && shared.clock.monotonic() < self.begun + RECONNECT_WITHIN;
        under_way && (view.waits_for == Some(WaitsFor::Time) || reconnecting)
    }

    fn count_down(&self, shared: &Shared) {
        let startup = &shared.metrics.startup;
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
