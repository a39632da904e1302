//! Messages into bytes: a frame ready to be written, its bulk never copied.
//!
//! An [`Encoded`] frame is a short head (header, and for stream bytes their own small header) and
//! a body that is shared, so it can be written vectored: through [`bytes::Buf`], which it
//! implements (`write_buf`, `write_all_buf`), or piece by piece through [`Encoded::pieces`].

use std::io::IoSlice;

use bytes::{Buf, Bytes};
use prost::Message;

use crate::frame::{ENVELOPE_VERSION, HEADER_BYTES, Kind, MAGIC, MAX_PAYLOAD_BYTES};
use crate::message::StreamBytes;

/// Bytes of the small header that stream bytes carry: channel and offset.
pub const STREAM_HEADER_BYTES: usize = 9;

const HEAD_BYTES: usize = HEADER_BYTES + STREAM_HEADER_BYTES;

/// A payload over [`MAX_PAYLOAD_BYTES`]: no reader would take it. The caller splits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a payload of {bytes} bytes is over the limit of {MAX_PAYLOAD_BYTES}")]
pub struct PayloadTooLarge {
    /// Its size.
    pub bytes: usize,
}

/// One frame, ready to be written.
#[derive(Debug, Clone)]
pub struct Encoded {
    head: [u8; HEAD_BYTES],
    head_len: u8,
    head_done: u8,
    body: Bytes,
}

impl Encoded {
    /// A frame whose payload is a protobuf message.
    pub fn message(
        kind: Kind,
        stream: u32,
        message: &impl Message,
    ) -> Result<Self, PayloadTooLarge> {
        let bytes = message.encoded_len();
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(PayloadTooLarge { bytes });
        }
        Self::raw(kind, stream, message.encode_to_vec().into())
    }

    /// A frame whose payload is these bytes as they are (`Ping`, `Pong`).
    pub fn raw(kind: Kind, stream: u32, payload: Bytes) -> Result<Self, PayloadTooLarge> {
        let header = header(kind, stream, payload.len())?;
        Ok(Self::from_parts(&header, &[], payload))
    }

    /// A frame without a payload (`ExecForget`, `ExecDetach`, `UsageAsk`).
    pub fn empty(kind: Kind, stream: u32) -> Self {
        Self::from_parts(&header_of(kind, stream, 0), &[], Bytes::new())
    }

    /// An `ExecData` frame. The bytes are shared, not copied.
    pub fn stream_bytes(stream: u32, data: StreamBytes) -> Result<Self, PayloadTooLarge> {
        let header = header(Kind::ExecData, stream, STREAM_HEADER_BYTES + data.bytes.len())?;
        let mut small = [0; STREAM_HEADER_BYTES];
        small[0] = data.channel as u8;
        small[1..].copy_from_slice(&data.offset.to_le_bytes());
        Ok(Self::from_parts(&header, &small, data.bytes))
    }

    /// Bytes still to be written.
    pub fn len(&self) -> usize {
        self.remaining()
    }

    /// Everything has been written.
    pub fn is_empty(&self) -> bool {
        !self.has_remaining()
    }

    /// What is still to be written: the rest of the head, and the rest of the body.
    pub fn pieces(&self) -> [&[u8]; 2] {
        [&self.head[usize::from(self.head_done)..usize::from(self.head_len)], &self.body]
    }

    fn from_parts(header: &[u8; HEADER_BYTES], small: &[u8], body: Bytes) -> Self {
        let mut head = [0; HEAD_BYTES];
        head[..HEADER_BYTES].copy_from_slice(header);
        head[HEADER_BYTES..HEADER_BYTES + small.len()].copy_from_slice(small);
        // At most HEAD_BYTES, which is far below 256.
        #[allow(clippy::cast_possible_truncation, reason = "at most HEAD_BYTES")]
        let head_len = (HEADER_BYTES + small.len()) as u8;
        Self { head, head_len, head_done: 0, body }
    }
}

impl Buf for Encoded {
    fn remaining(&self) -> usize {
        usize::from(self.head_len - self.head_done) + self.body.len()
    }

    fn chunk(&self) -> &[u8] {
        let [head, body] = self.pieces();
        if head.is_empty() { body } else { head }
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let filled = self.pieces().into_iter().filter(|piece| !piece.is_empty());
        let mut count = 0;
        for (slot, piece) in dst.iter_mut().zip(filled) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(usize::from(self.head_len - self.head_done));
        #[allow(clippy::cast_possible_truncation, reason = "at most what is left of the head")]
        {
            self.head_done += of_head as u8;
        }
        self.body.advance(count - of_head);
    }
}

fn header(kind: Kind, stream: u32, payload: usize) -> Result<[u8; HEADER_BYTES], PayloadTooLarge> {
    match u32::try_from(payload) {
        Ok(length) if payload <= MAX_PAYLOAD_BYTES => Ok(header_of(kind, stream, length)),
        _ => Err(PayloadTooLarge { bytes: payload }),
    }
}

fn header_of(kind: Kind, stream: u32, length: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC);
    header[4] = ENVELOPE_VERSION;
    header[5] = kind as u8;
    header[8..12].copy_from_slice(&stream.to_le_bytes());
    header[12..16].copy_from_slice(&length.to_le_bytes());
    let crc = crc32fast::hash(&header[..16]);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Channel;

    #[test]
    fn a_payload_that_no_reader_takes_is_not_written() {
        let bytes = MAX_PAYLOAD_BYTES + 1;
        let refused = Encoded::raw(Kind::Ping, 0, vec![0; bytes].into());
        assert_eq!(refused.err(), Some(PayloadTooLarge { bytes }));
        assert!(Encoded::raw(Kind::Ping, 0, vec![0; bytes - 1].into()).is_ok());
    }

    #[test]
    fn stream_bytes_are_shared_with_the_frame() {
        let bytes = Bytes::from(vec![7; 1000]);
        let data = StreamBytes { channel: Channel::Stdout, offset: 9, bytes: bytes.clone() };
        let frame = Encoded::stream_bytes(3, data).unwrap();
        assert_eq!(frame.pieces()[1].as_ptr(), bytes.as_ptr());
        assert_eq!(frame.len(), HEADER_BYTES + STREAM_HEADER_BYTES + 1000);
    }

    #[test]
    fn a_frame_written_byte_by_byte_is_the_frame() {
        let data = StreamBytes {
            channel: Channel::Stderr,
            offset: 1,
            bytes: Bytes::from_static(b"some text"),
        };
        let mut frame = Encoded::stream_bytes(3, data).unwrap();
        let whole = frame.pieces().concat();
        let mut slowly = Vec::new();
        while !frame.is_empty() {
            slowly.push(frame.chunk()[0]);
            frame.advance(1);
        }
        assert_eq!(slowly, whole);
    }
}
