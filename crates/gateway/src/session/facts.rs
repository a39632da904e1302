//! What is known of one sandbox's session, for the reconciler: written by the keeper, read by all.
//!
//! Every write names the epoch it was made for. `want` and `release` begin a new epoch, so a
//! keeper that has not noticed yet that it is over can no longer say anything.

use std::fmt;
use std::sync::{Arc, Mutex};

use sandkeep_core::{
    MainStatus, RunResult, SandboxId, Session, SessionNotes, SessionRefused, Timestamp,
};
use sandkeep_frames::message::{Exited, MainState};

use crate::clock::Clock;
use crate::session::exec::ExecExit;
use crate::session::hub::Wake;
use crate::session::link::Link;
use crate::session::lock;

/// Longest text taken from a supervisor into a record, in bytes.
const TEXT_BYTES: usize = 1024;

/// A supervisor's clock may be ahead of ours by this much; beyond, ours is taken.
const CLOCK_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;

/// What is known of one sandbox's session.
pub(crate) struct Facts {
    id: SandboxId,
    clock: Arc<dyn Clock>,
    wake: Wake,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    epoch: u64,
    session: Session,
    notes: SessionNotes,
    link: Option<Arc<Link>>,
    result: Option<RunResult>,
    /// Newest (run, restart) whose result is stored, as far as this process was told.
    stored: Option<(u64, u32)>,
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Facts {
    /// Nothing is known.
    pub(crate) fn new(id: SandboxId, clock: Arc<dyn Clock>, wake: Wake) -> Self {
        Self { id, clock, wake, inner: Mutex::default() }
    }

    /// Whose.
    pub(crate) fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Begins a new epoch without a session. A result that is not stored yet is kept.
    pub(crate) fn new_epoch(&self) -> u64 {
        let (epoch, old) = {
            let mut inner = lock(&self.inner);
            inner.epoch += 1;
            inner.session = Session::None;
            inner.notes = SessionNotes::default();
            (inner.epoch, inner.link.take())
        };
        if let Some(link) = old {
            link.close();
        }
        epoch
    }

    /// As the reconciler sees it.
    pub(crate) fn session(&self) -> Session {
        lock(&self.inner).session.clone()
    }

    /// What else was told.
    pub(crate) fn notes(&self) -> SessionNotes {
        lock(&self.inner).notes.clone()
    }

    /// The live session.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        lock(&self.inner).link.clone()
    }

    /// The newest result that is not stored.
    pub(crate) fn result(&self) -> Option<RunResult> {
        lock(&self.inner).result.clone()
    }

    /// The result of this execution is durable. Gives the session to tell it to.
    pub(crate) fn result_stored(&self, run: u64, restart: u32) -> Option<Arc<Link>> {
        let mut inner = lock(&self.inner);
        inner.stored = inner.stored.max(Some((run, restart)));
        if inner.result.as_ref().is_some_and(|held| (held.run, held.restart) <= (run, restart)) {
            inner.result = None;
        }
        inner.link.clone()
    }

    /// A session was agreed upon, in whose `Hello` the supervisor said this of the main command,
    /// and named these guards as missing.
    pub(crate) fn connected(
        &self,
        epoch: u64,
        link: &Arc<Link>,
        main: &MainState,
        missing_guards: Vec<String>,
    ) -> Connected {
        let now = self.clock.now();
        let incarnation = link.incarnation;
        let mut answer = Connected::TooLate;
        self.update(epoch, |inner| {
            inner.link = Some(Arc::clone(link));
            inner.notes.missing_guards = Some(missing_guards);
            let (probed_at, main_status) = (None, MainStatus::Waiting);
            inner.session =
                Session::Connected { incarnation, since: now, probed_at, main: main_status };
            // In the same breath: nobody may see a running command as one that waits.
            let told = inner.main_state(main, now);
            answer = Connected::Yes { result_is_stored: told.result_is_stored };
            Some(())
        });
        answer
    }

    /// One side did not want the session, or could not make sense of the other.
    pub(crate) fn refused(&self, epoch: u64, message: String) {
        let since = self.clock.now();
        self.update(epoch, |inner| {
            if inner.notes.refused.as_ref().is_some_and(|before| before.message == message) {
                return None;
            }
            inner.notes.refused = Some(SessionRefused { message, since });
            Some(())
        });
    }

    /// The session ended; gives the link that is over.
    pub(crate) fn lost(&self, epoch: u64) -> Option<Arc<Link>> {
        let since = self.clock.now();
        self.update(epoch, |inner| {
            let link = inner.link.take()?;
            inner.session = Session::Lost { since };
            Some(link)
        })
    }

