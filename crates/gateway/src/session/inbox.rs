//! What came for one exec and its client has not taken yet, and the rules that bound it.
//!
//! ```text
//!  opened --Attached--> flowing --Exited--> over
//!     |  refused           | a rule broken, or the session lost
//!     v                    v
//!   failed              failed (what came before is delivered first)
//! ```
//! A channel's bytes come without holes and never more than one window beyond what the client has
//! acknowledged. Small pieces are gathered into larger ones, so a supervisor that sends single
//! bytes takes no more memory than one that sends chunks.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use sandkeep_frames::WINDOW_BYTES;
use sandkeep_frames::message::{Channel, ExecAttached};

use crate::session::exec::{ExecExit, ExecOutput};
use crate::sessions::SessionError;

/// Pieces below this are copied together: a small piece would keep a whole read buffer alive.
const SMALL_BYTES: usize = 32 * 1024;

/// A gathered piece is closed at this size.
const GATHERED_BYTES: usize = 64 * 1024;

/// With more pieces than this waiting, order between stdout and stderr is given up for memory.
const ORDERED_PIECES: usize = 64;

/// A rule of the exec's streams was broken; a sentence without an end mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// Everything waiting for one client.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Nobody stays attached: `Attached` is the last word.
    detached: bool,
    attached: Option<Delivery<ExecAttached>>,
    output: [Output; 2],
    next_piece: u64,
    stdin: Stdin,
    exited: Option<Delivery<ExecExit>>,
    failure: Option<SessionError>,
}

#[derive(Debug)]
enum Delivery<T> {
    Waiting(T),
    Done,
}

impl<T> Delivery<T> {
    fn take(this: &mut Option<Self>) -> Option<T> {
        match this.replace(Self::Done)? {
            Self::Waiting(item) => Some(item),
            Self::Done => None,
        }
    }
}

#[derive(Debug, Default)]
struct Output {
    asked: u64,
    next: u64,
    acked: u64,
    pieces: VecDeque<Piece>,
    end: Option<Delivery<u64>>,
}

#[derive(Debug)]
struct Piece {
    number: u64,
    offset: u64,
    bytes: PieceBytes,
}

#[derive(Debug)]
enum PieceBytes {
    Shared(Bytes),
    Gathered(BytesMut),
}

#[derive(Debug, Default)]
struct Stdin {
    next: u64,
    acked: u64,
    ended: bool,
    ack_waits: bool,
}

impl Inbox {
    /// Nothing came yet. The client has stdout and stderr up to these offsets.
    pub(crate) fn new(detached: bool, stdout_offset: u64, stderr_offset: u64) -> Self {
        let asked = |asked| Output { asked, ..Output::default() };
        Self {
            detached,
            attached: None,
            output: [asked(stdout_offset), asked(stderr_offset)],
            next_piece: 0,
            stdin: Stdin::default(),
            exited: None,
            failure: None,
        }
    }

    /// The supervisor's answer to the opening, or its word that it goes on without this client.
    pub(crate) fn attached(&mut self, answer: ExecAttached) -> Result<(), Violation> {
        // Also later: a supervisor goes on without a client that takes nothing.
        if !answer.refused.is_empty() {
            self.fail(SessionError::Refused { reason: answer.refused, message: answer.message });
            return Ok(());
        }
        if self.attached.is_some() {
            return Err(Violation("attached twice"));
        }
        for (output, offset) in
            self.output.iter_mut().zip([answer.stdout_offset, answer.stderr_offset])
        {
            if offset < output.asked {
                return Err(Violation("output begins before the offset that was asked for"));
            }
            output.next = offset;
            output.acked = offset;
        }
        if answer.stdin_offset > self.stdin.next {
            self.stdin.next = answer.stdin_offset;
        }
        self.stdin.acked = answer.stdin_offset;
        self.attached = Some(Delivery::Waiting(answer));
        Ok(())
    }

