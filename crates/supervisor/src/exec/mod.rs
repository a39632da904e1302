//! One process with its streams, from its start until a client has its exit code and forgets it.
//!
//! ```text
//!  running --child ended--> draining --output read or patience over--> ended --> forgotten
//!     '---- a client attaches, goes, attaches again, in each of these states ----'
//! ```

pub mod child;
pub mod input;
pub mod output;
pub mod plan;
pub mod spawn;
pub mod start;
pub mod table;
pub mod terminal;
pub mod window;

use std::mem;
use std::os::fd::{AsFd, OwnedFd};

use sandkeep_frames::message::{ATTACH_PATIENCE_MS, Channel, ExecAttached, Exited, Process};

use crate::reap::Ended;
use input::Input;
use output::Output;
use spawn::Spawned;
use start::Start;

/// How long output of background processes that hold the streams open still counts as the
/// process's own after it has ended. The exit is told then, whoever holds them (fault 22).
const DRAIN_MS: u64 = 100;

/// Output kept of a process that nobody is attached to and that does not wait for anybody.
const UNATTENDED_BYTES: usize = 64 * 1024;

/// Output kept for the client of a main command that went on without it: a window, as much as it
/// could have had under way. There is one main command, so this is held once.
const MISSED_BYTES: usize = 1024 * 1024;

/// One exec, or the main command.
#[derive(Debug)]
pub struct Exec {
    /// The client's name for it.
    pub id: String,
    /// Log that its output goes into; `None`: not kept.
    pub log: Option<String>,
    /// It is the main command, which is never forgotten for want of room.
    pub is_main: bool,
    /// Stream of the client that is attached, in this session.
    pub stream: Option<u32>,
    /// Stdin.
    pub input: Input,
    /// Stdout and, without a terminal, stderr.
    pub outputs: Vec<Output>,
    /// The exit was told on this attachment.
    pub exit_sent: bool,
    /// The client wants to hear nothing more.
    pub forgotten: bool,
    /// Streams of this session to be told once it is known whether the program runs.
    pub awaiting_start: Vec<u32>,
    /// What is to be told once the output is complete.
    exited: Option<Exited>,
    pid: i32,
    terminal: bool,
    waits_for_client: bool,
    unattended_since_ms: u64,
    /// Since when the client has taken nothing although output waits for it.
    stalled_since_ms: Option<u64>,
    ended_at_ms: u64,
    start: Start,
}

impl Exec {
    /// A process that was just started.
    pub fn started(id: String, process: &Process, spawned: Spawned, now_ms: u64) -> Self {
        let mut outputs = vec![Output::new(Channel::Stdout, Some(spawned.stdout))];
        outputs.extend(spawned.stderr.map(|fd| Output::new(Channel::Stderr, Some(fd))));
        Self {
            id,
            log: None,
            is_main: false,
            stream: None,
            input: Input::new(spawned.stdin, process.tty),
            outputs,
            exit_sent: false,
            forgotten: false,
            awaiting_start: Vec::new(),
            exited: None,
            pid: spawned.pid,
            terminal: process.tty,
            waits_for_client: process.attached,
            unattended_since_ms: now_ms,
            stalled_since_ms: None,
            ended_at_ms: 0,
            start: Start::Pending(spawned.failure),
        }
    }

    /// One that could not be started: it has ended already.
    pub fn failed(id: String, code: i32, reason: String, wall_ms: u64) -> Self {
        let exited =
            Exited { code, finished_at_ms: wall_ms, spawn_error: reason, ..Exited::default() };
        Self {
            id,
            log: None,
            is_main: false,
            stream: None,
            input: Input::new(None, false),
            outputs: vec![Output::new(Channel::Stdout, None), Output::new(Channel::Stderr, None)],
            exit_sent: false,
            forgotten: false,
            awaiting_start: Vec::new(),
            exited: Some(exited),
            pid: 0,
            terminal: false,
            waits_for_client: false,
            unattended_since_ms: 0,
            stalled_since_ms: None,
            ended_at_ms: 0,
            start: Start::Succeeded,
        }
    }

    /// Its pid; `None`: it has ended or was never started.
    pub fn pid(&self) -> Option<i32> {
        (self.pid > 0).then_some(self.pid)
    }

    /// It is known whether the program runs: it does, or the process has ended. One that could not
    /// be started counts only once its exit is known, too.
    pub fn is_started(&mut self) -> bool {
        self.pid == 0 || matches!(self.start.look(), Start::Succeeded)
    }

