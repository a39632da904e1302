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
        let millis = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(millis.saturating_add_signed(test_shift_ms()))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// By how much a test has turned the clock on the wall: milliseconds, in the file that
/// `SANDKEEP_TEST_CLOCK_SHIFT` names, read at every look at the clock.
#[cfg(feature = "failpoints")]
fn test_shift_ms() -> i64 {
    let file = std::env::var_os("SANDKEEP_TEST_CLOCK_SHIFT");
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Never, in a build without the feature.
#[cfg(not(feature = "failpoints"))]
const fn test_shift_ms() -> i64 {
    0
}
