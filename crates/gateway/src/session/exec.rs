//! One exec as the API sees it: what goes in, what comes out, and who may send how much.
//!
//! Flow control is end to end. The supervisor may have [`WINDOW_BYTES`](sandkeep_frames) of each
//! output channel under way beyond what the *client* has acknowledged ([`ExecInput::Ack`]); the
//! client may have the same of stdin beyond what the *supervisor* has acknowledged
//! ([`ExecOutput::StdinAck`]). So nothing here ever waits for room, one exec holds at most one
//! window per channel, and a client that stalls stops its own exec only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use sandkeep_core::Timestamp;
use sandkeep_frames::Kind;
use sandkeep_frames::message::Channel;

use crate::session::inbox::{Inbox, Violation};
use crate::session::link::{Exec, Link, invalid};
use crate::sessions::SessionError;

/// A process to start inside.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// Chosen by the client, `[a-z0-9-]{1,63}`; opening a known id attaches to it.
    pub exec_id: String,
    /// As given, no shell in between; not empty.
    pub argv: Vec<String>,
    /// `K=V`, on top of the sandbox's own environment.
    pub env: Vec<String>,
    /// `None`: the sandbox's.
    pub workdir: Option<String>,
    /// `None`: the sandbox's.
    pub user: Option<String>,
    /// With a terminal.
    pub tty: bool,
    /// Stdin is a stream; otherwise /dev/null.
    pub stdin: bool,
    /// Terminal size; 0: 24.
    pub rows: u32,
    /// Terminal size; 0: 80.
    pub columns: u32,
    /// Nobody attaches: it runs on with its output kept in the log.
    pub detached: bool,
}

/// From the client.
#[derive(Debug, Clone)]
pub enum ExecInput {
    /// Bytes of stdin. `offset` goes on from the last ones; at most one window beyond the newest
    /// [`ExecOutput::StdinAck`] (before the first: beyond [`ExecOutput::Attached`]).
    Stdin {
        /// Of the first byte.
        offset: u64,
        /// Any number within the window.
        bytes: Bytes,
    },
    /// Nothing more follows on stdin.
    StdinEnd {
        /// Total bytes of stdin.
        offset: u64,
    },
    /// New size of the terminal; only the newest counts.
    Resize {
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// A signal for the process group, 1 to 64.
    Signal(i32),
    /// The client has everything of this channel up to `offset`.
    Ack {
        /// Stdout or stderr.
        channel: Channel,
        /// See above.
        offset: u64,
    },
    /// The client has everything: the supervisor may forget the exec.
    Forget,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecExit {
    /// Exit code; 128 + n for a signal; 126 not executable, 127 not found.
    pub code: i32,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// It was killed for memory.
    pub oom: bool,
    /// By the supervisor's clock.
    pub finished_at: Timestamp,
    /// It could not be started at all, and why.
    pub spawn_error: Option<String>,
}

/// To the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// First: where the streams stand.
    Attached {
        /// Stdin bytes taken so far: go on from here.
        stdin_offset: u64,
        /// First stdout byte that follows; higher than asked: older ones were dropped.
        stdout_offset: u64,
        /// First stderr byte that follows.
        stderr_offset: u64,
        /// PID inside; 0: it has ended or was never started.
        pid: u32,
    },
    /// Bytes of stdout.
    Stdout {
        /// Of the first byte.
        offset: u64,
        /// At most one chunk.
        bytes: Bytes,
    },
    /// Bytes of stderr.
    Stderr {
        /// Of the first byte.
        offset: u64,
        /// At most one chunk.
        bytes: Bytes,
    },
    /// Stdout is complete.
    StdoutEnd {
        /// Its total bytes.
        offset: u64,
    },
    /// Stderr is complete.
    StderrEnd {
        /// Its total bytes.
        offset: u64,
    },
    /// Stdin was handed to the process up to here.
    StdinAck {
        /// See above.
        offset: u64,
    },
    /// Last: the process has ended and its output is complete.
    Exited(ExecExit),
}

/// An attached exec. Dropping it detaches: the process goes on, and can be attached to again.
#[derive(Debug)]
pub struct ExecStream {
    link: Arc<Link>,
    exec: Arc<Exec>,
    forgotten: AtomicBool,
}

impl ExecStream {
    pub(crate) fn new(link: Arc<Link>, exec: Arc<Exec>) -> Self {
        Self { link, exec, forgotten: AtomicBool::new(false) }
    }

    /// Hands something on to the supervisor; never waits. `Refused` for what breaks the rules of
    /// [`ExecInput`] (the exec itself goes on), `Lost` once the session is gone.
    pub fn send(&self, input: ExecInput) -> Result<(), SessionError> {
        if let Some(error) = self.exec.inbox(|inbox| inbox.failure().cloned()) {
            return Err(error);
        }
        match input {
            ExecInput::Stdin { offset, bytes } => {
                self.check(|inbox| inbox.send_stdin(offset, bytes.len()))?;
                self.link.send(&self.exec, |out| out.stdin(offset, bytes))
            }
            ExecInput::StdinEnd { offset } => {
                if !self.check(|inbox| inbox.send_stdin_end(offset))? {
                    return Ok(());
                }
                self.link.send(&self.exec, |out| out.stdin_end(offset))
            }
            ExecInput::Resize { rows, columns } => {
                self.link.send(&self.exec, |out| out.resize(rows, columns))
            }
            ExecInput::Signal(signal) => {
                if !(1..=64).contains(&signal) {
                    return Err(invalid(&format!("{signal} is not a signal")));
                }
                self.link.send(&self.exec, |out| out.signal(signal))
            }
            ExecInput::Ack { channel, offset } => {
                if !self.check(|inbox| inbox.send_ack(channel, offset))? {
                    return Ok(());
                }
                self.link.send(&self.exec, |out| out.ack(channel, offset))
            }
            ExecInput::Forget => {
                self.forgotten.store(true, Ordering::Relaxed);
                self.link.send(&self.exec, |out| out.farewell(Kind::ExecForget))
            }
        }
    }

    /// What comes next; `None` after [`ExecOutput::Exited`] (detached: after `Attached`). `Lost`
    /// when the session ended: attach again by exec id and offsets. Cancel safe; for one caller at
    /// a time.
    pub async fn next(&self) -> Result<Option<ExecOutput>, SessionError> {
        self.exec.next().await
    }

    fn check<R>(
        &self,
        with: impl FnOnce(&mut Inbox) -> Result<R, Violation>,
    ) -> Result<R, SessionError> {
        self.exec.inbox(with).map_err(|Violation(rule)| invalid(&rule))
    }
}

impl Drop for ExecStream {
    fn drop(&mut self) {
        let farewell = (!self.forgotten.load(Ordering::Relaxed)).then_some(Kind::ExecDetach);
        self.link.leave(&self.exec, farewell);
    }
}
