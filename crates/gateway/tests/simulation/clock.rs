//! The simulated clocks: virtual time, and a clock on the wall that can be turned.

use std::sync::Mutex;
use std::time::Duration;

use sandkeep_core::Timestamp;
use sandkeep_gateway::Clock;
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z: any date will do, it has to be the same each time.
pub(crate) const EPOCH: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Wall time is the epoch, plus virtual time, plus what the clock was turned by.
#[derive(Debug)]
pub(crate) struct SimClock {
    started: Instant,
    turned_ms: Mutex<i64>,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), turned_ms: Mutex::new(0) }
    }

    /// Turns the clock on the wall, for good.
    pub(crate) fn turn(&self, by_ms: i64) {
        *self.turned_ms.lock().unwrap() += by_ms;
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let wall = EPOCH + self.started.elapsed();
        let turned = *self.turned_ms.lock().unwrap();
        Timestamp::from_millis(wall.as_millis().saturating_add_signed(turned))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