    /// A round trip was answered (`true`) or missed. Only a change wakes the reconciler.
    pub(crate) fn probed(&self, epoch: u64, answered: bool) {
        let now = answered.then(|| self.clock.now());
        self.update(epoch, |inner| {
            let Session::Connected { probed_at, .. } = &mut inner.session else {
                return None;
            };
            let before = std::mem::replace(probed_at, now);
            if answered {
                // It stands: whatever was refused before is mended.
                inner.notes.refused = None;
            }
            (before.is_some() != answered).then_some(())
        });
    }

    /// What the supervisor says of the main command. True: it offers a result that is stored
    /// already, and has to be told so.
    pub(crate) fn main_state(&self, epoch: u64, state: &MainState) -> bool {
        let now = self.clock.now();
        let mut told = Told::default();
        self.update(epoch, |inner| {
            told = inner.main_state(state, now);
            told.news.then_some(())
        });
        told.result_is_stored
    }

    /// Changes something in this epoch, and wakes the reconciler if `change` gives `Some`.
    /// `None` also when the epoch is over.
    fn update<R>(&self, epoch: u64, change: impl FnOnce(&mut Inner) -> Option<R>) -> Option<R> {
        let changed = {
            let mut inner = lock(&self.inner);
            if inner.epoch != epoch {
                return None;
            }
            change(&mut inner)
        };
        if changed.is_some() {
            (self.wake)(&self.id);
        }
        changed
    }
}

impl Inner {
    fn main_state(&mut self, state: &MainState, now: Timestamp) -> Told {
        let mut told = Told::default();
        let Session::Connected { incarnation, main, .. } = &mut self.session else {
            return told;
        };
        // No run at all, or one of a future life: nothing of ours.
        if state.run == 0 || state.incarnation > *incarnation {
            return told;
        }
        let stored = self.stored >= Some((state.run, state.restart));
        if state.incarnation == *incarnation {
            let next = main_status(state, stored);
            // Within one life (run, restart) only rises, and what has ended has ended.
            if rank(main) < rank(&next) {
                *main = next;
                told.news = true;
            }
        }
        let Some(exited) = &state.exited else {
            return told;
        };
        told.result_is_stored = stored;
        let held = self.result.as_ref().map(|held| (held.run, held.restart));
        if !stored && held < Some((state.run, state.restart)) {
            self.result = Some(run_result(state, exited, now));
            told.news = true;
        }
        told
    }
}

/// What one word on the main command brought.
#[derive(Default)]
struct Told {
    news: bool,
    result_is_stored: bool,
}

/// Whether a session came in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connected {
    /// It is the session now.
    Yes {
        /// `Hello` offers a result that is stored already: the supervisor has to be told.
        result_is_stored: bool,
    },
    /// Its epoch is over.
    TooLate,
}

fn rank(main: &MainStatus) -> Option<(u64, u32, bool)> {
    match main {
        MainStatus::Waiting => None,
        MainStatus::Running { run, restart } => Some((*run, *restart, false)),
        MainStatus::Ended { run, restart } => Some((*run, *restart, true)),
    }
}

fn main_status(state: &MainState, stored: bool) -> MainStatus {
    let (run, restart) = (state.run, state.restart);
    if state.exited.is_some() || stored {
        MainStatus::Ended { run, restart }
    } else {
        MainStatus::Running { run, restart }
    }
}

fn run_result(state: &MainState, exited: &Exited, now: Timestamp) -> RunResult {
    let exit = exec_exit(exited, now);
    RunResult {
        run: state.run,
        restart: state.restart,
        incarnation: state.incarnation,
        code: exit.code,
        signal: exit.signal,
        oom: exit.oom,
        finished_at: exit.finished_at,
        spawn_error: exit.spawn_error,
    }
}

/// A supervisor's word on how a process ended, within what can be.
pub(crate) fn exec_exit(exited: &Exited, now: Timestamp) -> ExecExit {
    let latest = now.as_millis().saturating_add(CLOCK_AHEAD_MS);
    let finished_at = match exited.finished_at_ms {
        0 => now,
        at if at > latest => now,
        at => Timestamp::from_millis(at),
    };
    ExecExit {
        code: exited.code.clamp(0, 255),
        signal: (1..=64).contains(&exited.signal).then_some(exited.signal),
        oom: exited.oom,
        finished_at,
        spawn_error: (!exited.spawn_error.is_empty()).then(|| cut(in_words(&exited.spawn_error))),
    }
}

/// Without the number that the standard library puts behind the words.
fn in_words(error: &str) -> &str {
    error.split_once(" (os error").map_or(error, |(words, _number)| words)
}

/// Text of a supervisor, of bounded length.
pub(crate) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES)].to_owned()
}
