//! One live session, shared between its task and everyone who talks through it.
//!
//! Nothing here waits for the peer: senders put into the outbox, the task writes it out; the task
//! puts into inboxes, clients take out. Both are bounded by windows, not by waiting, so the reader
//! of a session is never held up by one slow client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use prost::Message;
use sandkeep_frames::message::ExecAttached;
use sandkeep_frames::{Encoded, Kind};
use tokio::sync::{Notify, oneshot};

use crate::session::exec::{ExecOutput, ExecStream};
use crate::session::inbox::{Inbox, Violation};
use crate::session::lock;
use crate::session::outbox::{Batch, Full, Outbox, StreamOut};
use crate::sessions::SessionError;

/// Execs of one sandbox that may be attached at once; each may hold three windows of memory.
const ATTACHED_EXECS: usize = 256;

/// One live session.
#[derive(Debug)]
pub(crate) struct Link {
    /// Whose PID 1 it is.
    pub(crate) incarnation: u64,
    state: Mutex<State>,
    to_write: Notify,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    last_stream: u32,
    execs: HashMap<u32, Arc<Exec>>,
    outbox: Outbox,
}

/// One attached exec.
#[derive(Debug)]
pub(crate) struct Exec {
    /// Its number in this session.
    pub(crate) stream: u32,
    /// As the client named it.
    id: String,
    inbox: Mutex<Inbox>,
    readable: Notify,
}

impl Exec {
    /// Looks at or changes the inbox.
    pub(crate) fn inbox<R>(&self, with: impl FnOnce(&mut Inbox) -> R) -> R {
        with(&mut lock(&self.inbox))
    }

    /// What the client gets next. Cancel safe.
    pub(crate) async fn next(&self) -> Result<Option<ExecOutput>, SessionError> {
        loop {
            if let Some(next) = self.inbox(Inbox::pop) {
                return next;
            }
            self.readable.notified().await;
        }
    }

    fn put<R>(&self, with: impl FnOnce(&mut Inbox) -> R) -> R {
        let result = self.inbox(with);
        self.readable.notify_one();
        result
    }
}

impl Link {
    /// A session that has just been agreed upon.
    pub(crate) fn new(incarnation: u64) -> Arc<Self> {
        Arc::new(Self { incarnation, state: Mutex::default(), to_write: Notify::new() })
    }

