//! Output that was read and not yet acknowledged: what a new attachment can be given again.
//!
//! ```text
//!  start                 next                     end
//!    | piece | piece | piece | piece |   tail ...   |
//!    '---- sent before ------'-- to be sent next ---'
//! ```
//! Bytes are read straight into the tail and leave it as shared pieces, so they are not copied
//! between the pipe and the socket.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use sandkeep_frames::{CHUNK_BYTES, WINDOW_BYTES};

/// Unacknowledged pieces kept: tiny pieces would otherwise cost far more than their bytes.
const MAX_PIECES: usize = 4096;

/// One output stream's retained bytes.
#[derive(Debug, Default)]
pub struct Window {
    start: u64,
    next: u64,
    next_piece: usize,
    pieces: VecDeque<Bytes>,
    in_pieces: usize,
    tail: BytesMut,
}

impl Window {
    /// Bytes kept.
    pub fn held(&self) -> usize {
        self.in_pieces + self.tail.len()
    }

    /// Offset of the oldest byte kept.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the newest byte: all that was ever read.
    pub fn end(&self) -> u64 {
        self.start + self.held() as u64
    }

    /// Bytes that may be read before the reader must wait for acknowledgement.
    pub fn room(&self) -> usize {
        if self.pieces.len() >= MAX_PIECES {
            return 0;
        }
        usize::try_from(WINDOW_BYTES).unwrap_or(usize::MAX).saturating_sub(self.held())
    }

    /// Where the reader appends.
    pub fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    /// The newest bytes, as many as were just appended to the tail.
    pub fn newest(&self, count: usize) -> &[u8] {
        &self.tail[self.tail.len() - count.min(self.tail.len())..]
    }

    /// Everything was sent once on this attachment.
    pub fn all_sent(&self) -> bool {
        self.next == self.end()
    }

    /// The next bytes to send, with the offset of the first; at most one chunk.
    pub fn take_next(&mut self) -> Option<(u64, Bytes)> {
        if self.next_piece == self.pieces.len() {
            if self.tail.is_empty() {
                return None;
            }
            let piece = self.tail.split_to(self.tail.len().min(CHUNK_BYTES)).freeze();
            self.in_pieces += piece.len();
            self.pieces.push_back(piece);
        }
        let (offset, piece) = (self.next, self.pieces[self.next_piece].clone());
        self.next += piece.len() as u64;
        self.next_piece += 1;
        Some((offset, piece))
    }

    /// The other side has everything up to `offset`; more than was sent cannot be had.
    pub fn acknowledge(&mut self, offset: u64) {
        self.drop_before(offset.min(self.next));
    }

    /// A new attachment that has everything up to `offset`. Gives where it goes on: higher if
    /// older bytes are gone, lower if it claims what never was.
    pub fn rewind(&mut self, offset: u64) -> u64 {
        let offset = offset.clamp(self.start, self.end());
        (self.next, self.next_piece) = (self.start, 0);
        self.drop_before(offset);
        self.next
    }

    /// Forgets the oldest bytes, so that at most `bytes` are kept.
    pub fn keep_last(&mut self, bytes: usize) {
        let surplus = self.held().saturating_sub(bytes);
        self.drop_before(self.start + surplus as u64);
    }

    fn drop_before(&mut self, offset: u64) {
        while let Some(piece) = self.pieces.front_mut() {
            let wanted = offset.saturating_sub(self.start);
            let len = piece.len();
            if wanted < len as u64 {
                // Less than the piece's length, so it fits.
                let part = usize::try_from(wanted).unwrap_or(len);
                piece.advance(part);
                self.in_pieces -= part;
                self.start += wanted;
                break;
            }
            self.pieces.pop_front();
            self.next_piece = self.next_piece.saturating_sub(1);
            self.in_pieces -= len;
            self.start += len as u64;
        }
        if self.pieces.is_empty() {
            let wanted = offset.saturating_sub(self.start);
            let part = usize::try_from(wanted).unwrap_or(usize::MAX).min(self.tail.len());
            self.tail.advance(part);
            self.start += part as u64;
            if self.tail.is_empty() {
                // Nothing is kept: no memory either.
                self.tail = BytesMut::new();
            }
        }
        self.next = self.next.max(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &[u8]) -> Window {
        let mut window = Window::default();
        window.tail().extend_from_slice(text);
        window
    }

    fn take_all(window: &mut Window) -> (u64, Vec<u8>) {
        let (mut first, mut bytes) = (None, Vec::new());
        while let Some((offset, piece)) = window.take_next() {
            assert_eq!(*first.get_or_insert(offset) + bytes.len() as u64, offset);
            bytes.extend_from_slice(&piece);
        }
        (first.unwrap_or_else(|| window.end()), bytes)
    }

    #[test]
    fn what_was_not_acknowledged_is_sent_again() {
        let mut window = filled(b"one ");
        assert_eq!(take_all(&mut window), (0, b"one ".to_vec()));
        window.tail().extend_from_slice(b"two ");
        assert_eq!(take_all(&mut window), (4, b"two ".to_vec()));
        window.acknowledge(2);
        window.tail().extend_from_slice(b"three");
        assert_eq!(window.rewind(2), 2);
        assert_eq!(take_all(&mut window), (2, b"e two three".to_vec()));
        assert_eq!(window.rewind(6), 6);
        assert_eq!(take_all(&mut window), (6, b"o three".to_vec()));
        assert_eq!(window.rewind(0), 6);
        window.acknowledge(13);
        assert_eq!((window.held(), window.start(), window.end()), (7, 6, 13));
        assert_eq!(take_all(&mut window), (6, b"o three".to_vec()));
        window.acknowledge(13);
        assert_eq!((window.held(), window.all_sent()), (0, true));
    }

    #[test]
    fn an_acknowledgement_of_the_unsent_has_no_effect() {
        let mut window = filled(b"secret");
        window.acknowledge(u64::MAX);
        assert_eq!(take_all(&mut window), (0, b"secret".to_vec()));
        assert_eq!(window.rewind(u64::MAX), 6);
        assert_eq!(take_all(&mut window), (6, vec![]));
    }

    #[test]
    fn only_the_newest_bytes_are_kept_when_asked() {
        let mut window = filled(b"0123");
        assert!(window.take_next().is_some());
        window.tail().extend_from_slice(b"456789");
        window.keep_last(3);
        assert_eq!((window.start(), window.held()), (7, 3));
        assert_eq!(take_all(&mut window), (7, b"789".to_vec()));
        window.keep_last(0);
        assert_eq!((window.start(), window.end()), (10, 10));
    }

    #[test]
    fn the_room_ends_with_the_window_and_with_many_pieces() {
        let mut window = filled(&vec![0; CHUNK_BYTES * 4 - 1]);
        assert_eq!(window.room(), 1);
        window.keep_last(0);
        for _ in 0..MAX_PIECES {
            window.tail().extend_from_slice(b"x");
            assert!(window.room() > 0);
            window.take_next();
        }
        assert_eq!(window.room(), 0);
        window.acknowledge(window.end());
        assert_eq!(window.room(), CHUNK_BYTES * 4);
    }
}
