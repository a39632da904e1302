//! The session with the gateway: dialled, greeted, lost, dialled again, for ever.
//!
//! ```text
//!  apart --dial--> greeting --Welcome--> live
//!    ^-- backoff ----- broken, refused, no answer --'
//! ```
//! Nothing that matters lives here: execs, results and logs outlive any session.

pub mod connection;

use std::collections::HashMap;
use std::path::PathBuf;

use prost::Message;
use sandkeep_frames::message::Refused;
use sandkeep_frames::{Encoded, Frame, Kind};

use crate::poller::{Poller, Token};
use connection::{Broken, Connection};

const FIRST_BACKOFF_MS: u64 = 50;
const LONGEST_BACKOFF_MS: u64 = 1000;

/// A gateway that is alive welcomes at once; one that is stuck is dialled again.
const WELCOME_WITHIN_MS: u64 = 10_000;

/// See above.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    connection: Option<Connection>,
    live: bool,
    dialled_at_ms: u64,
    retry_at_ms: u64,
    backoff_ms: u64,
    /// The incarnation that the gateway says this PID 1 is; kept over sessions.
    pub incarnation: Option<u64>,
    /// Stream numbers of this session and the execs that they are attached to.
    pub streams: HashMap<u32, u32>,
}

impl Session {
    /// Apart; dials at once.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            connection: None,
            live: false,
            dialled_at_ms: 0,
            retry_at_ms: 0,
            backoff_ms: FIRST_BACKOFF_MS,
            incarnation: None,
            streams: HashMap::new(),
        }
    }

    /// Dials if it is time. True: connected, say hello.
    pub fn dial(&mut self, poller: &Poller, now_ms: u64) -> bool {
        if self.connection.is_some() || now_ms < self.retry_at_ms {
            return false;
        }
        let dialled = Connection::dial(&self.path).and_then(|connection| {
            poller.watch(connection.fd(), Token::Session)?;
            Ok(connection)
        });
        match dialled {
            Ok(connection) => {
                self.connection = Some(connection);
                self.dialled_at_ms = now_ms;
                true
            }
            Err(_) => {
                self.wait(now_ms);
                false
            }
        }
    }

    /// The gateway has answered.
    pub fn welcomed(&mut self, incarnation: u64) {
        self.live = true;
        self.incarnation = Some(incarnation);
        self.backoff_ms = FIRST_BACKOFF_MS;
    }

    /// Frames of every kind may be sent.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Ends this connection; dials again after a while.
    pub fn close(&mut self, now_ms: u64) {
        self.connection = None;
        self.live = false;
        self.streams.clear();
        self.wait(now_ms);
    }

    /// Says why, and ends this connection.
    pub fn refuse(&mut self, reason: &str, message: &str, now_ms: u64) {
        let refused = Refused { reason: reason.to_owned(), message: message.to_owned() };
        self.send(Kind::Refused, 0, &refused);
        if let Some(connection) = &mut self.connection {
            // The last words; if they do not get through, the end of the connection says it.
            let _: Result<(), Broken> = connection.flush();
        }
        self.close(now_ms);
    }

    /// No welcome came in time.
    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.connection.is_some() && !self.live && now_ms >= self.dialled_at_ms + WELCOME_WITHIN_MS
    }

    /// When to look again although nothing happens.
    pub fn wakes_at(&self) -> Option<u64> {
        match (&self.connection, self.live) {
            (None, _) => Some(self.retry_at_ms),
            (Some(_), false) => Some(self.dialled_at_ms + WELCOME_WITHIN_MS),
            (Some(_), true) => None,
        }
    }

    /// The socket is ready again.
    pub fn note(&mut self, readable: bool, writable: bool) {
        if let Some(connection) = &mut self.connection {
            connection.readable |= readable;
            connection.writable |= writable;
        }
    }

    /// The next frame, unless answers are not taken any more.
    pub fn receive(&mut self) -> Result<Option<Frame>, Broken> {
        match &mut self.connection {
            Some(connection) if !connection.is_clogged() => connection.receive(),
            _ => Ok(None),
        }
    }

    /// More frames could be received without waiting.
    pub fn has_more(&self) -> bool {
        self.connection.as_ref().is_some_and(|c| c.readable && !c.is_clogged())
    }

    /// Bulk may be queued.
    pub fn takes_bulk(&self) -> bool {
        self.live && self.connection.as_ref().is_some_and(|c| !c.is_clogged())
    }

    /// Everything queued was written.
    pub fn is_flushed(&self) -> bool {
        self.connection.as_ref().is_none_or(Connection::is_flushed)
    }

    /// Queues a message.
    pub fn send(&mut self, kind: Kind, stream: u32, message: &impl Message) {
        // All our messages are bounded far below the limit.
        if let Ok(frame) = Encoded::message(kind, stream, message) {
            self.queue(frame);
        }
    }

    /// Queues a frame.
    pub fn queue(&mut self, frame: Encoded) {
        if let Some(connection) = &mut self.connection {
            connection.queue(frame);
        }
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self) -> Result<(), Broken> {
        self.connection.as_mut().map_or(Ok(()), Connection::flush)
    }

    fn wait(&mut self, now_ms: u64) {
        self.retry_at_ms = now_ms + self.backoff_ms;
        self.backoff_ms = (self.backoff_ms * 2).min(LONGEST_BACKOFF_MS);
    }
}
