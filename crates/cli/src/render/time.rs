//! Points in time: RFC 3339 for programs, ages for people.

use jiff::Timestamp;

/// RFC 3339 in UTC with milliseconds; `None` for zero, which means "not known" on the wire.
pub(crate) fn rfc3339(at_ms: u64) -> Option<String> {
    if at_ms == 0 {
        return None;
    }
    let at = Timestamp::from_millisecond(i64::try_from(at_ms).ok()?).ok()?;
    Some(format!("{at:.3}"))
}

/// Milliseconds since 1970, now.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

/// How long ago, in one unit: `5s`, `3m`, `2h`, `4d`; `-` when not known.
pub(crate) fn age(at_ms: u64, now_ms: u64) -> String {
    if at_ms == 0 {
        return "-".to_owned();
    }
    amount(now_ms.saturating_sub(at_ms) / 1000)
}

/// How long until then: `now` when it has passed.
pub(crate) fn until(at_ms: u64, now_ms: u64) -> String {
    let seconds = at_ms.saturating_sub(now_ms).div_ceil(1000);
    if seconds == 0 { "now".to_owned() } else { format!("in {}", amount(seconds)) }
}

fn amount(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_milliseconds_and_zero_is_none() {
        assert_eq!(rfc3339(0), None);
        assert_eq!(rfc3339(1).as_deref(), Some("1970-01-01T00:00:00.001Z"));
        assert_eq!(rfc3339(1_796_076_000_000).as_deref(), Some("2026-11-30T22:00:00.000Z"));
        assert_eq!(rfc3339(u64::MAX), None);
    }

    #[test]
    fn ages_have_one_unit() {
        for (seconds, expect) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7200, "2h"),
            (172_800, "2d"),
            (8_640_000, "100d"),
        ] {
            assert_eq!(age(1, 1 + seconds * 1000), expect);
        }
        assert_eq!(age(0, 5), "-");
        assert_eq!(age(2000, 1000), "0s");
        assert_eq!(until(3500, 1000), "in 3s");
        assert_eq!(until(500, 1000), "now");
    }
}
