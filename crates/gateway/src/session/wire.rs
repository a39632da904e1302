//! Frames over a byte stream: reading without a buffer while nothing comes, writing vectored.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::Poll;

use bytes::Buf;
use sandkeep_driver::SessionStream;
use sandkeep_frames::{Decoder, Encoded, Frame};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

/// Bytes that are no frame before a connection is given up: a bridge may carry an engine's
/// greeting, nothing carries a mebibyte of noise.
const NOISE_BYTES: u64 = 1024 * 1024;

/// Pieces handed to one system call; a frame has at most two.
const SLICES: usize = 64;

/// The stream that a driver opened.
pub(crate) type Stream = Box<dyn SessionStream>;

/// Reads frames.
pub(crate) struct FrameReader {
    half: ReadHalf<Stream>,
    decoder: Decoder,
}

impl FrameReader {
    /// Nothing read yet.
    pub(crate) fn new(half: ReadHalf<Stream>) -> Self {
        Self { half, decoder: Decoder::new() }
    }

    /// The next frame; `None`: the peer has gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return Ok(Some(frame));
            }
            if self.decoder.skipped() > NOISE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "nothing but noise"));
            }
            if self.read().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads once. While nothing comes no buffer is held, so an idle session costs nothing.
    async fn read(&mut self) -> io::Result<usize> {
        poll_fn(|cx| {
            let polled = pin!(self.half.read_buf(self.decoder.space())).poll(cx);
            if polled.is_pending() {
                self.decoder.rest();
            }
            polled
        })
        .await
    }
}

/// Writes all frames, as many in one system call as it takes.
pub(crate) async fn write_frames(
    half: &mut WriteHalf<Stream>,
    frames: &mut VecDeque<Encoded>,
) -> io::Result<()> {
    while !frames.is_empty() {
        let mut written = poll_fn(|cx| write_some(half, frames, cx)).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while let Some(frame) = frames.front_mut() {
            let of_frame = written.min(frame.remaining());
            frame.advance(of_frame);
            written -= of_frame;
            if frame.has_remaining() {
                break;
            }
            frames.pop_front();
        }
    }
    half.flush().await
}

/// The slices live on the stack of one poll only, so a waiting writer holds none of them.
fn write_some(
    half: &mut WriteHalf<Stream>,
    frames: &VecDeque<Encoded>,
    cx: &mut std::task::Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let mut count = 0;
    for frame in frames {
        if count + 2 > SLICES {
            break;
        }
        count += frame.chunks_vectored(&mut slices[count..]);
    }
    pin!(half).poll_write_vectored(cx, &slices[..count])
}
