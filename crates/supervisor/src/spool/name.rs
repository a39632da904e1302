//! Names of log files: `log.SOURCE.START`, the offset of the first byte in decimal.

/// Name of a segment's file.
pub(super) fn of(source: &str, start: u64) -> String {
    format!("log.{source}.{start}")
}

/// Source and start. `None`: not a log.
pub(super) fn read(name: &str) -> Option<(&str, u64)> {
    let (source, start) = name.strip_prefix("log.")?.rsplit_once('.')?;
    let plain = source.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let sized = (1..=63).contains(&source.len());
    (plain && sized).then_some((source, start.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_read() {
        assert_eq!(read(&of("main-7", 4096)), Some(("main-7", 4096)));
        for name in
            ["result", "log.", "log.a", "log.a.", "log.a.x", "log.A.1", "log...1", "log.a.-1"]
        {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
