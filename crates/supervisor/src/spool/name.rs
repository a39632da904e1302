//! Names of log files: `log.SOURCE.START`, the offset of the first byte in decimal.

/// No log of ours ever comes so far; a name that says so is damage, and offsets after it could not be
/// counted.
const MOST_START: u64 = 1 << 62;

/// Name of a segment's file.
pub(super) fn of(source: &str, start: u64) -> String {
    format!("log.{source}.{start}")
}

/// Source and start. `None`: not a log.
pub(super) fn read(name: &str) -> Option<(&str, u64)> {
    let (source, start) = name.strip_prefix("log.")?.rsplit_once('.')?;
    let plain = source.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let sized = (1..=63).contains(&source.len());
    let start = start.parse().ok().filter(|start| *start <= MOST_START)?;
    // A number that is written in another way names another file than ours would have.
    let ours = || of(source, start) == name;
    (plain && sized && ours()).then_some((source, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_read() {
        assert_eq!(read(&of("main-7", 4096)), Some(("main-7", 4096)));
        for name in [
            "result", "log.", "log.a", "log.a.", "log.a.x", "log.A.1", "log...1", "log.a.-1",
            "log.a.+1", "log.a.01",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
        assert_eq!(read(&of("a", u64::MAX)), None);
    }
}
