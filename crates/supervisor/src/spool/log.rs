//! One log: two segments of entries at most. Offsets count the bytes of entries since it began,
//! over all lives of PID 1.
//!
//! ```text
//!   first segment's start      acknowledged      sent        end
//!        |---------------------------|-------------|-----------|
//!          freed with its segment      under way     not sent
//! ```

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sandkeep_frames::log_entry::{Entries, MAX_ENTRY_BYTES, write_gap, write_output};
use sandkeep_frames::message::{LogData, LogOffer};
use sandkeep_frames::{CHUNK_BYTES, WINDOW_BYTES};

use super::name;
use crate::state_dir::StateDir;

/// A segment is closed at this size; so a log holds at most twice as much.
pub(super) const SEGMENT_BYTES: u64 = 2 * 1024 * 1024;

const MOST_SEGMENTS: usize = 2;

/// An acknowledged segment that is still written to is freed from this size on.
const FREE_FROM_BYTES: u64 = 256 * 1024;

/// What is not acknowledged then fits into one segment, also after one more read of each stream, so
/// no segment that goes holds any of it.
const HOLD_BACK_FROM_BYTES: u64 = SEGMENT_BYTES - 3 * CHUNK_BYTES as u64;

/// A gateway that takes nothing for so long has trouble of its own: its sandboxes do not wait.
const GATEWAY_PATIENCE_MS: u64 = 2000;

#[derive(Debug)]
struct Segment {
    start: u64,
    bytes: u64,
}

/// See above.
#[derive(Debug)]
pub(super) struct Log {
    source: String,
    /// Oldest first.
    segments: VecDeque<Segment>,
    /// The last segment, while it is written to.
    file: Option<OwnedFd>,
    end: u64,
    acknowledged: u64,
    sent: u64,
    complete: bool,
    complete_sent: bool,
    /// When the gateway last took something, or its session began.
    progress_at_ms: u64,
    /// Output that the disk did not take and no gap speaks of yet.
    dropped: u64,
}

