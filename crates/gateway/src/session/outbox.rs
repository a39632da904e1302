//! What waits to be written to one session: bounded by construction, and fair.
//!
//! The session's own frames go first; then the streams take turns, each with its small frames and
//! one chunk of bytes, so what was asked on two streams one after the other (forget an exec, open
//! another of that name) arrives in that order unless bytes wait. Whatever only its newest value matters of (acknowledgements, terminal sizes) is kept as that value, so a peer
//! that does not read makes nothing grow: a stream holds at most one window of stdin.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecEof, ExecResize, ExecSignal, LogAck, StreamBytes,
};
use sandkeep_frames::{Encoded, Kind, PayloadTooLarge};
use tokio::sync::oneshot;

/// Frames of the session itself (orders, results, pings) that may wait. The reconciler has one
/// order at a time under way for a sandbox; a peer that takes none of 64 is not reading.
const CONTROL_FRAMES: usize = 64;

/// Answers to pings that may wait; a peer that sends more without reading loses the older ones.
const PONGS: usize = 4;

/// Bytes after which a batch is closed: one largest chunk, then other streams have their turn.
const BATCH_BYTES: usize = 256 * 1024;

/// Frames in one batch, so that small frames share a system call.
const BATCH_FRAMES: usize = 32;

/// The outbox is full: the peer has not read for a long time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Frames to be written together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// In order.
    pub(crate) frames: VecDeque<Encoded>,
    /// To be told once all of them are written.
    pub(crate) written: Vec<oneshot::Sender<()>>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, frame: Encoded) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    /// For messages and chunks that are never too large for a frame.
    fn push_ok(&mut self, frame: Result<Encoded, PayloadTooLarge>) {
        if let Ok(frame) = frame {
            self.push(frame);
        }
    }

    fn has_room(&self) -> bool {
        self.bytes < BATCH_BYTES && self.frames.len() < BATCH_FRAMES
    }
}

/// What waits to be written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    control: VecDeque<(Encoded, Option<oneshot::Sender<()>>)>,
    pongs: VecDeque<Bytes>,
    log_acks: BTreeMap<String, u64>,
    streams: HashMap<u32, StreamOut>,
    /// Exactly the keys of `streams`, in the order of their turns.
    turns: VecDeque<u32>,
}

impl Outbox {
    /// A frame of the session; `written` is told when it has been written.
    pub(crate) fn control(
        &mut self,
        frame: Encoded,
        written: Option<oneshot::Sender<()>>,
    ) -> Result<(), Full> {
        if self.control.len() >= CONTROL_FRAMES {
            return Err(Full);
        }
        self.control.push_back((frame, written));
        Ok(())
    }

    /// The answer to a ping.
    pub(crate) fn pong(&mut self, payload: Bytes) {
        if self.pongs.len() >= PONGS {
            self.pongs.pop_front();
        }
        self.pongs.push_back(payload);
    }

    /// A log is durable up to `offset`.
    pub(crate) fn log_ack(&mut self, source: &str, offset: u64) {
        let known = self.log_acks.entry(source.to_owned()).or_default();
        *known = offset.max(*known);
    }

    /// What waits on one stream; it gets a turn.
    pub(crate) fn stream(&mut self, stream: u32) -> &mut StreamOut {
        let turns = &mut self.turns;
        self.streams.entry(stream).or_insert_with(|| {
            turns.push_back(stream);
            StreamOut::default()
        })
    }

    /// Moves the next frames into `batch`; nothing moved: nothing waits.
    pub(crate) fn take(&mut self, batch: &mut Batch) {
        batch.bytes = 0;
        while batch.has_room() {
            if let Some((frame, written)) = self.control.pop_front() {
                batch.push(frame);
                batch.written.extend(written);
            } else if let Some(frame) = self.next_pong().or_else(|| self.next_log_ack()) {
                batch.push(frame);
            } else if let Some(stream) = self.turns.pop_front() {
                self.turn(stream, batch);
            } else {
                break;
            }
        }
    }

    fn next_pong(&mut self) -> Option<Encoded> {
        // A payload came in as one frame, so it fits into one.
        Encoded::raw(Kind::Pong, 0, self.pongs.pop_front()?).ok()
    }

    fn next_log_ack(&mut self) -> Option<Encoded> {
        let (source, offset) = self.log_acks.pop_first()?;
        Encoded::message(Kind::LogAck, 0, &LogAck { source, offset }).ok()
    }

    fn turn(&mut self, stream: u32, batch: &mut Batch) {
        let Some(out) = self.streams.get_mut(&stream) else {
            return;
        };
        out.turn(stream, batch);
        if out.stdin.is_empty() {
            self.streams.remove(&stream);
        } else {
            self.turns.push_back(stream);
        }
    }
}

/// What waits on one stream, in the order in which it is written.
#[derive(Debug, Default)]
pub(crate) struct StreamOut {
    opening: Option<Encoded>,
    acks: BTreeMap<u32, u64>,
    /// Bit n: signal n waits. Standard signals do not queue either.
    signals: u128,
    resize: Option<ExecResize>,
    stdin: VecDeque<StreamBytes>,
    stdin_end: Option<u64>,
    farewell: Option<Kind>,
}

