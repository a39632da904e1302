//! One piece of a command's output in a log, in the supervisor's spool and in the gateway's copy.
//!
//! ```text
//! 0        4     5               13
//! | length | fd  | time in ms    | bytes …
//! ```
//! Little-endian; `length` counts the bytes after the 13 of the header; `fd` is 1 or 2, or
//! [`FD_GAP`] for a place where output was dropped (the bytes are then a decimal count).

use bytes::{Buf, BufMut, Bytes};

/// Bytes before an entry's own.
pub const ENTRY_HEADER_BYTES: usize = 13;

/// Largest entry; longer output is cut into several.
pub const MAX_ENTRY_BYTES: usize = 64 * 1024;

/// In place of a file descriptor: output was dropped here.
pub const FD_GAP: u8 = 255;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// 1, 2 or [`FD_GAP`].
    pub fd: u8,
    /// Milliseconds since 1970 by the supervisor's clock.
    pub time_ms: u64,
    /// At most [`MAX_ENTRY_BYTES`].
    pub bytes: Bytes,
}

/// A log that is not made of entries: from here on nothing can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a log entry at byte {at}")]
pub struct NotAnEntry {
    /// Offset in what was given to [`Entries`].
    pub at: usize,
}

/// Appends output as entries, cut at [`MAX_ENTRY_BYTES`].
pub fn write_output(into: &mut impl BufMut, fd: u8, time_ms: u64, output: &[u8]) {
    for piece in output.chunks(MAX_ENTRY_BYTES) {
        write_header(into, fd, time_ms, piece.len());
        into.put_slice(piece);
    }
}

/// Appends the mark of a gap: so many bytes of output were dropped here.
pub fn write_gap(into: &mut impl BufMut, time_ms: u64, dropped: u64) {
    let count = dropped.to_string();
    write_header(into, FD_GAP, time_ms, count.len());
    into.put_slice(count.as_bytes());
}

/// Bytes that [`write_output`] makes of so many.
pub fn written_len(output: usize) -> usize {
    output + output.div_ceil(MAX_ENTRY_BYTES) * ENTRY_HEADER_BYTES
}

fn write_header(into: &mut impl BufMut, fd: u8, time_ms: u64, length: usize) {
    // The callers cut at MAX_ENTRY_BYTES.
    #[allow(clippy::cast_possible_truncation, reason = "at most MAX_ENTRY_BYTES")]
    into.put_u32_le(length as u32);
    into.put_u8(fd);
    into.put_u64_le(time_ms);
}

/// Walks over the entries of a stretch of log. Stops before an entry that is not whole; how many
/// bytes belong to whole entries is then [`Entries::consumed`]. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Entries {
    rest: Bytes,
    consumed: usize,
    broken: bool,
}

impl Entries {
    /// Entries of these bytes, which begin with a whole one.
    pub fn new(bytes: Bytes) -> Self {
        Self { rest: bytes, consumed: 0, broken: false }
    }

    /// Bytes of the whole entries given so far.
    pub fn consumed(&self) -> usize {
        self.consumed
    }
}

impl Iterator for Entries {
    type Item = Result<LogEntry, NotAnEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken || self.rest.len() < ENTRY_HEADER_BYTES {
            return None;
        }
        let mut header = &self.rest[..ENTRY_HEADER_BYTES];
        let length = usize::try_from(header.get_u32_le()).unwrap_or(usize::MAX);
        let (fd, time_ms) = (header.get_u8(), header.get_u64_le());
        if length > MAX_ENTRY_BYTES || !matches!(fd, 1 | 2 | FD_GAP) {
            self.broken = true;
            return Some(Err(NotAnEntry { at: self.consumed }));
        }
        let whole = ENTRY_HEADER_BYTES + length;
        if self.rest.len() < whole {
            return None;
        }
        let mut bytes = self.rest.split_to(whole);
        bytes.advance(ENTRY_HEADER_BYTES);
        self.consumed += whole;
        Some(Ok(LogEntry { fd, time_ms, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_comes_back_in_pieces() {
        let output = vec![b'x'; MAX_ENTRY_BYTES * 2 + 5];
        let mut log = Vec::new();
        write_output(&mut log, 1, 42, &output);
        write_gap(&mut log, 43, 1234);
        assert_eq!(log.len(), written_len(output.len()) + ENTRY_HEADER_BYTES + 4);
        let entries: Vec<_> = Entries::new(log.into()).collect::<Result<_, _>>().unwrap();
        let together: Vec<u8> = entries[..3].iter().flat_map(|e| e.bytes.to_vec()).collect();
        assert_eq!(together, output);
        let gap = LogEntry { fd: FD_GAP, time_ms: 43, bytes: Bytes::from_static(b"1234") };
        assert_eq!(entries[3..], [gap]);
    }

    #[test]
    fn a_torn_entry_is_left_and_counted() {
        let mut log = Vec::new();
        write_output(&mut log, 2, 1, b"whole");
        let whole = log.len();
        write_output(&mut log, 2, 1, b"torn");
        log.truncate(log.len() - 1);
        let mut entries = Entries::new(log.into());
        assert_eq!(entries.by_ref().count(), 1);
        assert_eq!(entries.consumed(), whole);
    }

    #[test]
    fn what_is_no_entry_is_an_error_and_the_end() {
        let mut entries = Entries::new(Bytes::from_static(&[0xff; 64]));
        assert_eq!(entries.next(), Some(Err(NotAnEntry { at: 0 })));
        assert_eq!(entries.next(), None);
    }
}
