//! Starting processes: execs for clients, and the main command.

use sandkeep_frames::Kind;
use sandkeep_frames::message::{Go, Process};

use super::Supervisor;
use super::dispatch::as_detached;
use crate::clock::now_ms;
use crate::exec::Exec;
use crate::exec::plan::NotStarted;
use crate::exec::spawn::spawn;
use crate::main_command::{Execution, REPLACE_GRACE_MS, Verdict};
use crate::poller::Token;
use crate::signals::signal_group;

const LONGEST_ID: usize = 63;

impl Supervisor {
    /// Starts an exec under a new id. The error is a word and a sentence.
    pub(super) fn start_exec(
        &mut self,
        id: &str,
        process: Process,
        detached: bool,
    ) -> Result<u32, (&'static str, String)> {
        if !is_exec_id(id) {
            return Err(("InvalidArgument", "not an exec id".to_owned()));
        }
        if self.stopping.is_some() {
            return Err(("Exhausted", "the sandbox is stopping".to_owned()));
        }
        if !self.execs.has_room() {
            return Err(("Exhausted", "too many processes are running".to_owned()));
        }
        let process = if detached { as_detached(process) } else { process };
        let mut exec = self.start(id.to_owned(), &process).map_err(|error| match error {
            NotStarted::Invalid(message) => ("InvalidArgument", message),
            NotStarted::Exhausted(message) | NotStarted::Failed { message, .. } => {
                ("Exhausted", message)
            }
        })?;
        exec.log = process.keep_output.then(|| id.to_owned());
        if let Some(log) = &exec.log {
            self.spool.open(&self.state, log, now_ms());
        }
        Ok(self.keep(exec))
    }

    /// The gateway says: run the main command.
    pub(super) fn go(&mut self, go: Go) {
        match self.main.judge(&go, self.session.incarnation, self.results.last()) {
            Verdict::Ignore => return,
            Verdict::Start if self.stopping.is_none() => {
                let running = self.main.current.and_then(|current| current.exec);
                let pid = running.and_then(|key| self.execs.peek(key)).and_then(Exec::pid);
                match pid {
                    Some(pid) => {
                        signal_group(pid, libc::SIGTERM);
                        self.main.kill_at_ms.get_or_insert_with(|| now_ms() + REPLACE_GRACE_MS);
                        self.main.waiting = Some(go);
                    }
                    None => self.start_main(go),
                }
            }
            Verdict::Start | Verdict::Answer => {}
        }
        self.tell_main_state();
    }

    /// Starts the execution that waited for the end of the one before.
    pub(super) fn start_waiting_main(&mut self) {
        self.main.kill_at_ms = None;
        if let Some(go) = self.main.waiting.take() {
            self.start_main(go);
            self.tell_main_state();
        }
    }

    pub(super) fn tell_main_state(&mut self) {
        if self.session.is_live() {
            let state = self.main_state();
            self.session.send(Kind::MainState, 0, &state);
        }
    }

    fn start_main(&mut self, go: Go) {
        if let Some(before) = self.main.current.and_then(|current| current.exec) {
            self.drop_exec(before);
        }
        let mut execution =
            Execution { run: go.run, restart: go.restart, incarnation: go.incarnation, exec: None };
        self.main.current = Some(execution);
        let process = go.process.unwrap_or_default();
        if process.argv.is_empty() {
            return;
        }
        let id = execution.exec_id();
        let mut exec = self.start(id.clone(), &process).unwrap_or_else(|error| {
            let (code, reason) = match error {
                NotStarted::Failed { code, message } => (code, message),
                NotStarted::Invalid(message) | NotStarted::Exhausted(message) => (126, message),
            };
            Exec::failed(id, code, reason, self.wall_ms())
        });
        self.spool.complete_other_runs(&execution.log());
        self.spool.open(&self.state, &execution.log(), now_ms());
        exec.log = Some(execution.log());
        exec.is_main = true;
        let key = self.keep(exec);
        execution.exec = Some(key);
        self.main.current = Some(execution);
        self.record_main_result(key);
    }

    /// A process that cannot be run in this sandbox has ended at once; others are an error.
    fn start(&mut self, id: String, process: &Process) -> Result<Exec, NotStarted> {
        match spawn(process, &self.limits) {
            Ok(spawned) => Ok(Exec::started(id, process, spawned, now_ms())),
            Err(NotStarted::Failed { code, message }) => {
                Ok(Exec::failed(id, code, message, self.wall_ms()))
            }
            Err(error) => Err(error),
        }
    }

    /// Puts an exec in the table and watches its streams.
    fn keep(&mut self, exec: Exec) -> u32 {
        let key = self.execs.insert(exec);
        let Some(exec) = self.execs.get(key) else {
            return key;
        };
        let poller = &self.poller;
        let watch = |fd: Option<&std::os::fd::OwnedFd>, channel| {
            // Only a lack of kernel memory can refuse this; the stream is then read at other
            // events, late but whole.
            drop(fd.map(|fd| poller.watch(fd, Token::Exec(key, channel))));
        };
        watch(exec.input.fd(), sandkeep_frames::message::Channel::Stdin);
        for output in &exec.outputs {
            watch(output.fd(), output.channel);
        }
        key
    }
}

/// `[a-z0-9-]{1,63}`, and not a name of the main command.
fn is_exec_id(id: &str) -> bool {
    let letters = id.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    letters && (1..=LONGEST_ID).contains(&id.len()) && !id.starts_with("main-")
}
