//! How long to wait between tries: doubling, capped, jittered, without end.

use std::time::Duration;

use crate::id::SandboxId;
use crate::time::Timestamp;

/// A run of the backing that stayed Ready this long clears the count of tries.
pub const STEADY_AFTER: Duration = Duration::from_secs(60);

/// The longest wait between two tries: a user who mends a cause sees the effect within this time
/// even where no event tells of it.
pub const LONGEST: Duration = Duration::from_secs(60);

/// The wait after the first failed try: long enough for an engine to catch its breath, short
/// enough that nobody minds.
const FIRST: Duration = Duration::from_secs(1);

/// How soon to look again at something outside that mends itself and may not tell: often enough
/// for a person who watches, rarely enough for hundreds of sandboxes on one engine.
pub const OUTSIDE_AGAIN: Duration = Duration::from_secs(5);

/// Looks at an engine that does not answer are at least this far apart, and at most this far.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The wait before try `number` (0: the first, at once): 1 s, doubled each time, times 0.8 to 1.2,
/// never over [`LONGEST`]. Jitter comes from the id, so the same arguments give the same answer
/// while many sandboxes spread out.
pub fn wait_before(id: &SandboxId, number: u32) -> Duration {
    wait_of(id.as_str(), number)
}

/// The same for whatever else is tried again; `key` spreads the waits.
pub fn wait_of(key: &str, number: u32) -> Duration {
    if number == 0 {
        return Duration::ZERO;
    }
    // 2^6 s is over LONGEST already.
    let doubled = FIRST * (1 << (number - 1).min(6));
    let percent = 80 + u32::try_from(hash(key, number) % 41).unwrap_or(20);
    (doubled * percent / 100).min(LONGEST)
}

/// When to look again at something that has not answered since `since`: after half of the time
/// that it has been so, within bounds. A pure function of stored facts that backs off like a
/// doubling wait and needs nothing written.
pub fn look_again(since: Timestamp, now: Timestamp) -> Timestamp {
    now + (now.since(since) / 2).clamp(LOOKS.0, LOOKS.1)
}

/// Whether the time `at` has come. One further away than `longest` was stored before the clock was
/// turned back, and counts as come.
pub fn is_due(at: Timestamp, longest: Duration, now: Timestamp) -> bool {
    at <= now || at > now + longest
}

/// FNV-1a: a few lines, no dependency, good enough to spread waits.
fn hash(key: &str, number: u32) -> u64 {
    let bytes = key.bytes().chain(number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> SandboxId {
        SandboxId::from_random([n; 8])
    }

    #[test]
    fn the_first_try_is_at_once_and_later_waits_double_up_to_the_longest() {
        assert_eq!(wait_before(&id(1), 0), Duration::ZERO);
        for number in 1..=100 {
            let exact = 2f64.powi(i32::try_from(number).unwrap() - 1);
            let wait = wait_before(&id(1), number).as_secs_f64();
            let longest = LONGEST.as_secs_f64();
            assert!(wait >= (exact * 0.8).min(longest * 0.8), "{number}: {wait}");
            assert!(wait <= (exact * 1.2).min(longest), "{number}: {wait}");
        }
        assert_eq!(wait_before(&id(1), u32::MAX), wait_before(&id(1), u32::MAX));
    }

    #[test]
    fn many_sandboxes_spread_out() {
        let waits: std::collections::BTreeSet<_> =
            (0..100).map(|n| wait_before(&id(n), 5)).collect();
        assert!(waits.len() > 20, "only {} different waits", waits.len());
    }

    #[test]
    fn looks_at_a_silent_engine_grow_rarer_within_bounds() {
        let since = Timestamp::from_millis(1_000_000);
        let wait = |after: u64| {
            let now = since + Duration::from_secs(after);
            look_again(since, now).since(now).as_secs()
        };
        assert_eq!([wait(0), wait(10), wait(40), wait(3600)], [1, 5, 20, 30]);
    }

    #[test]
    fn a_time_beyond_its_own_maximum_counts_as_come() {
        let now = Timestamp::from_millis(1_000_000);
        assert!(is_due(now, LONGEST, now));
        assert!(!is_due(now + Duration::from_millis(1), LONGEST, now));
        assert!(!is_due(now + LONGEST, LONGEST, now));
        assert!(is_due(now + LONGEST + Duration::from_millis(1), LONGEST, now));
    }
}