    /// Readable when there is news of its start.
    pub fn start_fd(&self) -> Option<impl AsFd + '_> {
        self.start.pending()
    }

    /// The terminal's master.
    pub fn terminal(&self) -> Option<impl AsFd + '_> {
        self.outputs.first().and_then(Output::fd).filter(|_| self.terminal)
    }

    /// It has a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How it ended, once its output is complete.
    pub fn exited(&self) -> Option<&Exited> {
        self.exited.as_ref().filter(|_| self.outputs.iter().all(Output::ended))
    }

    /// How the process itself ended, though output may follow.
    pub fn process_exit(&self) -> Option<&Exited> {
        self.exited.as_ref()
    }

    /// Bytes held for it.
    pub fn held(&self) -> usize {
        let output: usize = self.outputs.iter().map(|output| output.window.held()).sum();
        output + self.input.held()
    }

    /// The output stream of that channel.
    pub fn output(&mut self, channel: Channel) -> Option<&mut Output> {
        self.outputs.iter_mut().find(|output| output.channel == channel)
    }

    /// A client attaches, in place of any before.
    pub fn attach(&mut self, stream: u32, stdout: u64, stderr: u64) -> ExecAttached {
        self.stream = Some(stream);
        self.stalled_since_ms = None;
        self.exit_sent = false;
        let mut answer = ExecAttached {
            stdin_offset: self.input.received(),
            pid: u32::try_from(self.pid).unwrap_or(0),
            ..ExecAttached::default()
        };
        for output in &mut self.outputs {
            output.end_sent = false;
            match output.channel {
                Channel::Stderr => answer.stderr_offset = output.window.rewind(stderr),
                _ => answer.stdout_offset = output.window.rewind(stdout),
            }
        }
        answer
    }

    /// The client is gone, or its session.
    pub fn detach(&mut self, now_ms: u64) {
        self.stalled_since_ms = None;
        if self.stream.take().is_some() {
            self.unattended_since_ms = now_ms;
        }
    }

    /// Notes whether the client holds the process up: `full` says that a stream has no room.
    pub fn note_room(&mut self, full: bool, now_ms: u64) {
        let stalls = full && self.stream.is_some();
        self.stalled_since_ms = stalls.then(|| self.stalled_since_ms.unwrap_or(now_ms));
    }

    /// Goes on without a client that has held the main command up for the whole patience; gives
    /// its stream. An exec waits for its client for as long as that is there.
    pub fn leave_stalled_client(&mut self, now_ms: u64) -> Option<u32> {
        let until = self.patience_ends_ms()?;
        if now_ms < until {
            return None;
        }
        self.stalled_since_ms = None;
        // It has had its patience: output flows from now on.
        self.unattended_since_ms = now_ms.saturating_sub(ATTACH_PATIENCE_MS);
        self.stream.take()
    }

    fn patience_ends_ms(&self) -> Option<u64> {
        let since = self.stalled_since_ms.filter(|_| self.is_main)?;
        Some(since + ATTACH_PATIENCE_MS)
    }

    /// The kernel says that the process has ended.
    pub fn ended(&mut self, ended: Ended, now_ms: u64, wall_ms: u64) {
        let spawn_error = mem::replace(&mut self.start, Start::Succeeded).into_reason();
        self.pid = 0;
        self.ended_at_ms = now_ms;
        self.exited = Some(Exited {
            code: ended.code,
            signal: ended.signal,
            oom: false,
            finished_at_ms: wall_ms,
            spawn_error,
        });
        self.input.close();
        for output in &mut self.outputs {
            output.process_ended();
        }
    }

    /// Output flows on although no client takes it.
    pub fn flows_freely(&self, now_ms: u64) -> bool {
        let patience = if self.waits_for_client { ATTACH_PATIENCE_MS } else { 0 };
        self.stream.is_none() && now_ms >= self.unattended_since_ms + patience
    }

    /// How much may be read into a window now. `spare`: there is memory for full windows.
    pub fn room(&self, output: &Output, spare: bool, now_ms: u64) -> usize {
        if self.flows_freely(now_ms) {
            return sandkeep_frames::CHUNK_BYTES;
        }
        let room = output.window.room();
        if spare { room } else { room.min(UNATTENDED_BYTES.saturating_sub(output.window.held())) }
    }

    /// Keeps only the newest output if nobody waits for it.
    pub fn shed(&mut self, now_ms: u64) {
        let expected_back = self.is_main && self.waits_for_client;
        let kept = if expected_back { MISSED_BYTES } else { UNATTENDED_BYTES };
        if self.flows_freely(now_ms) {
            for output in &mut self.outputs {
                output.window.keep_last(kept);
            }
        }
    }

    /// Ends streams that somebody else holds open after the process's own end, and gives their
    /// descriptors: whoever writes there must not be killed for it.
    pub fn cut_held_streams(&mut self, now_ms: u64) -> Vec<(Channel, OwnedFd)> {
        let drained = self.exited.is_some() && now_ms >= self.ended_at_ms + DRAIN_MS;
        if !drained {
            return Vec::new();
        }
        let done = self.outputs.iter_mut().filter(|output| output.process_output_read());
        done.filter_map(|output| Some((output.channel, output.take_fd()?))).collect()
    }

    /// When to look again although nothing happens. `None`: never.
    pub fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        let draining = self.exited.is_some() && self.outputs.iter().any(|o| !o.ended());
        let drain = draining.then_some(self.ended_at_ms + DRAIN_MS).filter(|at| *at > now_ms);
        let waits = self.stream.is_none() && self.waits_for_client && !self.flows_freely(now_ms);
        let patience = waits.then_some(self.unattended_since_ms + ATTACH_PATIENCE_MS);
        let stall = self.patience_ends_ms().filter(|at| *at > now_ms);
        drain.into_iter().chain(patience).chain(stall).min()
    }
}

#[cfg(test)]
mod tests;
