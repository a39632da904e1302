//! A process's stdin: bytes from the client wait here until the process takes them.
//!
//! What the process will never read (it closed its stdin, it has ended) is taken and thrown away,
//! so that no client hangs on writing.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use bytes::{Buf, Bytes, BytesMut};
use rustix::io::Errno;
use sandkeep_frames::WINDOW_BYTES;

/// Smaller chunks are gathered: a queue of single bytes would cost far more than the bytes.
const GATHER_BELOW: usize = 4096;

/// Acknowledged at the latest after so many bytes.
const ACK_EVERY: u64 = WINDOW_BYTES / 4;

/// Ctrl-D: what ends the input of a terminal's reader.
const END_OF_TRANSMISSION: u8 = 4;

/// The sender broke the rules: it skipped bytes or sent more than the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfWindow;

/// One stdin.
#[derive(Debug, Default)]
pub struct Input {
    fd: Option<OwnedFd>,
    terminal: bool,
    /// The descriptor may take bytes.
    pub ready: bool,
    queue: VecDeque<Bytes>,
    gathered: BytesMut,
    queued: usize,
    received: u64,
    acknowledged: u64,
    ends: bool,
    at_line_start: bool,
}

impl Input {
    /// Into a pipe or, with `terminal`, a terminal's master.
    pub fn new(fd: Option<OwnedFd>, terminal: bool) -> Self {
        Self { fd, terminal, ready: true, at_line_start: true, ..Self::default() }
    }

    /// The descriptor, while the process may read.
    pub fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// All that was ever taken from clients.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes waiting.
    pub fn held(&self) -> usize {
        self.queued
    }

    /// A client's bytes. Bytes that were taken before (sent twice) are passed over.
    pub fn take(&mut self, offset: u64, mut bytes: Bytes) -> Result<(), OutOfWindow> {
        let Some(known) = self.received.checked_sub(offset) else {
            return Err(OutOfWindow);
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
        bytes.advance(known);
        // Twice the window: a client that attaches anew counts from what was received.
        if (self.queued + bytes.len()) as u64 > 2 * WINDOW_BYTES {
            return Err(OutOfWindow);
        }
        if self.ends || bytes.is_empty() {
            return Ok(());
        }
        self.received += bytes.len() as u64;
        if self.fd.is_none() {
            return Ok(());
        }
        self.queued += bytes.len();
        if bytes.len() < GATHER_BELOW {
            self.gathered.extend_from_slice(&bytes);
            return Ok(());
        }
        self.queue_gathered();
        self.queue.push_back(bytes);
        Ok(())
    }

    /// The client sends nothing more after `offset`. Repeated, it changes nothing.
    pub fn end(&mut self, offset: u64) -> Result<(), OutOfWindow> {
        if offset > self.received {
            return Err(OutOfWindow);
        }
        self.ends = true;
        Ok(())
    }

    /// Writes what the process takes now.
    pub fn write(&mut self) {
        while self.ready && self.queued > 0 {
            if self.queue.is_empty() {
                self.queue_gathered();
            }
            let (Some(fd), Some(front)) = (&self.fd, self.queue.front_mut()) else {
                return self.close();
            };
            match rustix::io::write(fd, front) {
                Ok(count) => {
                    self.at_line_start = count > 0 && front[count - 1] == b'\n';
                    front.advance(count);
                    self.queued -= count;
                    if front.is_empty() {
                        self.queue.pop_front();
                    }
                }
                Err(Errno::AGAIN) => self.ready = false,
                Err(Errno::INTR) => {}
                Err(_) => return self.close(),
            }
        }
        if self.ends && self.queued == 0 && self.fd.is_some() {
            self.finish();
        }
    }

    /// The process has ended, or its end of the pipe is closed: the rest is thrown away.
    pub fn close(&mut self) {
        self.fd = None;
        self.queue.clear();
        self.gathered = BytesMut::new();
        self.queued = 0;
    }

    /// The offset to acknowledge now, if it is time. Once given it counts as sent.
    pub fn due_ack(&mut self) -> Option<u64> {
        let handed_on = self.received - self.queued as u64;
        let news = handed_on - self.acknowledged;
        let due = news >= ACK_EVERY || (news > 0 && self.queued == 0);
        due.then(|| {
            self.acknowledged = handed_on;
            handed_on
        })
    }

    fn queue_gathered(&mut self) {
        if !self.gathered.is_empty() {
            self.queue.push_back(std::mem::take(&mut self.gathered).freeze());
        }
    }

    /// A pipe is closed; a terminal's reader is told by Ctrl-D, twice after a started line (the
    /// first one only hands the line over).
    fn finish(&mut self) {
        if !self.terminal {
            return self.close();
        }
        let Some(fd) = &self.fd else {
            return;
        };
        let marks: &[u8] = if self.at_line_start {
            &[END_OF_TRANSMISSION]
        } else {
            &[END_OF_TRANSMISSION, END_OF_TRANSMISSION]
        };
        match rustix::io::write(fd, marks) {
            Err(Errno::AGAIN) => self.ready = false,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => self.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piped() -> (Input, OwnedFd) {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        (Input::new(Some(write), false), read)
    }

    fn read(fd: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let mut buffer = [0; 64];
        rustix::io::read(fd, &mut buffer).map(|count| buffer[..count].to_vec())
    }

    #[test]
    fn bytes_sent_twice_are_written_once() {
        let (mut input, pipe) = piped();
        input.take(0, Bytes::from_static(b"hello ")).unwrap();
        input.take(0, Bytes::from_static(b"hello world")).unwrap();
        input.write();
        assert_eq!(read(&pipe).unwrap(), b"hello world");
        assert_eq!((input.received(), input.due_ack(), input.due_ack()), (11, Some(11), None));
        input.end(11).unwrap();
        input.write();
        assert_eq!(read(&pipe).unwrap(), b"");
    }

    #[test]
    fn a_gap_and_an_overrun_are_refused() {
        let (mut input, _pipe) = piped();
        assert_eq!(input.take(1, Bytes::from_static(b"x")), Err(OutOfWindow));
        assert_eq!(input.end(1), Err(OutOfWindow));
        let window = usize::try_from(WINDOW_BYTES).unwrap();
        input.take(0, vec![0; window].into()).unwrap();
        input.take(WINDOW_BYTES, vec![0; window].into()).unwrap();
        assert_eq!(input.take(2 * WINDOW_BYTES, Bytes::from_static(b"x")), Err(OutOfWindow));
    }

    #[test]
    fn input_that_nobody_will_read_is_taken_and_acknowledged() {
        let (mut input, pipe) = piped();
        drop(pipe);
        input.take(0, Bytes::from_static(b"lost")).unwrap();
        input.write();
        assert_eq!(input.due_ack(), Some(4));
        input.take(4, vec![0; 1 << 20].into()).unwrap();
        assert_eq!((input.held(), input.due_ack()), (0, Some(4 + (1 << 20))));
    }
}
