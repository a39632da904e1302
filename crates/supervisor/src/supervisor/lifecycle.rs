//! Ends: of children, of execs, of the main command, and of PID 1 itself when it is told to stop.

use sandkeep_frames::Kind;
use sandkeep_frames::message::{Channel, ExecAttached};

use super::Supervisor;
use crate::clock::now_ms;
use crate::exec::Exec;
use crate::reap;
use crate::signals::{Arrived, signal_group};

/// How long PID 1 stays after everything has ended, so that the gateway hears of it. What it does
/// not hear is kept in the state directory.
const LAST_WORDS_MS: u64 = 1000;

/// Children reaped before other work has its turn.
const REAPED_AT_ONCE: usize = 256;

/// It was told to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopping {
    /// Set once everything has ended.
    pub(super) exit_at_ms: Option<u64>,
}

impl Supervisor {
    /// A stream of an exec may be read or written again.
    pub(super) fn note_exec(&mut self, key: u32, channel: Channel) {
        self.lingering.note(key, channel);
        let Some(exec) = self.execs.get(key) else {
            return;
        };
        if channel == Channel::Stdin {
            exec.input.ready = true;
        } else if let Some(output) = exec.output(channel) {
            output.ready = true;
        }
    }

    pub(super) fn take_signals(&mut self) {
        let arrived = if std::mem::take(&mut self.signals_pending) {
            self.signals.take()
        } else {
            Arrived::default()
        };
        self.signals_pending = arrived.more;
        self.children_ended |= arrived.child;
        if self.children_ended {
            self.reap();
        }
        if arrived.stop && self.stopping.is_none() {
            self.stop();
        }
    }

    /// Takes ended children. Orphans that came to PID 1 need no more than that.
    fn reap(&mut self) {
        let (now, wall) = (now_ms(), self.wall_ms());
        for _ in 0..REAPED_AT_ONCE {
            let Some(ended) = reap::next_ended() else {
                self.children_ended = false;
                return;
            };
            let Some(key) = self.execs.take_pid(ended.pid) else {
                continue;
            };
            if let Some(exec) = self.execs.get(key) {
                exec.ended(ended, now, wall);
            }
            self.record_main_result(key);
        }
    }

    /// If the exec is the main command and has ended: keep that, and say it.
    pub(super) fn record_main_result(&mut self, key: u32) {
        let current = self.main.current.filter(|current| current.exec == Some(key));
        if current.is_none() || self.execs.peek(key).is_none_or(|e| e.process_exit().is_none()) {
            return;
        }
        let result = self.main_state();
        self.results.record(&self.state, result, now_ms());
        // On a full disk a result is worth more than lines of a log.
        while self.results.is_unwritten() && self.spool.make_room(&self.state) {
            self.results.write(&self.state, now_ms());
        }
        self.tell_main_state();
        self.start_waiting_main();
    }

    /// Asks everything to end: the main command and all execs, with whatever is in their groups.
    fn stop(&mut self) {
        self.stopping = Some(Stopping { exit_at_ms: None });
        self.main.waiting = None;
        for (_, exec) in self.execs.iter() {
            let Some(pid) = exec.pid() else {
                continue;
            };
            signal_group(pid, libc::SIGTERM);
            if exec.is_terminal() {
                // Interactive shells ignore the first, and end when their terminal goes.
                signal_group(pid, libc::SIGHUP);
            }
            // A stopped process hears nothing else.
            signal_group(pid, libc::SIGCONT);
        }
    }

    /// Everything has ended, and the gateway knows it or has had its time.
    pub(super) fn is_done(&mut self) -> bool {
        let Some(stopping) = &mut self.stopping else {
            return false;
        };
        if self.execs.iter().any(|(_, exec)| exec.pid().is_some()) {
            return false;
        }
        self.spool.complete_all();
        let now = now_ms();
        let exit_at = *stopping.exit_at_ms.get_or_insert(now + LAST_WORDS_MS);
        let untold = |exec: &Exec| exec.stream.is_some() && !exec.exit_sent;
        let told = !self.results.is_news()
            && self.spool.is_shipped()
            && self.session.is_flushed()
            && !self.execs.iter().any(|(_, exec)| untold(exec));
        now >= exit_at || !self.session.is_live() || told
    }

    /// Cuts streams that others hold, forgets what is to be forgotten, keeps promises of time.
    pub(super) fn look_after_execs(&mut self) {
        let now = now_ms();
        self.results.retry(&self.state, now);
        if self.main.kill_at_ms.is_some_and(|at| now >= at) {
            self.main.kill_at_ms = None;
            let running = self.main.current.and_then(|current| current.exec);
            if let Some(pid) = running.and_then(|key| self.execs.peek(key)).and_then(Exec::pid) {
                signal_group(pid, libc::SIGKILL);
            }
        }
        self.leave_stalled_clients(now);
        for (key, exec) in self.execs.iter_mut() {
            let held = exec.cut_held_streams(now);
            let is_terminal = exec.is_terminal();
            for (channel, fd) in held.into_iter().filter(|_| !is_terminal) {
                self.lingering.take(key, channel, fd, exec.log.clone().filter(|_| exec.is_main));
            }
        }
        for (_, exec) in self.execs.iter_mut() {
            // The main command's log goes on with its next execution, and with what it left behind.
            if exec.exited().is_some()
                && !exec.is_main
                && let Some(log) = exec.log.take()
            {
                self.spool.complete(&log);
            }
        }
        let forgotten = |exec: &Exec| exec.forgotten && exec.exited().is_some();
        let mut gone: Vec<u32> =
            self.execs.iter().filter(|(_, exec)| forgotten(exec)).map(|(key, _)| key).collect();
        gone.extend(self.execs.surplus());
        for key in gone {
            self.drop_exec(key);
        }
    }

    /// A client that takes nothing does not stop the main command for good: it is told that it
    /// has fallen behind, and comes back once it can take more.
    fn leave_stalled_clients(&mut self, now: u64) {
        for (_, exec) in self.execs.iter_mut() {
            let Some(stream) = exec.leave_stalled_client(now) else {
                continue;
            };
            self.session.streams.remove(&stream);
            let answer = ExecAttached {
                refused: "FellBehind".to_owned(),
                message: "its output was not taken, so the command goes on without it".to_owned(),
                ..ExecAttached::default()
            };
            self.session.send(Kind::ExecAttached, stream, &answer);
        }
    }

    /// Forgets an exec.
    pub(super) fn drop_exec(&mut self, key: u32) {
        if let Some(stream) = self.execs.remove(key).and_then(|exec| exec.stream) {
            self.session.streams.remove(&stream);
        }
    }
}