    /// Bytes of an output channel.
    pub(crate) fn data(
        &mut self,
        channel: Channel,
        offset: u64,
        bytes: Bytes,
    ) -> Result<(), Violation> {
        let number = self.next_piece;
        let in_order = self.output[0].pieces.len() + self.output[1].pieces.len() < ORDERED_PIECES;
        let output = self.flowing(channel)?;
        let end = offset.checked_add(bytes.len() as u64);
        let Some(end) = end.filter(|_| offset == output.next) else {
            return Err(Violation("output with a hole or an overlap"));
        };
        if end > output.acked.saturating_add(WINDOW_BYTES) {
            return Err(Violation("more output than the window allows"));
        }
        output.next = end;
        if output.push(number, offset, bytes, in_order) {
            self.next_piece += 1;
        }
        Ok(())
    }

    /// An output channel is complete.
    pub(crate) fn end(&mut self, channel: Channel, offset: u64) -> Result<(), Violation> {
        let output = self.flowing(channel)?;
        if offset != output.next {
            return Err(Violation("an end that is not where the output ends"));
        }
        output.end = Some(Delivery::Waiting(offset));
        Ok(())
    }

    /// Stdin was taken up to `offset`.
    pub(crate) fn stdin_ack(&mut self, offset: u64) -> Result<(), Violation> {
        if self.attached.is_none() || offset > self.stdin.next {
            return Err(Violation("an acknowledgement of stdin that was not sent"));
        }
        if offset > self.stdin.acked {
            self.stdin.acked = offset;
            self.stdin.ack_waits = true;
        }
        Ok(())
    }

    /// The process has ended and its output is complete.
    pub(crate) fn exited(&mut self, exit: ExecExit) -> Result<(), Violation> {
        if self.attached.is_none() || self.exited.is_some() {
            return Err(Violation("an exit before the beginning, or a second one"));
        }
        self.exited = Some(Delivery::Waiting(exit));
        Ok(())
    }

    /// Nothing more comes; what came is still delivered. The first failure stays.
    pub(crate) fn fail(&mut self, error: SessionError) {
        self.failure.get_or_insert(error);
    }

