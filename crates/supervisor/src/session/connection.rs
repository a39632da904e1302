//! One connection to the gateway: frames in, frames out, never blocking, bounded both ways.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use bytes::{Buf, BufMut};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sandkeep_frames::{Decoder, Encoded, Frame};

/// Bytes queued for writing from which on producers wait.
const ENOUGH_BYTES: usize = 1024 * 1024;

/// Frames written by one call: two pieces each.
const FRAMES_AT_ONCE: usize = 32;

/// A peer that sends only noise is no gateway.
const MOST_NOISE_BYTES: u64 = 1024 * 1024;

/// The connection is over, whatever the reason: there will be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// See above.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    decoder: Decoder,
    out: VecDeque<Encoded>,
    out_bytes: usize,
    /// The socket may have bytes.
    pub readable: bool,
    /// The socket may take bytes.
    pub writable: bool,
}

impl Connection {
    /// Dials a Unix socket.
    pub fn dial(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Self {
            fd,
            decoder: Decoder::new(),
            out: VecDeque::new(),
            out_bytes: 0,
            readable: true,
            writable: true,
        })
    }

    /// The descriptor to watch.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next frame. `None`: nothing more now.
    pub fn receive(&mut self) -> Result<Option<Frame>, Broken> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return Ok(Some(frame));
            }
            if self.decoder.skipped() > MOST_NOISE_BYTES {
                return Err(Broken);
            }
            if !self.readable {
                return Ok(None);
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<(), Broken> {
        let space = self.decoder.space();
        // SAFETY: rustix only writes initialized bytes into the room and says how many.
        let room = unsafe { space.chunk_mut().as_uninit_slice_mut() };
        match rustix::io::read(&self.fd, room).map(|(read, _)| read.len()) {
            Ok(0) => Err(Broken),
            Ok(count) => {
                // SAFETY: so many bytes were just initialized.
                unsafe { space.advance_mut(count) };
                Ok(())
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                self.decoder.rest();
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(_) => Err(Broken),
        }
    }

    /// Nothing more should be queued, or be read that asks for answers.
    pub fn is_clogged(&self) -> bool {
        self.out_bytes >= ENOUGH_BYTES
    }

    /// Everything queued was written.
    pub fn is_flushed(&self) -> bool {
        self.out.is_empty()
    }

    /// Queues a frame.
    pub fn queue(&mut self, frame: Encoded) {
        self.out_bytes += frame.len();
        self.out.push_back(frame);
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self) -> Result<(), Broken> {
        while self.writable && !self.out.is_empty() {
            let mut pieces = [IoSlice::new(&[]); 2 * FRAMES_AT_ONCE];
            let mut filled = 0;
            for frame in self.out.iter().take(FRAMES_AT_ONCE) {
                filled += frame.chunks_vectored(&mut pieces[filled..]);
            }
            match rustix::io::writev(&self.fd, &pieces[..filled]) {
                Ok(count) => self.written(count),
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Broken),
            }
        }
        if self.out.is_empty() && self.out.capacity() > FRAMES_AT_ONCE {
            self.out = VecDeque::new();
        }
        Ok(())
    }

    fn written(&mut self, mut count: usize) {
        self.out_bytes -= count;
        while let Some(frame) = self.out.front_mut() {
            let part = count.min(frame.len());
            frame.advance(part);
            count -= part;
            if !frame.is_empty() {
                return;
            }
            self.out.pop_front();
        }
    }
}
