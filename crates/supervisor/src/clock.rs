//! The two clocks: one that only rises, for waits, and the time of day, for reports.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds since some moment before this process; never goes back.
pub fn now_ms() -> u64 {
    millis(clock_gettime(ClockId::Monotonic))
}

/// Milliseconds since 1970 by the machine's clock, which may jump.
pub fn wall_ms() -> u64 {
    millis(clock_gettime(ClockId::Realtime))
}

fn millis(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1000 + nanos / 1_000_000
}