    /// Opens a stream with this first frame.
    pub(crate) fn open(
        self: &Arc<Self>,
        kind: Kind,
        opening: &impl Message,
        exec_id: &str,
        inbox: Inbox,
    ) -> Result<ExecStream, SessionError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(SessionError::Lost);
        }
        if state.execs.len() >= ATTACHED_EXECS {
            let message = format!("{ATTACHED_EXECS} execs are attached already");
            return Err(SessionError::Refused { reason: "Exhausted".to_owned(), message });
        }
        let stream = state.free_stream();
        let frame = Encoded::message(kind, stream, opening).map_err(|error| invalid(&error))?;
        let exec = Arc::new(Exec {
            stream,
            id: exec_id.to_owned(),
            inbox: Mutex::new(inbox),
            readable: Notify::new(),
        });
        state.execs.insert(stream, Arc::clone(&exec));
        state.outbox.stream(stream).open(frame);
        drop(state);
        self.to_write.notify_one();
        Ok(ExecStream::new(Arc::clone(self), exec))
    }

    /// The exec is over for this session; `farewell` is the last frame on its stream, said once.
    pub(crate) fn leave(&self, exec: &Exec, farewell: Option<Kind>) {
        let mut state = lock(&self.state);
        let was_open = state.execs.remove(&exec.stream).is_some();
        if let Some(kind) = farewell.filter(|_| was_open) {
            state.outbox.stream(exec.stream).farewell(kind);
        }
        drop(state);
        self.to_write.notify_one();
    }

    /// Puts something on a stream.
    pub(crate) fn send(
        &self,
        exec: &Exec,
        with: impl FnOnce(&mut StreamOut),
    ) -> Result<(), SessionError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(SessionError::Lost);
        }
        with(state.outbox.stream(exec.stream));
        drop(state);
        self.to_write.notify_one();
        Ok(())
    }

    /// Puts something into the session's own part of the outbox.
    pub(crate) fn post<R>(&self, with: impl FnOnce(&mut Outbox) -> R) -> Option<R> {
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        let result = with(&mut state.outbox);
        drop(state);
        self.to_write.notify_one();
        Some(result)
    }

    /// Puts a frame of the session itself; the answer comes once it has been written.
    pub(crate) async fn write(&self, frame: Encoded) -> Result<(), SessionError> {
        let (written, was_written) = oneshot::channel();
        match self.post(|outbox| outbox.control(frame, Some(written))) {
            Some(Ok(())) => was_written.await.map_err(|_gone| SessionError::Lost),
            Some(Err(Full)) => Err(SessionError::Refused {
                reason: "Exhausted".to_owned(),
                message: "the supervisor has not read its orders for a long time".to_owned(),
            }),
            None => Err(SessionError::Lost),
        }
    }

    /// Waits until something is to be written, and moves it into `batch`.
    pub(crate) async fn to_write(&self, batch: &mut Batch) {
        loop {
            lock(&self.state).outbox.take(batch);
            if !batch.frames.is_empty() {
                return;
            }
            self.to_write.notified().await;
        }
    }

    /// Puts what came into the inbox of its exec. One that is gone, or over, takes nothing. An
    /// exec whose rules are broken is closed; the others go on.
    pub(crate) fn deliver(
        &self,
        stream: u32,
        with: impl FnOnce(&mut Inbox) -> Result<(), Violation>,
    ) {
        let Some(exec) = lock(&self.state).execs.get(&stream).cloned() else {
            return;
        };
        let broken = exec.put(|inbox| {
            if !inbox.is_open() {
                return false;
            }
            let Err(Violation(rule)) = with(inbox) else {
                return false;
            };
            inbox.fail(SessionError::Refused {
                reason: "Protocol".to_owned(),
                message: format!("the supervisor broke the rules: {rule}"),
            });
            true
        });
        if broken {
            self.leave(&exec, Some(Kind::ExecDetach));
        }
    }

    /// The answer to an opening. An exec has one client: the one before hears that it was replaced,
    /// since the supervisor sends it nothing any more.
    pub(crate) fn attached(&self, stream: u32, answer: ExecAttached) {
        let mut takes_over = false;
        self.deliver(stream, |inbox| {
            inbox.attached(answer)?;
            takes_over = inbox.is_open() && !inbox.is_detached();
            Ok(())
        });
        if !takes_over {
            return;
        }
        let replaced: Vec<_> = {
            let mut state = lock(&self.state);
            let Some(id) = state.execs.get(&stream).map(|exec| exec.id.clone()) else {
                return;
            };
            let of_id = |other: u32, exec: &Exec| other != stream && exec.id == id;
            state
                .execs
                .extract_if(|other, exec| of_id(*other, exec))
                .map(|(_, exec)| exec)
                .collect()
        };
        for exec in replaced {
            exec.put(|inbox| {
                inbox.fail(SessionError::Refused {
                    reason: "Replaced".to_owned(),
                    message: "another client has attached to it".to_owned(),
                });
            });
        }
    }

    /// The session is over: every exec learns it once it has taken what came before.
    pub(crate) fn close(&self) {
        let (execs, outbox) = {
            let mut state = lock(&self.state);
            state.closed = true;
            (std::mem::take(&mut state.execs), std::mem::take(&mut state.outbox))
        };
        // Dropped outside the lock: whoever waits for a frame to be written learns it here.
        drop(outbox);
        for exec in execs.into_values() {
            exec.put(|inbox| inbox.fail(SessionError::Lost));
        }
    }
}

impl State {
    /// A number that no attached exec has; never 0, which is the session itself.
    fn free_stream(&mut self) -> u32 {
        loop {
            self.last_stream = self.last_stream.wrapping_add(1);
            if self.last_stream != 0 && !self.execs.contains_key(&self.last_stream) {
                return self.last_stream;
            }
        }
    }
}

/// Something that the supervisor would not take.
pub(crate) fn invalid(why: &impl ToString) -> SessionError {
    SessionError::Refused { reason: "InvalidArgument".to_owned(), message: why.to_string() }
}
