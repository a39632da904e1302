//! A stream of the process on its way out: to our stdout or stderr, then acknowledged.
//!
//! Small pieces are written at once when that cannot block; the rest is written by a thread, so
//! that a reader who takes nothing leaves this program able to hear Ctrl-C.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc as blocking;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use sandkeep_proto::v1::{StreamAck, StreamData};
use tokio::sync::mpsc;

/// A pipe that is writable takes at least this much without blocking (PIPE_BUF).
const AT_ONCE_BYTES: usize = 4096;
/// So much is written before it is acknowledged at once: a quarter of the window keeps the sender
/// busy. Less is acknowledged after a moment, since a window may be smaller and is bounded in
/// pieces as well.
const ACK_BYTES: u64 = 256 << 10;

/// Which of our streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    /// Channel 1.
    Stdout,
    /// Channel 2.
    Stderr,
}

/// What the thread tells about its work.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) sink: Sink,
    pub(super) result: Result<u64, Errno>,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Output {
    sink: Sink,
    /// Bytes accepted so far, over all beginnings of the stream.
    received: u64,
    /// Bytes written out, or thrown away after a failure; counted as `received`.
    written: u64,
    /// What `received` was when the stream began (anew): its offsets count from there.
    base: u64,
    /// Acknowledged offset.
    acknowledged: u64,
    never_blocks: bool,
    failure: Option<Errno>,
    failure_told: bool,
    reports: mpsc::UnboundedSender<Report>,
    thread: Option<blocking::Sender<Bytes>>,
}

impl Output {
    /// Nothing has come yet.
    pub(super) fn new(sink: Sink, reports: mpsc::UnboundedSender<Report>) -> Self {
        let never_blocks = sink.with_fd(never_blocks);
        Self {
            sink,
            received: 0,
            written: 0,
            base: 0,
            acknowledged: 0,
            never_blocks,
            failure: None,
            failure_told: false,
            reports,
            thread: None,
        }
    }

    /// Where the next piece has to begin.
    pub(super) const fn offset(&self) -> u64 {
        self.received - self.base
    }

    /// A new connection begins at this offset; gives the number of bytes that were dropped between.
    pub(super) const fn resume_at(&mut self, offset: u64) -> u64 {
        let dropped = offset.saturating_sub(self.offset());
        self.received += dropped;
        self.written += dropped;
        dropped
    }

    /// The process was begun anew, and so are its streams.
    pub(super) const fn begin_again(&mut self) {
        self.base = self.received;
        self.acknowledged = 0;
    }

    /// Writes a piece. What came before already is skipped.
    pub(super) fn accept(&mut self, piece: StreamData) {
        let StreamData { offset, mut data } = piece;
        if offset < self.offset() {
            let known = usize::try_from(self.offset() - offset).unwrap_or(usize::MAX);
            if known >= data.len() {
                return;
            }
            data = data.slice(known..);
        } else {
            self.resume_at(offset);
        }
        self.received += data.len() as u64;
        self.write(data);
    }

    fn write(&mut self, mut data: Bytes) {
        if self.failure.is_some() {
            self.written += data.len() as u64;
            return;
        }
        let at_once = self.never_blocks || data.len() <= AT_ONCE_BYTES;
        while at_once && self.thread.is_none() && !data.is_empty() {
            if !self.never_blocks && !self.sink.with_fd(is_writable) {
                break;
            }
            match self.sink.with_fd(|fd| rustix::io::write(fd, &data)) {
                Ok(count) => {
                    self.written += count as u64;
                    data = data.slice(count..);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.failed(errno);
                    self.written += data.len() as u64;
                    return;
                }
            }
        }
        if !data.is_empty() {
            self.hand_over(data);
        }
    }

    /// From the first piece on that may block, a thread writes: order is kept by its queue, which
    /// the window keeps short.
    fn hand_over(&mut self, data: Bytes) {
        let thread = self.thread.get_or_insert_with(|| {
            let (sender, queue) = blocking::channel();
            let (sink, reports) = (self.sink, self.reports.clone());
            // Without a thread the sender below fails, which is told as a failure to write.
            let _started = std::thread::Builder::new()
                .name("output".to_owned())
                .spawn(move || write_all(sink, &queue, &reports));
            sender
        });
        let length = data.len() as u64;
        if thread.send(data).is_err() {
            self.failed(Errno::AGAIN);
            self.written += length;
        }
    }

    /// The thread has done some of its work.
    pub(super) const fn reported(&mut self, result: Result<u64, Errno>) {
        match result {
            Ok(count) => self.written += count,
            Err(errno) => self.failed(errno),
        }
    }

    /// It takes no more, and this is asked for the first time since.
    pub(super) fn failed_just_now(&mut self) -> bool {
        self.failure.is_some() && !std::mem::replace(&mut self.failure_told, true)
    }

    const fn failed(&mut self, errno: Errno) {
        if self.failure.is_none() {
            self.failure = Some(errno);
        }
    }

