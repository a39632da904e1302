//! Our stdin on its way in: read by a thread of its own, kept until acknowledged.
//!
//! A thread, because a terminal or a pipe can be read only by blocking; the process never waits for
//! that thread when it ends, so a stdin that stays open holds nothing up.

use std::collections::VecDeque;
use std::io::{self, Read};

use bytes::Bytes;
use sandkeep_proto::v1::{StreamData, StreamEnd, exec_in::Message};
use tokio::sync::mpsc;

/// Bytes that may be under way without acknowledgement, as the frames have it.
const WINDOW_BYTES: u64 = 1 << 20;
/// Largest chunk: 256 KiB measured best.
const CHUNK_BYTES: usize = 256 << 10;

/// Stdin, with everything that was not acknowledged.
#[derive(Debug)]
pub(super) struct Input {
    chunks: mpsc::Receiver<Bytes>,
    kept: Kept,
}

/// What was read and may be needed again.
#[derive(Debug, Default)]
struct Kept {
    /// Offset of the first kept byte: everything before was acknowledged.
    from: u64,
    /// Offset after the last byte read.
    to: u64,
    chunks: VecDeque<Bytes>,
    ended: bool,
}

impl Input {
    /// Begins to read stdin.
    pub(super) fn start() -> io::Result<Self> {
        // Two chunks: one is sent while the next is read.
        let (sender, chunks) = mpsc::channel(2);
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read_all(&sender))?;
        Ok(Self { chunks, kept: Kept::default() })
    }

    /// There is room for one more chunk under way: more than the window is refused.
    pub(super) const fn wants_more(&self) -> bool {
        let under_way = self.kept.to - self.kept.from;
        !self.kept.ended && under_way + CHUNK_BYTES as u64 <= WINDOW_BYTES
    }

    /// The next piece of stdin, or its end. Loses nothing when dropped half-way.
    pub(super) async fn next(&mut self) -> Message {
        match self.chunks.recv().await {
            Some(chunk) => self.kept.add(chunk),
            None => self.kept.end(),
        }
    }

    /// Everything up to this offset is in the process's hands.
    pub(super) fn acknowledged(&mut self, offset: u64) {
        self.kept.forget_before(offset);
    }

    /// A new connection goes on at this offset: what has to be said again. An offset before
    /// anything kept belongs to a process begun anew: it gets what the last one did not take.
    pub(super) fn resume_at(&mut self, offset: u64) -> Vec<Message> {
        self.kept.renumber_from_at_most(offset);
        self.kept.forget_before(offset);
        self.kept.again()
    }
}

impl Kept {
    fn add(&mut self, data: Bytes) -> Message {
        let offset = self.to;
        self.to += data.len() as u64;
        self.chunks.push_back(data.clone());
        Message::Stdin(StreamData { offset, data })
    }

    fn end(&mut self) -> Message {
        self.ended = true;
        Message::StdinEnd(StreamEnd { offset: self.to })
    }

    fn renumber_from_at_most(&mut self, offset: u64) {
        if offset < self.from {
            self.to -= self.from - offset;
            self.from = offset;
        }
    }

    fn forget_before(&mut self, offset: u64) {
        while self.from < offset {
            let Some(first) = self.chunks.front_mut() else { return };
            let length = first.len() as u64;
            if self.from + length <= offset {
                self.from += length;
                self.chunks.pop_front();
            } else {
                let skip = usize::try_from(offset - self.from).unwrap_or(first.len());
                *first = first.slice(skip..);
                self.from = offset;
            }
        }
    }

    fn again(&self) -> Vec<Message> {
        let mut offset = self.from;
        let mut messages = Vec::with_capacity(self.chunks.len() + 1);
        for data in &self.chunks {
            messages.push(Message::Stdin(StreamData { offset, data: data.clone() }));
            offset += data.len() as u64;
        }
        if self.ended {
            messages.push(Message::StdinEnd(StreamEnd { offset: self.to }));
        }
        messages
    }
}

/// Reads until the end, an error (which is an end, too) or until nobody listens any more.
fn read_all(sender: &mpsc::Sender<Bytes>) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                if sender.blocking_send(Bytes::copy_from_slice(&buffer[..count])).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_unreadable) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(messages: &[Message]) -> Vec<(u64, Vec<u8>)> {
        let one = |message: &Message| match message {
            Message::Stdin(data) => (data.offset, data.data.to_vec()),
            Message::StdinEnd(end) => (end.offset, b"END".to_vec()),
            other => panic!("{other:?}"),
        };
        messages.iter().map(one).collect()
    }

    #[test]
    fn only_what_was_not_acknowledged_is_said_again() {
        let mut kept = Kept::default();
        kept.add(Bytes::from_static(b"abcd"));
        kept.add(Bytes::from_static(b"efgh"));
        assert_eq!(data(&kept.again()), [(0, b"abcd".to_vec()), (4, b"efgh".to_vec())]);
        kept.forget_before(6);
        assert_eq!(data(&kept.again()), [(6, b"gh".to_vec())]);
        kept.forget_before(2);
        assert_eq!(data(&kept.again()), [(6, b"gh".to_vec())]);
        kept.end();
        kept.forget_before(8);
        assert_eq!(data(&kept.again()), [(8, b"END".to_vec())]);
    }

    #[test]
    fn a_process_begun_anew_gets_what_the_last_one_did_not_take() {
        let mut kept = Kept::default();
        kept.add(Bytes::from_static(b"abcdef"));
        kept.forget_before(4);
        kept.renumber_from_at_most(0);
        assert_eq!(data(&kept.again()), [(0, b"ef".to_vec())]);
        assert_eq!(data(&[kept.add(Bytes::from_static(b"g"))]), [(2, b"g".to_vec())]);
    }

    #[test]
    fn an_acknowledgement_beyond_what_was_read_does_no_harm() {
        let mut kept = Kept::default();
        kept.add(Bytes::from_static(b"ab"));
        kept.forget_before(100);
        assert_eq!((kept.from, kept.to), (2, 2));
        assert_eq!(data(&[kept.add(Bytes::from_static(b"c"))]), [(2, b"c".to_vec())]);
    }
}
