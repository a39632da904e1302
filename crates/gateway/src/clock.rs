//! The only place that reads a clock, so that simulation can turn time as it likes.

use std::fmt;
use std::time::Duration;

use sandkeep_core::Timestamp;

/// Two clocks: the one on the wall, which may jump, and one that only runs on.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time on the wall.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment of this process; never jumps.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: tokio::time::Instant,
}

impl SystemClock {
    /// Begins to count now.
    pub fn new() -> Self {
        Self { started: tokio::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock that everyone else uses")]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
