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

/// Differences that messages and clocks without a common source have anyway.
const IGNORED_LAG_MS: u64 = 5000;

/// What to add to [`wall_ms`] to agree with somebody whose clock says `theirs_ms`: 0 if the
/// difference is small, or if they do not know (0). Machines that slept have such clocks.
pub fn lag_ms(theirs_ms: u64) -> i64 {
    let ours_ms = wall_ms();
    if theirs_ms == 0 || theirs_ms.abs_diff(ours_ms) < IGNORED_LAG_MS {
        return 0;
    }
    theirs_ms.checked_signed_diff(ours_ms).unwrap_or(0)
}

fn millis(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1000 + nanos / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_large_difference_counts_as_lag() {
        assert_eq!(lag_ms(0), 0);
        assert_eq!(lag_ms(wall_ms() + 1000), 0);
        let lag = lag_ms(wall_ms() + 3_600_000);
        assert!((3_590_000..=3_600_000).contains(&lag), "{lag}");
        assert!(lag_ms(wall_ms() - 3_600_000) <= -3_600_000);
        assert_eq!(lag_ms(u64::MAX), 0);
    }
}
