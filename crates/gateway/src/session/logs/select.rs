//! Which entries of a log were asked for: since a time, and the last so many lines.

use bytes::Bytes;
use sandkeep_core::Timestamp;
use sandkeep_frames::log_entry::{FD_GAP, LogEntry};

/// What was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Selection {
    /// Only entries of this time or later.
    pub(super) since: Option<Timestamp>,
    /// Lines still to be passed over.
    pub(super) skip_lines: u64,
}

impl Selection {
    /// Whether the entry's time fits. A gap has none and stays.
    fn is_recent(&self, entry: &LogEntry) -> bool {
        let fits = |since: Timestamp| entry.time_ms >= since.as_millis();
        entry.fd == FD_GAP || self.since.is_none_or(fits)
    }

    /// The entry, or what is left of it.
    pub(super) fn pass(&mut self, mut entry: LogEntry) -> Option<LogEntry> {
        if !self.is_recent(&entry) {
            return None;
        }
        if self.skip_lines == 0 {
            return Some(entry);
        }
        if entry.fd == FD_GAP {
            return None;
        }
        while self.skip_lines > 0 {
            let end = entry.bytes.iter().position(|byte| *byte == b'\n')?;
            entry.bytes = entry.bytes.slice(end + 1..);
            self.skip_lines -= 1;
        }
        (!entry.bytes.is_empty()).then_some(entry)
    }
}

/// Counts the lines of a log; an unfinished last one counts.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ended: u64,
    unfinished: bool,
}

impl Lines {
    /// Counts one entry.
    pub(super) fn count(&mut self, selection: &Selection, entry: &LogEntry) {
        if entry.fd == FD_GAP || !selection.is_recent(entry) || entry.bytes.is_empty() {
            return;
        }
        self.ended += newlines(&entry.bytes);
        self.unfinished = entry.bytes.last() != Some(&b'\n');
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.ended + u64::from(self.unfinished)
    }
}

fn newlines(bytes: &Bytes) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<LogEntry> {
        let entry = |time_ms, fd, text: &'static str| LogEntry {
            fd,
            time_ms,
            bytes: Bytes::from_static(text.as_bytes()),
        };
        vec![
            entry(1, 1, "one\ntwo\nth"),
            entry(2, 1, "ree\n"),
            entry(0, FD_GAP, "77"),
            entry(3, 2, "four\nfi"),
        ]
    }

    fn tail(lines: u64, since: Option<u64>) -> String {
        let mut selection =
            Selection { since: since.map(Timestamp::from_millis), ..Selection::default() };
        let mut count = Lines::default();
        entries().iter().for_each(|entry| count.count(&selection, entry));
        selection.skip_lines = count.total().saturating_sub(lines);
        let text = |entry: LogEntry| String::from_utf8(entry.bytes.to_vec()).unwrap();
        entries().into_iter().filter_map(|entry| selection.pass(entry)).map(text).collect()
    }

    #[test]
    fn the_last_lines_are_whole_and_an_unfinished_one_counts() {
        assert_eq!(tail(0, None), "");
        assert_eq!(tail(1, None), "fi");
        // What is missing lies before the line that is asked for.
        assert_eq!(tail(2, None), "77four\nfi");
        assert_eq!(tail(3, None), "three\n77four\nfi");
        assert_eq!(tail(4, None), "two\nthree\n77four\nfi");
        assert_eq!(tail(99, None), "one\ntwo\nthree\n77four\nfi");
        assert_eq!(tail(99, Some(3)), "77four\nfi");
        assert_eq!(tail(1, Some(3)), "fi");
    }
}
