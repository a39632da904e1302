//! One output stream of a process: read from a pipe or terminal into its window.

use std::os::fd::OwnedFd;

use bytes::BufMut;
use rustix::io::Errno;
use sandkeep_frames::CHUNK_BYTES;
use sandkeep_frames::message::Channel;

use super::window::Window;

/// First read of a stream; doubled while reads come back full, up to a chunk.
const FIRST_READ_BYTES: usize = 4096;

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// So many bytes, at the end of the window's tail.
    Bytes(usize),
    /// Nothing now, or no room.
    Wait,
    /// The last writer has closed it.
    Ended,
}

/// One of stdout and stderr.
#[derive(Debug)]
pub struct Output {
    /// Which.
    pub channel: Channel,
    /// What was read.
    pub window: Window,
    /// The descriptor may have bytes.
    pub ready: bool,
    /// Told to the client on this attachment.
    pub end_sent: bool,
    fd: Option<OwnedFd>,
    read_bytes: usize,
    /// Bytes that must still be read after the process has ended, before the stream may be cut.
    owed: usize,
}

impl Output {
    /// From a pipe or a terminal's master; `None`: ended from the beginning.
    pub fn new(channel: Channel, fd: Option<OwnedFd>) -> Self {
        Self {
            channel,
            window: Window::default(),
            ready: true,
            end_sent: false,
            fd,
            read_bytes: FIRST_READ_BYTES,
            owed: 0,
        }
    }

    /// The descriptor, until the stream has ended.
    pub fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// No more bytes will be read.
    pub fn ended(&self) -> bool {
        self.fd.is_none()
    }

    /// A read could bring something within `room`.
    pub fn wants(&self, room: usize) -> bool {
        self.ready && room > 0 && self.fd.is_some()
    }

    /// Reads once, at most `room`.
    pub fn fill(&mut self, room: usize) -> Fill {
        let (Some(fd), true) = (&self.fd, self.wants(room)) else {
            return Fill::Wait;
        };
        let tail = self.window.tail();
        if tail.capacity() - tail.len() < self.read_bytes.min(FIRST_READ_BYTES) {
            tail.reserve(self.read_bytes);
        }
        // SAFETY: rustix only writes initialized bytes into the spare room and says how many.
        let spare = unsafe { tail.chunk_mut().as_uninit_slice_mut() };
        let limit = spare.len().min(room);
        let result = rustix::io::read(fd, &mut spare[..limit]).map(|(read, _)| read.len());
        match result {
            Ok(0) => self.cut(),
            Ok(count) => {
                // SAFETY: so many bytes were just initialized.
                unsafe { tail.advance_mut(count) };
                self.owed = self.owed.saturating_sub(count);
                if count == limit {
                    self.read_bytes = (self.read_bytes * 2).min(CHUNK_BYTES);
                } else if count < FIRST_READ_BYTES {
                    self.read_bytes = FIRST_READ_BYTES;
                }
                return Fill::Bytes(count);
            }
            Err(Errno::AGAIN) => {
                self.ready = false;
                self.owed = 0;
                return Fill::Wait;
            }
            Err(Errno::INTR) => return Fill::Wait,
            // A terminal that the last process has closed says EIO.
            Err(_) => self.cut(),
        }
        Fill::Ended
    }

    /// The process has ended: what lies in the pipe now is its output and will be read.
    pub fn process_ended(&mut self) {
        let waiting = self.fd.as_ref().and_then(|fd| rustix::io::ioctl_fionread(fd).ok());
        self.owed = waiting.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        self.ready = true;
    }

    /// All that the process itself wrote has been read.
    pub fn process_output_read(&self) -> bool {
        self.owed == 0
    }

    /// Ends the stream although somebody holds the pipe open; gives the descriptor.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fd.take()
    }

    fn cut(&mut self) {
        self.fd = None;
    }
}
