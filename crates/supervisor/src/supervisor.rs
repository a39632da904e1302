//! The loop: wait, look at what happened, move bytes, write, wait again. One thread; nothing in it
//! may block, whatever a process or the gateway does.

mod dispatch;
mod flow;
mod lifecycle;
mod starting;

use std::io;

use sandkeep_frames::message::{ExecKnown, Hello, MainState};
use sandkeep_frames::{Kind, version};

use crate::clock::{now_ms, wall_ms};
use crate::exec::table::Table;
use crate::limits::ChildLimits;
use crate::lingering::Lingering;
use crate::main_command::MainCommand;
use crate::poller::{Poller, Token};
use crate::results::Results;
use crate::session::Session;
use crate::signals::Signals;
use crate::spool::Spool;
use crate::state_dir::StateDir;

/// What the process was given by its start.
#[derive(Debug)]
pub struct Given {
    /// Results and logs.
    pub state: StateDir,
    /// Opened before anything was started.
    pub signals: Signals,
    /// For children.
    pub limits: ChildLimits,
    /// The gateway's socket.
    pub socket: std::path::PathBuf,
    /// Guards that could not be put up.
    pub missing_guards: Vec<String>,
}

/// Everything that PID 1 knows.
#[derive(Debug)]
pub struct Supervisor {
    poller: Poller,
    signals: Signals,
    limits: ChildLimits,
    state: StateDir,
    session: Session,
    execs: Table,
    lingering: Lingering,
    main: MainCommand,
    results: Results,
    spool: Spool,
    missing_guards: Vec<String>,
    boot_nonce: u64,
    /// What the gateway's clock is ahead of this machine's; 0 if hardly.
    clock_lag_ms: i64,
    /// Signals may be read.
    signals_pending: bool,
    /// Perhaps some are not reaped yet.
    children_ended: bool,
    /// Number of the exec that was the last to send; the next one begins.
    first_turn: u32,
    /// Set once it was told to stop; by then it exits, whoever has not been told yet.
    stopping: Option<lifecycle::Stopping>,
}

impl Supervisor {
    /// Ready to run.
    pub fn new(given: Given) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.watch(given.signals.fd(), Token::Signals)?;
        // A state directory that cannot be read is as good as an empty one: the sandbox must start.
        let results = Results::load(&given.state).unwrap_or_default();
        let spool = Spool::load(&given.state).unwrap_or_default();
        Ok(Self {
            poller,
            signals: given.signals,
            limits: given.limits,
            state: given.state,
            session: Session::new(given.socket),
            execs: Table::default(),
            lingering: Lingering::default(),
            main: MainCommand::default(),
            results,
            spool,
            missing_guards: given.missing_guards,
            boot_nonce: random()?,
            clock_lag_ms: 0,
            signals_pending: true,
            children_ended: true,
            first_turn: 0,
            stopping: None,
        })
    }

    /// Runs until it was told to stop and everything has ended.
    pub fn run(&mut self) -> io::Result<()> {
        let mut busy = true;
        loop {
            let timeout = if busy { Some(0) } else { self.next_wake_in() };
            for event in self.poller.wait(timeout)? {
                match event.token {
                    Token::Signals => self.signals_pending = true,
                    Token::Session => self.session.note(event.readable, event.writable),
                    Token::Exec(key, channel) => self.note_exec(key, channel),
                    // Looked at with every turn.
                    Token::Start(_) => {}
                }
            }
            self.take_signals();
            self.keep_session();
            busy = self.receive();
            self.look_after_execs();
            self.tell_started();
            busy |= self.move_bytes();
            self.end_main_log();
            busy |= self.ship_logs();
            // Who had to wait for room in the queue is not woken by any event but this.
            let was_full = !self.session.takes_bulk();
            self.flush();
            busy |= was_full && self.session.takes_bulk();
            busy |= self.session.has_more() || self.children_ended || self.signals_pending;
            if self.is_done() {
                return Ok(());
            }
        }
    }

    /// Dials, greets, gives up a silent gateway.
    fn keep_session(&mut self) {
        let now = now_ms();
        if self.session.is_overdue(now) {
            self.lose_session();
        }
        if self.session.dial(&self.poller, now) {
            let hello = self.hello();
            self.session.send(Kind::Hello, 0, &hello);
        }
    }

    /// The connection is gone; clients may come back in the next session.
    fn lose_session(&mut self) {
        let now = now_ms();
        self.session.close(now);
        self.spool.end_session();
        for (_, exec) in self.execs.iter_mut() {
            exec.detach(now);
            exec.awaiting_start.clear();
        }
    }

    fn flush(&mut self) {
        if self.session.flush().is_err() {
            self.lose_session();
        }
    }

    fn hello(&self) -> Hello {
        let known = |exec: &crate::exec::Exec| ExecKnown {
            exec_id: exec.id.clone(),
            exited: exec.exited().cloned(),
        };
        Hello {
            oldest_version: version::OURS.oldest,
            newest_version: version::OURS.newest,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            boot_nonce: self.boot_nonce,
            main: Some(self.main_state()),
            execs: self.execs.iter().map(|(_, exec)| known(exec)).collect(),
            logs: self.spool.offers(),
            missing_guards: self.missing_guards.clone(),
        }
    }

    /// The main command now; before the first `go`, what an earlier PID 1 left.
    fn main_state(&self) -> MainState {
        let Some(current) = self.main.current else {
            return self.results.last().cloned().unwrap_or_default();
        };
        let exec = current.exec.and_then(|key| self.execs.peek(key));
        current.state(exec.and_then(|exec| exec.process_exit().cloned()))
    }

    /// Milliseconds until something is due. `None`: only events matter.
    fn next_wake_in(&self) -> Option<u64> {
        let now = now_ms();
        let execs = self.execs.iter().filter_map(|(_, exec)| exec.wakes_at(now));
        let others = [
            self.session.wakes_at(),
            self.results.wakes_at(),
            self.spool.wakes_at(now),
            self.main.kill_at_ms,
            self.stopping.and_then(|stopping| stopping.exit_at_ms),
        ];
        let next = execs.chain(others.into_iter().flatten()).min()?;
        // One more: waking a moment too early would only mean waking twice.
        Some(next.saturating_sub(now) + 1)
    }

    /// The time of day: the machine's, unless that was left behind and the gateway knows better.
    fn wall_ms(&self) -> u64 {
        wall_ms().saturating_add_signed(self.clock_lag_ms)
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the pointer and length are of one buffer.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if count != 8 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_le_bytes(bytes))
}
