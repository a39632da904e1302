//! Amounts as people write them: bytes, processor shares, time spans.

use std::time::Duration;

/// Bytes from `512m`, `2g`, `1.5GiB`, `100000`. Units are powers of 1024, as docker's are.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" | "ki" => 1 << 10,
        "m" | "mb" | "mib" | "mi" => 1 << 20,
        "g" | "gb" | "gib" | "gi" => 1 << 30,
        "t" | "tb" | "tib" | "ti" => 1 << 40,
        other => return Err(format!("unknown unit {other:?}; use b, k, m, g or t")),
    };
    scaled(number, factor)
}

/// Thousandths of a core from `0.5`, `2`, `250m`.
pub(crate) fn cpu_millis(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    match unit {
        "" => scaled(number, 1000),
        "m" => scaled(number, 1),
        other => Err(format!("unknown unit {other:?}; use cores (0.5) or thousandths (500m)")),
    }
}

/// A time span from `90`, `90s`, `10m`, `1h30m`, `500ms`, `2d`; a bare number means seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("it is empty; write for example 30s or 10m".to_owned());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let factor: u64 = match unit {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            other => return Err(format!("unknown unit {other:?}; use ms, s, m, h or d")),
        };
        total = total.checked_add(scaled(number, factor)?).ok_or("it is too large")?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// Number and unit; the unit may be empty.
fn split(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err("a number is expected, for example 512m".to_owned());
    }
    Ok((number, unit.trim()))
}

/// A decimal number times `factor`, rounded down, in whole numbers all the way.
fn scaled(number: &str, factor: u64) -> Result<u64, String> {
    let bad = || format!("{number:?} is not a number");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 9 {
        return Err(bad());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| bad())? };
    let parts: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| bad())? };
    let digits = u32::try_from(fraction.len()).map_err(|_| bad())?;
    let below = u128::from(parts) * u128::from(factor) / 10_u128.pow(digits);
    let total = u128::from(whole) * u128::from(factor) + below;
    u64::try_from(total).map_err(|_| "it is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_docker_reads_them() {
        for (text, expect) in [
            ("0", 0),
            ("100", 100),
            ("100b", 100),
            ("1k", 1024),
            ("512m", 512 << 20),
            ("512M", 512 << 20),
            ("2g", 2 << 30),
            ("1.5g", 3 << 29),
            ("2GiB", 2 << 30),
            ("1 gb", 1 << 30),
            ("3t", 3 << 40),
        ] {
            assert_eq!(bytes(text), Ok(expect), "{text}");
        }
        for text in ["", "m", "-1", "1x", "1.2.3", "99999999999t", ".", "1e3", "0x10"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cores_are_thousandths() {
        for (text, expect) in
            [("0.5", 500), ("2", 2000), ("250m", 250), ("1.25", 1250), (".5", 500)]
        {
            assert_eq!(cpu_millis(text), Ok(expect), "{text}");
        }
        for text in ["", "half", "1g", "-2"] {
            assert!(cpu_millis(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_sums_of_their_parts() {
        for (text, millis) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("2d", 172_800_000),
            ("1.5s", 1500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5y", "-1s", "1h m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
