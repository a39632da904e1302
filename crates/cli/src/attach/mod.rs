//! Attached to a process in a sandbox: `exec`'s own, or the main command for `run`.
//!
//! ```text
//! stdin thread ─► Input (kept until acknowledged) ─► outbox ─► gateway
//! gateway ─► Output (stdout, stderr) ─► written ─► acknowledged
//! signals, terminal size ─► outbox
//! ```
//! The streams have offsets. When the connection breaks, or the gateway itself is gone for a while,
//! the next connection goes on exactly there: no byte is lost and none comes twice. What the reader
//! of our stdout does not take is not acknowledged, so the process inside has to wait for it.

mod detached;
mod input;
mod leave;
mod lifeline;
mod output;
mod session;
mod signals;
mod state;

use std::time::Duration;

use sandkeep_proto::v1::{ExecAttach, ExecIn, ExecOpen, Exit, exec_in};
use tokio::time::{Instant, sleep};

use crate::client::{Gateway, plain_os_words};
use crate::error::{Failure, exit};
use crate::progress::Progress;
use crate::render;
use crate::wait::reconnect_until;

pub(crate) use detached::begin;
use leave::LeaveKeys;
use lifeline::Fate;
pub(crate) use lifeline::Lifeline;
use session::Session;
use state::State;

/// How long a broken connection is tried to be made again. The command itself is in no danger all
/// that time.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two attempts to attach again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How long the record may take to tell how a run ended that cannot be attached to any more, and
/// the streams to come back once the record tells it.
const SETTLE: Duration = Duration::from_secs(10);
/// So many executions of the main command may come and go while a connection is made again.
const RESTARTS_TRIED: u32 = 8;
/// The reason of a gateway whose supervisor goes on without a client that takes nothing.
const FELL_BEHIND: &str = "FellBehind";
/// What is quicker needs no progress shown: stderr belongs to the command.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);

/// Which process.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A new one; opening it twice starts it once, by its id.
    Exec(ExecOpen),
    /// The main command.
    Main {
        /// The sandbox's id.
        sandbox: String,
        /// Which run of it.
        run: u64,
        /// How often it was begun again within that run; begin with 0.
        restart: u32,
    },
}

impl Target {
    /// What is typed to go away from it; `None`: every key is its own.
    fn leave_keys(&self) -> Option<LeaveKeys> {
        match self {
            Self::Main { .. } => Some(LeaveKeys::default()),
            Self::Exec(_) => None,
        }
    }
}

/// How to be attached.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// To whom.
    pub(crate) target: Target,
    /// Stdin is forwarded.
    pub(crate) stdin: bool,
    /// The process has a terminal: ours becomes it.
    pub(crate) tty: bool,
    /// Show no progress.
    pub(crate) quiet: bool,
    /// Longest time to wait until the process is there; `None`: no limit.
    pub(crate) start_timeout: Option<Duration>,
    /// What becomes of the sandbox meanwhile; `None`: not watched.
    pub(crate) lifeline: Option<Lifeline>,
}

/// How it ended, seen from here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// The process has ended.
    Exited(Exit),
    /// The user went away from it, by a second Ctrl-C.
    Detached,
    /// The user did not want to wait until it was there.
    NotBegun,
    /// This program's terminal is gone; the process goes on.
    HungUp,
}

/// How one connection ended.
enum Broken {
    /// And everything with it.
    Ended(Ending),
    /// The record says that there will be no result.
    Lost(Failure),
    /// It broke, or attaching was refused.
    Failed(Failure),
}

impl Attachment {
    /// Stays attached until the process ends or the user goes away.
    ///
    /// # Errors
    /// When attaching is refused, the process is lost with its sandbox, or the gateway stays away
    /// for longer than ten minutes.
    pub(crate) async fn stay(mut self, gateway: &mut Gateway) -> Result<Ending, Failure> {
        let progress = Progress::after(self.quiet, PROGRESS_AFTER);
        let leave_keys = self.target.leave_keys();
        let mut state =
            State::new(self.stdin, self.tty, leave_keys, progress).map_err(|error| {
                Failure::new(
                    exit::SANDKEEP,
                    "nothing was attached",
                    plain_os_words(&error),
                    "close other programs and try again",
                )
            })?;
        if let Some(timeout) = self.start_timeout {
            state.start_within(timeout);
        }
        let ending = self.stay_in(gateway, &mut state).await;
        state.give_terminal_back();
        match (ending?, state.write_failure()) {
            (Ending::Exited(_), Some(error)) => Err(Failure::new(
                exit::SANDKEEP,
                "the output was not written",
                plain_os_words(&error),
                "look at where stdout and stderr go",
            )),
            (ending, _) => Ok(ending),
        }
    }

