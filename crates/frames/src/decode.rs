//! Bytes into frames: a push decoder that finds its place again after noise.
//!
//! ```text
//!  scan for MAGIC -> 20 bytes there? -> envelope, crc, length good? -> payload there? -> frame
//!        ^                                     | no: one byte on, counted
//!        +-------------------------------------+
//! ```
//! Memory: never more than one largest frame and one read ahead. While nothing is under way the
//! decoder holds no buffer at all, so an idle session costs nothing; call [`Decoder::space`] only
//! once the socket is readable, and [`Decoder::rest`] if nothing came after all.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

use crate::encode::STREAM_HEADER_BYTES;
use crate::frame::{ENVELOPE_VERSION, HEADER_BYTES, Kind, MAGIC, MAX_PAYLOAD_BYTES};
use crate::message::{Channel, StreamBytes};

/// Least room that [`Decoder::space`] gives: small frames then come several at a time.
const READ_BYTES: usize = 16 * 1024;

/// A payload that is not what its kind says. The sender is broken or hostile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a frame of kind {kind} with a malformed payload: {detail}")]
pub struct Malformed {
    /// The kind as it was sent.
    pub kind: u8,
    /// What did not fit.
    pub detail: String,
}

/// One frame as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind as it was sent, perhaps one that is unknown here.
    pub raw_kind: u8,
    /// 0: the session; else the gateway's number of one exec in this session.
    pub stream: u32,
    /// At most [`MAX_PAYLOAD_BYTES`].
    pub payload: Bytes,
}

impl Frame {
    /// The kind; `None` if unknown here: the reader skips the frame.
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_raw(self.raw_kind)
    }

    /// The payload as a protobuf message.
    pub fn decode<M: Message + Default>(&self) -> Result<M, Malformed> {
        M::decode(self.payload.clone()).map_err(|error| self.malformed(error.to_string()))
    }

    /// The payload as stream bytes; they share the payload's memory.
    pub fn stream_bytes(&self) -> Result<StreamBytes, Malformed> {
        if self.payload.len() < STREAM_HEADER_BYTES {
            return Err(self.malformed("too short".to_owned()));
        }
        let mut rest = self.payload.clone();
        let channel = rest.get_u8();
        let Some(channel) = Channel::from_raw(u32::from(channel)) else {
            return Err(self.malformed(format!("channel {channel}")));
        };
        let offset = rest.get_u64_le();
        if rest.len() > crate::CHUNK_BYTES {
            return Err(self.malformed(format!("a chunk of {} bytes", rest.len())));
        }
        Ok(StreamBytes { channel, offset, bytes: rest })
    }

    fn malformed(&self, detail: String) -> Malformed {
        Malformed { kind: self.raw_kind, detail }
    }
}

/// Turns what comes from a connection into frames. One per connection.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    skipped: u64,
}

impl Decoder {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room to read into, at its end; at least 16 KiB, and enough for the frame under way. Then
    /// call [`next_frame`](Self::next_frame) until it gives `None`.
    pub fn space(&mut self) -> &mut BytesMut {
        let room = self.missing().max(READ_BYTES);
        self.buffer.reserve(room);
        &mut self.buffer
    }

    /// Appends bytes that were read elsewhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame. `None`: more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Frame> {
        while self.find_magic() {
            let Some(header) = self.header()? else {
                self.skip(1);
                continue;
            };
            if self.buffer.len() < HEADER_BYTES + header.length {
                return None;
            }
            self.buffer.advance(HEADER_BYTES);
            let payload = self.buffer.split_to(header.length).freeze();
            return Some(Frame { raw_kind: header.raw_kind, stream: header.stream, payload });
        }
        self.rest();
        None
    }

    /// Gives the buffer back while nothing is under way.
    pub fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// Bytes of noise passed over so far. A reader may give up a connection that is only noise.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Bytes held that are not yet a frame.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes of memory held; 0 while nothing is under way.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Drops noise up to a possible beginning of a frame. False: no byte is left.
    fn find_magic(&mut self) -> bool {
        let at = (0..self.buffer.len()).find(|&at| {
            let rest = &self.buffer[at..];
            let seen = rest.len().min(MAGIC.len());
            rest[..seen] == MAGIC[..seen]
        });
        self.skip(at.unwrap_or(self.buffer.len()));
        at.is_some()
    }

    /// `None`: not whole yet. `Some(None)`: not a header.
    fn header(&self) -> Option<Option<Header>> {
        let bytes: &[u8; HEADER_BYTES] = self.buffer.first_chunk()?;
        Some(Header::read(bytes))
    }

    /// Bytes that the frame under way lacks; 0 if its header is not whole.
    fn missing(&self) -> usize {
        match self.header() {
            Some(Some(header)) => (HEADER_BYTES + header.length).saturating_sub(self.buffer.len()),
            _ => 0,
        }
    }

    fn skip(&mut self, count: usize) {
        self.buffer.advance(count);
        self.skipped += count as u64;
    }
}

struct Header {
    raw_kind: u8,
    stream: u32,
    length: usize,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let length = usize::try_from(number(12)).ok()?;
        let good = bytes[..4] == MAGIC
            && bytes[4] == ENVELOPE_VERSION
            && number(16) == crc32fast::hash(&bytes[..16])
            && length <= MAX_PAYLOAD_BYTES;
        good.then(|| Self { raw_kind: bytes[5], stream: number(8), length })
    }
}