    /// Why it takes no more.
    pub(super) const fn failure(&self) -> Option<Errno> {
        self.failure
    }

    /// Everything that came was written.
    pub(super) const fn is_drained(&self) -> bool {
        self.written == self.received
    }

    /// An acknowledgement, when one is due.
    pub(super) fn ack_due(&mut self) -> Option<StreamAck> {
        if self.unacknowledged() < ACK_BYTES { None } else { self.ack_now() }
    }

    /// An acknowledgement of all that was written, if that is news. Due after a while also for
    /// little: a window is bounded in pieces as well, and many short lines fill it.
    pub(super) const fn ack_now(&mut self) -> Option<StreamAck> {
        if !self.is_owing() {
            return None;
        }
        self.acknowledged = self.written.saturating_sub(self.base);
        Some(StreamAck { channel: self.sink.channel(), offset: self.acknowledged })
    }

    /// Something that was written is not acknowledged yet.
    pub(super) const fn is_owing(&self) -> bool {
        self.unacknowledged() > 0
    }

    const fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.base).saturating_sub(self.acknowledged)
    }
}

impl Sink {
    const fn channel(self) -> u32 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
        }
    }

    fn with_fd<T>(self, act: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        match self {
            Self::Stdout => act(io::stdout().as_fd()),
            Self::Stderr => act(io::stderr().as_fd()),
        }
    }
}

/// Files and /dev/null: writing ends by itself.
fn never_blocks(fd: BorrowedFd<'_>) -> bool {
    let Ok(stat) = rustix::fs::fstat(fd) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => true,
        // The memory devices, /dev/null among them, have major number 1.
        FileType::CharacterDevice => rustix::fs::major(stat.st_rdev) == 1,
        _ => false,
    }
}

fn is_writable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// The thread: writes whatever it is given, reporting each piece, until a write fails.
fn write_all(
    sink: Sink,
    queue: &blocking::Receiver<Bytes>,
    reports: &mpsc::UnboundedSender<Report>,
) {
    let mut failed = false;
    while let Ok(data) = queue.recv() {
        if !failed && let Err(errno) = sink.with_fd(|fd| write_piece(fd, &data)) {
            failed = true;
            let _nobody = reports.send(Report { sink, result: Err(errno) });
        }
        // After a failure the rest is thrown away, and counts as done.
        if reports.send(Report { sink, result: Ok(data.len() as u64) }).is_err() {
            return;
        }
    }
}

fn write_piece(fd: BorrowedFd<'_>, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::write(fd, data) {
            Ok(count) => data = &data[count..],
            Err(Errno::INTR) => {}
            // Somebody made it non-blocking: wait here instead of there.
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
                poll(&mut fds, None)?;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> (Output, mpsc::UnboundedReceiver<Report>) {
        let (sender, reports) = mpsc::unbounded_channel();
        let mut output = Output::new(Sink::Stdout, sender);
        // Nothing is written in these tests: they are about the counting.
        output.failure = Some(Errno::PIPE);
        (output, reports)
    }

    fn piece(offset: u64, length: usize) -> StreamData {
        StreamData { offset, data: Bytes::from(vec![b'x'; length]) }
    }

    #[test]
    fn what_came_before_is_skipped_and_what_is_missing_is_counted() {
        let (mut output, _reports) = output();
        output.accept(piece(0, 10));
        output.accept(piece(4, 3));
        assert_eq!(output.offset(), 10);
        output.accept(piece(8, 5));
        assert_eq!(output.offset(), 13);
        assert_eq!(output.resume_at(20), 7);
        assert_eq!(output.resume_at(3), 0);
        assert_eq!(output.offset(), 20);
        assert!(output.is_drained());
    }

    #[test]
    fn a_process_begun_anew_has_offsets_from_zero_again() {
        let (mut output, _reports) = output();
        output.accept(piece(0, 300 << 10));
        output.begin_again();
        assert_eq!((output.offset(), output.ack_due()), (0, None));
        output.accept(piece(0, 10));
        assert_eq!(output.offset(), 10);
        assert!(output.is_drained());
    }

    #[test]
    fn acknowledgements_come_once_enough_was_written() {
        let (mut output, _reports) = output();
        output.accept(piece(0, 1000));
        assert_eq!(output.ack_due(), None);
        output.accept(piece(1000, 256 << 10));
        assert_eq!(output.ack_due(), Some(StreamAck { channel: 1, offset: 1000 + (256 << 10) }));
        assert_eq!(output.ack_due(), None);
    }

    #[test]
    fn little_is_owed_until_it_is_acknowledged_with_the_rest() {
        let (mut output, _reports) = output();
        output.accept(piece(0, 32 << 10));
        assert_eq!(output.ack_due(), None);
        assert!(output.is_owing());
        assert_eq!(output.ack_now(), Some(StreamAck { channel: 1, offset: 32 << 10 }));
        assert!(!output.is_owing() && output.ack_now().is_none());
    }
}