    async fn stay_in(
        &mut self,
        gateway: &mut Gateway,
        state: &mut State,
    ) -> Result<Ending, Failure> {
        let what = self.what();
        let mut give_up_at = None;
        loop {
            let first = self.first_message(state);
            let session = Session { state, lifeline: self.lifeline.as_mut(), what: &what };
            let failure = match session.run(gateway, first).await {
                Broken::Ended(ending) => return Ok(ending),
                Broken::Lost(failure) => return Err(failure),
                Broken::Failed(failure) => failure,
            };
            if state.progressed() {
                give_up_at = None;
            }
            if failure.reason == FELL_BEHIND {
                self.say_fell_behind();
                if let Some(ending) = state.catch_up().await {
                    return Ok(ending);
                }
                continue;
            }
            let deadline = *give_up_at.get_or_insert_with(|| Instant::now() + PATIENCE);
            if failure.transport {
                state.show("the gateway is gone; waiting for it (the command goes on)");
            }
            let patience = async {
                if failure.transport {
                    reconnect_until(gateway, deadline, failure).await
                } else {
                    Err(failure)
                }
            };
            let outcome = tokio::select! {
                outcome = patience => outcome,
                () = state.leave_requested() => return Err(given_up(&what)),
            };
            if let Err(failure) = outcome
                && let Some(ending) = self.refused(failure, state, deadline).await?
            {
                return Ok(ending);
            }
        }
    }

    /// Nobody took the output for so long that the command goes on without us.
    fn say_fell_behind(&self) {
        let name = self.lifeline.as_ref().map_or("NAME", |lifeline| lifeline.name());
        render::message(&format!(
            "the output is not taken, so the command goes on without it; see: sandkeep logs {name}"
        ));
    }

    /// Attaching was refused: what that means, by the sandbox's record if it is watched. `None`:
    /// it is worth another try.
    async fn refused(
        &mut self,
        failure: Failure,
        state: &mut State,
        deadline: Instant,
    ) -> Result<Option<Ending>, Failure> {
        let mut passing = matches!(failure.exit, exit::UNREACHABLE | exit::TIMED_OUT);
        if let Some(lifeline) = &mut self.lifeline {
            let revived = failure.exit == exit::NOT_FOUND && lifeline.is_revived();
            let patience = if passing || revived { Duration::ZERO } else { SETTLE };
            match lifeline.final_fate(patience).await {
                Some(Fate::Lost(lost)) => return Err(lost),
                Some(Fate::Ended(exit)) if !passing || state.waited_for_end(SETTLE) => {
                    let log = format!("sandkeep logs {}", lifeline.name());
                    render::message(&format!("the end of the output was missed; see: {log}"));
                    return Ok(Some(Ending::Exited(exit)));
                }
                _ => {}
            }
            if revived {
                self.look_for_next_execution(state);
                passing = true;
            }
        }
        let known = state.was_attached() || self.lifeline.is_some();
        if !passing || !known || Instant::now() >= deadline {
            return Err(self.explained(failure, state));
        }
        tokio::select! {
            () = sleep(RETRY_PAUSE) => Ok(None),
            () = state.leave_requested() => Err(given_up(&self.what())),
        }
    }

    /// The main command was lost and is begun again, with a name of its own: which of the next it
    /// is, is tried out, over and over, as it may not have begun yet.
    fn look_for_next_execution(&mut self, state: &mut State) {
        let Target::Main { restart, .. } = &mut self.target else { return };
        let reached = state.begin_again_after_restart(*restart);
        *restart = if *restart < reached + RESTARTS_TRIED { *restart + 1 } else { reached + 1 };
    }

    /// A process that was there and is not any more went with its sandbox's backing.
    fn explained(&self, failure: Failure, state: &State) -> Failure {
        match &self.target {
            Target::Exec(open) if state.was_attached() && failure.exit == exit::NOT_FOUND => {
                let name = &open.sandbox;
                Failure::new(
                    exit::SANDKEEP,
                    format!("the command in sandbox \"{name}\" was lost"),
                    "it ended with the sandbox's backing, or its result was kept no longer",
                    format!("see what happened: sandkeep explain {name}"),
                )
            }
            _ => failure,
        }
    }

    /// The first message of the next connection.
    fn first_message(&self, state: &State) -> ExecIn {
        let (stdout_offset, stderr_offset) = state.offsets();
        let attach = |sandbox: &str, exec_id: &str| {
            exec_in::Message::Attach(ExecAttach {
                sandbox: sandbox.to_owned(),
                exec_id: exec_id.to_owned(),
                stdout_offset,
                stderr_offset,
            })
        };
        let message = match &self.target {
            Target::Exec(open) if !state.was_attached() => exec_in::Message::Open(open.clone()),
            Target::Exec(open) => attach(&open.sandbox, &open.exec_id),
            Target::Main { sandbox, run, restart: 0 } => attach(sandbox, &format!("main-{run}")),
            Target::Main { sandbox, run, restart } => {
                attach(sandbox, &format!("main-{run}-{restart}"))
            }
        };
        ExecIn { message: Some(message) }
    }

    fn what(&self) -> String {
        match &self.target {
            Target::Exec(open) => format!("the command in sandbox \"{}\"", open.sandbox),
            Target::Main { .. } => "the sandbox's command".to_owned(),
        }
    }
}

fn given_up(what: &str) -> Failure {
    Failure::new(
        exit::INTERRUPTED,
        format!("the connection to {what} was given up"),
        "it broke, and Ctrl-C ended the attempts to make it again",
        "the command goes on if its sandbox is well; see: sandkeep list",
    )
}