impl Log {
    pub(super) fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            segments: VecDeque::new(),
            file: None,
            end: 0,
            acknowledged: 0,
            sent: 0,
            complete: false,
            complete_sent: false,
            progress_at_ms: 0,
            dropped: 0,
        }
    }

    /// From files that begin at these offsets, in order. A torn entry at the end is cut off.
    pub(super) fn load(state: &StateDir, source: &str, starts: &[u64]) -> Self {
        let mut log = Self::new(source);
        for start in starts {
            if *start < log.end {
                // It begins within the one before: neither is written so here, and what came
                // after would be read from the middle of an entry.
                state.remove(&name::of(source, *start));
                continue;
            }
            let content = read(state, source, *start, 0, 2 * SEGMENT_BYTES);
            let bytes = whole_len(&content);
            if bytes < content.len() as u64
                && let Some(file) = open(state, source, *start, OFlags::WRONLY)
            {
                // If it cannot be cut it stays torn, and readers stop there.
                let _ = rustix::fs::ftruncate(&file, bytes);
            }
            log.segments.push_back(Segment { start: *start, bytes });
            log.end = *start + bytes;
        }
        log.begin_session(0);
        log
    }

    /// The gateway's patience begins anew: until now there was nothing for it to take.
    pub(super) fn go_on(&mut self, now_ms: u64) {
        self.progress_at_ms = now_ms;
        self.complete = false;
        self.complete_sent = false;
    }

    pub(super) fn complete(&mut self) {
        self.complete = true;
        self.file = None;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Bytes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The gateway has had something to take since this moment, if it had nothing before.
    pub(super) fn news_at(&mut self, now_ms: u64) {
        if self.acknowledged == self.end {
            self.progress_at_ms = now_ms;
        }
    }

    pub(super) fn append(&mut self, state: &StateDir, fd: u8, time_ms: u64, output: &[u8]) {
        for piece in output.chunks(MAX_ENTRY_BYTES) {
            let mut entry = Vec::with_capacity(piece.len() + 64);
            if self.dropped > 0 {
                write_gap(&mut entry, time_ms, self.dropped);
            }
            write_output(&mut entry, fd, time_ms, piece);
            if self.write(state, &entry) {
                self.dropped = 0;
            } else {
                self.dropped += piece.len() as u64;
            }
        }
    }

    pub(super) fn offer(&self, source: &str) -> LogOffer {
        LogOffer {
            source: source.to_owned(),
            from: self.start(),
            to: self.end,
            complete: self.complete,
        }
    }

    /// What was sent may be lost with the session, and with the gateway what it had: it says anew
    /// what it has.
    pub(super) fn begin_session(&mut self, now_ms: u64) {
        self.progress_at_ms = now_ms;
        self.acknowledged = self.start();
        self.sent = self.acknowledged;
        self.complete_sent = false;
    }

    pub(super) fn has_news(&self) -> bool {
        let window_open = self.sent - self.acknowledged < WINDOW_BYTES;
        (self.sent < self.end && window_open)
            || (self.complete && !self.complete_sent && self.sent == self.end)
    }

    /// The next stretch: whole entries, or none behind what is passed over.
    pub(super) fn next(&mut self, state: &StateDir) -> LogData {
        self.sent = self.sent.max(self.start());
        let mut entries = Bytes::new();
        let offset = self.sent;
        if let Some(segment) = self.segments.iter().find(|s| offset < s.start + s.bytes) {
            let (start, end) = (segment.start, segment.start + segment.bytes);
            let from = offset.max(start);
            let most = (end - from).min(CHUNK_BYTES as u64);
            let content = Bytes::from(read(state, &self.source, start, from - start, most));
            let whole = whole_len(&content);
            entries = content.slice(..usize::try_from(whole).unwrap_or(0));
            // What cannot be read, or is no entry, is passed over. The gateway is told, and answers:
            // a stretch that nobody acknowledges would keep the window closed.
            self.sent = if entries.is_empty() { end } else { from + whole };
        }
        let offset = self.sent - entries.len() as u64;
        self.complete_sent = self.complete && self.sent == self.end;
        let (source, complete) = (self.source.clone(), self.complete_sent);
        LogData { source, offset, entries, complete }
    }

    pub(super) fn acknowledge(&mut self, state: &StateDir, offset: u64, now_ms: u64) {
        self.progress_at_ms = now_ms;
        self.acknowledged = self.acknowledged.max(offset.min(self.end));
        self.sent = self.sent.max(self.acknowledged);
        while self.segments.len() > 1 && self.front_end() <= self.acknowledged {
            self.remove_front(state);
        }
        let all = self.acknowledged == self.end;
        if all && self.bytes() >= FREE_FROM_BYTES {
            self.begin_segment(state);
        }
    }

    /// When its writer need not wait any longer, if it must wait at all: more would push out what a
    /// gateway that keeps taking has not taken yet.
    pub(super) fn holds_back_until(&self) -> Option<u64> {
        let behind = self.end - self.acknowledged;
        (behind >= HOLD_BACK_FROM_BYTES).then_some(self.progress_at_ms + GATEWAY_PATIENCE_MS)
    }

    /// The gateway has everything, and knows that nothing follows.
    pub(super) fn is_done(&self) -> bool {
        self.complete && self.complete_sent && self.is_shipped()
    }

    pub(super) fn is_shipped(&self) -> bool {
        self.acknowledged == self.end && self.complete_sent == self.complete
    }

    /// Frees room although nobody has read it.
    pub(super) fn drop_oldest(&mut self, state: &StateDir) {
        if self.segments.len() > 1 {
            self.remove_front(state);
        } else {
            self.begin_segment(state);
        }
    }

    pub(super) fn remove_files(&mut self, state: &StateDir) {
        self.file = None;
        while !self.segments.is_empty() {
            self.remove_front(state);
        }
    }

    fn start(&self) -> u64 {
        self.segments.front().map_or(self.end, |segment| segment.start)
    }

    fn front_end(&self) -> u64 {
        self.segments.front().map_or(0, |segment| segment.start + segment.bytes)
    }

    fn remove_front(&mut self, state: &StateDir) {
        if let Some(segment) = self.segments.pop_front() {
            state.remove(&name::of(&self.source, segment.start));
        }
        self.sent = self.sent.max(self.start());
        self.acknowledged = self.acknowledged.max(self.start());
    }

    /// An empty segment at the end takes the place of all, so that the next life of PID 1 knows the
    /// offset. On a full disk there may be no room even for that; then this life alone knows it.
    fn begin_segment(&mut self, state: &StateDir) {
        let kept = usize::from(self.roll(state));
        if kept == 0 {
            self.file = None;
        }
        while self.segments.len() > kept {
            self.remove_front(state);
        }
    }

    /// Whole or not at all.
    fn write(&mut self, state: &StateDir, entry: &[u8]) -> bool {
        let len = entry.len() as u64;
        let full = self.segments.back().is_none_or(|last| last.bytes + len > SEGMENT_BYTES);
        if full && !self.roll(state) {
            return false;
        }
        let Some(last) = self.segments.back_mut() else {
            return false;
        };
        if self.file.is_none() {
            self.file = open(state, &self.source, last.start, OFlags::WRONLY);
        }
        let Some(file) = &self.file else {
            return false;
        };
        if pwrite_all(file, entry, last.bytes).is_err() {
            // What was written of it is no entry. If it cannot be cut off it is written over.
            let _ = rustix::fs::ftruncate(file, last.bytes);
            return false;
        }
        last.bytes += len;
        self.end += len;
        true
    }

    /// A new segment; the oldest goes if it is one too many.
    fn roll(&mut self, state: &StateDir) -> bool {
        let start = self.end;
        let flags = OFlags::WRONLY | OFlags::CREATE;
        if self.segments.back().is_some_and(|last| last.bytes == 0) {
            return true;
        }
        let Some(file) = open(state, &self.source, start, flags) else {
            return false;
        };
        self.file = Some(file);
        self.segments.push_back(Segment { start, bytes: 0 });
        while self.segments.len() > MOST_SEGMENTS {
            self.remove_front(state);
        }
        true
    }
}

fn open(state: &StateDir, source: &str, start: u64, flags: OFlags) -> Option<OwnedFd> {
    // What is no file is not waited for.
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let name = name::of(source, start);
    rustix::fs::openat(state.fd(), name, flags, Mode::from_raw_mode(0o600)).ok()
}

fn pwrite_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Up to `most` bytes of a segment's file. Empty: it cannot be read.
fn read(state: &StateDir, source: &str, start: u64, from: u64, most: u64) -> Vec<u8> {
    let Some(file) = open(state, source, start, OFlags::RDONLY) else {
        return Vec::new();
    };
    let length =
        rustix::fs::fstat(&file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    let wanted = length.saturating_sub(from).min(most);
    let mut content = vec![0; usize::try_from(wanted).unwrap_or(0)];
    let mut filled = 0;
    while filled < content.len() {
        match rustix::io::pread(&file, &mut content[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    content.truncate(filled);
    content
}

/// Bytes of the whole entries at the beginning.
fn whole_len(content: &[u8]) -> u64 {
    let mut entries = Entries::new(Bytes::copy_from_slice(content));
    while let Some(Ok(_)) = entries.next() {}
    entries.consumed() as u64
}