impl StreamOut {
    /// `ExecOpen` or `ExecAttach`: before anything else.
    pub(crate) fn open(&mut self, frame: Encoded) {
        self.opening = Some(frame);
    }

    /// The newest acknowledgement of a channel.
    pub(crate) fn ack(&mut self, channel: Channel, offset: u64) {
        self.acks.insert(channel as u32, offset);
    }

    /// A signal, 1 to 64.
    pub(crate) fn signal(&mut self, signal: i32) {
        if (1..=64).contains(&signal) {
            self.signals |= 1 << signal;
        }
    }

    /// The newest size of the terminal.
    pub(crate) fn resize(&mut self, rows: u32, columns: u32) {
        self.resize = Some(ExecResize { rows, columns });
    }

    /// Stdin, cut into chunks. The caller keeps to the window.
    pub(crate) fn stdin(&mut self, mut offset: u64, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(sandkeep_frames::CHUNK_BYTES));
            let length = chunk.len() as u64;
            self.stdin.push_back(StreamBytes { channel: Channel::Stdin, offset, bytes: chunk });
            offset = offset.saturating_add(length);
        }
    }

    /// Stdin ends at `offset`.
    pub(crate) fn stdin_end(&mut self, offset: u64) {
        self.stdin_end = Some(offset);
    }

    /// `ExecForget` or `ExecDetach`: after everything else.
    pub(crate) fn farewell(&mut self, kind: Kind) {
        self.farewell = Some(kind);
    }

    /// Everything but the bytes after the next chunk; nothing but those is left.
    fn turn(&mut self, stream: u32, batch: &mut Batch) {
        if let Some(frame) = self.opening.take() {
            batch.push(frame);
        }
        while let Some((channel, offset)) = self.acks.pop_first() {
            let ack = ExecAck { channel, offset };
            batch.push_ok(Encoded::message(Kind::ExecAck, stream, &ack));
        }
        while self.signals != 0 {
            let signal = self.signals.trailing_zeros();
            self.signals &= !(1 << signal);
            let signal = ExecSignal { signal: signal.cast_signed() };
            batch.push_ok(Encoded::message(Kind::ExecSignal, stream, &signal));
        }
        if let Some(size) = self.resize.take() {
            batch.push_ok(Encoded::message(Kind::ExecResize, stream, &size));
        }
        if let Some(data) = self.stdin.pop_front() {
            batch.push_ok(Encoded::stream_bytes(stream, data));
        }
        if !self.stdin.is_empty() {
            return;
        }
        if let Some(offset) = self.stdin_end.take() {
            let eof = ExecEof { channel: Channel::Stdin as u32, offset };
            batch.push_ok(Encoded::message(Kind::ExecEof, stream, &eof));
        }
        if let Some(kind) = self.farewell.take() {
            batch.push(Encoded::empty(kind, stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams_of(outbox: &mut Outbox) -> Vec<u32> {
        let mut streams = Vec::new();
        loop {
            let mut batch = Batch::default();
            outbox.take(&mut batch);
            if batch.frames.is_empty() {
                return streams;
            }
            for frame in batch.frames {
                let [head, _] = frame.pieces();
                streams.push(u32::from_le_bytes([head[8], head[9], head[10], head[11]]));
            }
        }
    }

    #[test]
    fn streams_take_turns_and_the_session_goes_first() {
        let mut outbox = Outbox::default();
        let megabyte = Bytes::from(vec![0; 1024 * 1024]);
        outbox.stream(1).stdin(0, megabyte);
        outbox.stream(2).stdin(0, Bytes::from_static(b"small"));
        outbox.stream(2).stdin_end(5);
        outbox.control(Encoded::empty(Kind::UsageAsk, 0), None).unwrap();
        assert_eq!(streams_of(&mut outbox), [0, 1, 2, 2, 1, 1, 1]);
        assert!(outbox.streams.is_empty() && outbox.turns.is_empty());
    }

    #[test]
    fn what_is_asked_on_two_streams_keeps_its_order() {
        let mut outbox = Outbox::default();
        let first = outbox.stream(1);
        first.ack(Channel::Stdout, 9);
        first.signal(15);
        first.farewell(Kind::ExecForget);
        outbox.stream(2).open(Encoded::empty(Kind::ExecAttach, 2));
        assert_eq!(streams_of(&mut outbox), [1, 1, 1, 2]);
    }

    #[test]
    fn a_peer_that_does_not_read_makes_nothing_grow() {
        let mut outbox = Outbox::default();
        for offset in 0..100_000 {
            outbox.pong(Bytes::from_static(b"again"));
            outbox.log_ack("main-1", offset);
            let out = outbox.stream(7);
            out.ack(Channel::Stdout, offset);
            out.resize(24, 80);
            out.signal(2);
        }
        let mut refused = 0;
        for _ in 0..100 {
            refused +=
                usize::from(outbox.control(Encoded::empty(Kind::UsageAsk, 0), None) == Err(Full));
        }
        assert_eq!(refused, 100 - CONTROL_FRAMES);
        let all = streams_of(&mut outbox);
        assert_eq!(all.len(), CONTROL_FRAMES + PONGS + 1 + 3);
    }
}