    /// Nobody stays attached.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached
    }

    /// Whether frames are still taken.
    pub(crate) fn is_open(&self) -> bool {
        self.failure.is_none() && self.exited.is_none()
    }

    /// The session is gone, or the supervisor broke the rules.
    pub(crate) fn failure(&self) -> Option<&SessionError> {
        self.failure.as_ref()
    }

    /// The client sends so many bytes of stdin at `offset`.
    pub(crate) fn send_stdin(&mut self, offset: u64, length: usize) -> Result<(), Violation> {
        let end = offset.checked_add(length as u64);
        let Some(end) = end.filter(|_| offset == self.stdin.next && !self.stdin.ended) else {
            return Err(Violation("stdin with a hole or an overlap, or after its end"));
        };
        if end > self.stdin.acked.saturating_add(WINDOW_BYTES) {
            return Err(Violation("more stdin than the window allows"));
        }
        self.stdin.next = end;
        Ok(())
    }

    /// The client ends stdin at `offset`. False: it was ended before.
    pub(crate) fn send_stdin_end(&mut self, offset: u64) -> Result<bool, Violation> {
        if offset != self.stdin.next {
            return Err(Violation("an end of stdin that is not where it ends"));
        }
        Ok(!std::mem::replace(&mut self.stdin.ended, true))
    }

    /// The client has a channel up to `offset`. False: no news.
    pub(crate) fn send_ack(&mut self, channel: Channel, offset: u64) -> Result<bool, Violation> {
        let output = self.output_of(channel)?;
        if offset > output.next {
            // Before the supervisor's answer: no more than the opening said, so no news.
            if offset <= output.asked {
                return Ok(false);
            }
            return Err(Violation("an acknowledgement of output that was not sent"));
        }
        let news = offset > output.acked;
        output.acked = output.acked.max(offset);
        Ok(news)
    }

    /// What the client gets next; `None`: nothing yet.
    pub(crate) fn pop(&mut self) -> Option<Result<Option<ExecOutput>, SessionError>> {
        if let Some(Delivery::Waiting(_)) = self.attached {
            return Delivery::take(&mut self.attached).map(|answer| Ok(Some(attached(&answer))));
        }
        if std::mem::take(&mut self.stdin.ack_waits) {
            return Some(Ok(Some(ExecOutput::StdinAck { offset: self.stdin.acked })));
        }
        if let Some(output) = self.pop_output() {
            return Some(Ok(Some(output)));
        }
        match &mut self.exited {
            Some(Delivery::Done) => return Some(Ok(None)),
            Some(Delivery::Waiting(_)) => {
                let exit = Delivery::take(&mut self.exited)?;
                return Some(Ok(Some(ExecOutput::Exited(exit))));
            }
            None => {}
        }
        if let Some(error) = &self.failure {
            return Some(Err(error.clone()));
        }
        (self.detached && self.attached.is_some()).then_some(Ok(None))
    }

    fn pop_output(&mut self) -> Option<ExecOutput> {
        let number = |output: &Output| output.pieces.front().map_or(u64::MAX, |piece| piece.number);
        let first = usize::from(number(&self.output[1]) < number(&self.output[0]));
        if let Some(piece) = self.output[first].pieces.pop_front() {
            let (offset, bytes) = (piece.offset, piece.bytes.into_bytes());
            return Some(match first {
                0 => ExecOutput::Stdout { offset, bytes },
                _ => ExecOutput::Stderr { offset, bytes },
            });
        }
        if let Some(Delivery::Waiting(_)) = self.output[0].end {
            let offset = Delivery::take(&mut self.output[0].end)?;
            return Some(ExecOutput::StdoutEnd { offset });
        }
        if let Some(Delivery::Waiting(_)) = self.output[1].end {
            let offset = Delivery::take(&mut self.output[1].end)?;
            return Some(ExecOutput::StderrEnd { offset });
        }
        None
    }

    /// The channel, if bytes may come on it now.
    fn flowing(&mut self, channel: Channel) -> Result<&mut Output, Violation> {
        if self.attached.is_none() || self.exited.is_some() {
            return Err(Violation("output outside the life of the exec"));
        }
        let output = self.output_of(channel)?;
        if output.end.is_some() {
            return Err(Violation("output after its end"));
        }
        Ok(output)
    }

    fn output_of(&mut self, channel: Channel) -> Result<&mut Output, Violation> {
        match channel {
            Channel::Stdin => Err(Violation("stdin is no output")),
            Channel::Stdout => Ok(&mut self.output[0]),
            Channel::Stderr => Ok(&mut self.output[1]),
        }
    }
}

impl Output {
    /// Keeps a piece; false: it was gathered into the last one.
    fn push(&mut self, number: u64, offset: u64, bytes: Bytes, in_order: bool) -> bool {
        if bytes.is_empty() {
            return false;
        }
        if bytes.len() >= SMALL_BYTES {
            self.pieces.push_back(Piece { number, offset, bytes: PieceBytes::Shared(bytes) });
            return true;
        }
        if let Some(last) = self.pieces.back_mut()
            && let PieceBytes::Gathered(gathered) = &mut last.bytes
            && gathered.len() + bytes.len() <= GATHERED_BYTES
            && (last.number + 1 == number || !in_order)
        {
            gathered.extend_from_slice(&bytes);
            return false;
        }
        let gathered = PieceBytes::Gathered(BytesMut::from(&bytes[..]));
        self.pieces.push_back(Piece { number, offset, bytes: gathered });
        true
    }
}

impl PieceBytes {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Gathered(bytes) => bytes.freeze(),
        }
    }
}

fn attached(answer: &ExecAttached) -> ExecOutput {
    ExecOutput::Attached {
        stdin_offset: answer.stdin_offset,
        stdout_offset: answer.stdout_offset,
        stderr_offset: answer.stderr_offset,
        pid: answer.pid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_acknowledge_what_it_came_back_with_before_it_is_answered() {
        let mut inbox = Inbox::new(false, 100, 0);
        assert_eq!(inbox.send_ack(Channel::Stdout, 100), Ok(false));
        assert!(inbox.send_ack(Channel::Stdout, 101).is_err(), "that it cannot have");
        assert!(inbox.send_ack(Channel::Stderr, 1).is_err());
    }
}
