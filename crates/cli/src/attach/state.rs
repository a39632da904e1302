//! What lives through all connections of an attachment: streams, signals, the terminal, and what is
//! still to be said.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::exec_out::Message as Out;
use sandkeep_proto::v1::{ExecAttached, Exit, Resize, StreamEnd};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Ending;
use super::input::Input;
use super::leave::{Leave, LeaveKeys};
use super::output::{Output, Report, Sink};
use super::signals::{BROKEN_PIPE, Event, Signals};
use crate::progress::Progress;
use crate::render;
use crate::terminal::{self, RawMode};

/// A command that ends by the second Ctrl-C is waited for so long before we go away from it.
const LEAVE_GRACE: Duration = Duration::from_millis(500);
/// What was written and is too little to be acknowledged at once is so after this time. A supervisor
/// that is short of memory gives windows of 64 KiB, which then still carry megabytes a second.
const ACK_AFTER: Duration = Duration::from_millis(10);

/// What lives through all connections.
#[derive(Debug)]
pub(super) struct State {
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    pub(super) wants_stdin: bool,
    pub(super) tty: bool,
    /// What is typed to go away from the process; `None`: every key is the process's.
    pub(super) leave_keys: Option<LeaveKeys>,
    pub(super) input: Option<Input>,
    pub(super) signals: Signals,
    pub(super) raw: Option<RawMode>,
    pub(super) progress: Progress,
    /// What is to be said on this connection.
    pub(super) outbox: VecDeque<In>,
    /// There was an answer, on any connection.
    pub(super) attached: bool,
    /// Something came on the latest connection.
    pub(super) progressed: bool,
    /// Another execution of the main command is looked for: the number of the one that is gone.
    pub(super) looking_since: Option<u32>,
    pub(super) exited: Option<Exit>,
    pub(super) leave_at: Option<Instant>,
    /// When to acknowledge what was written; `None`: all is acknowledged.
    pub(super) ack_at: Option<Instant>,
    /// Until when the process has to be there; `None`: no limit.
    pub(super) start_by: Option<Instant>,
    /// Since when the record has told the end that the streams have not.
    pub(super) ended_since: Option<Instant>,
}

impl State {
    /// Nothing has happened yet.
    pub(super) fn new(
        stdin: bool,
        tty: bool,
        leave_keys: Option<LeaveKeys>,
        progress: Progress,
    ) -> io::Result<Self> {
        let (sender, reports) = mpsc::unbounded_channel();
        Ok(Self {
            stdout: Output::new(Sink::Stdout, sender.clone()),
            stderr: Output::new(Sink::Stderr, sender),
            reports,
            wants_stdin: stdin,
            tty,
            leave_keys,
            input: None,
            signals: Signals::listen(tty)?,
            raw: None,
            progress,
            outbox: VecDeque::new(),
            attached: false,
            progressed: false,
            looking_since: None,
            exited: None,
            leave_at: None,
            ack_at: None,
            start_by: None,
            ended_since: None,
        })
    }

    /// The process has to be there within this time.
    pub(super) fn start_within(&mut self, timeout: Duration) {
        self.start_by = Some(Instant::now() + timeout);
    }

    /// Up to where stdout and stderr have come.
    pub(super) const fn offsets(&self) -> (u64, u64) {
        (self.stdout.offset(), self.stderr.offset())
    }

    /// There was an answer once: the process was started.
    pub(super) const fn was_attached(&self) -> bool {
        self.attached
    }

    /// Something came since this was asked last.
    pub(super) const fn progressed(&mut self) -> bool {
        std::mem::replace(&mut self.progressed, false)
    }

    /// The execution that the streams belong to is gone, and another is looked for, last tried
    /// under this number. Gives the number of the one that is gone.
    pub(super) fn begin_again_after_restart(&mut self, tried: u32) -> u32 {
        if let Some(gone) = self.looking_since {
            return gone;
        }
        self.looking_since = Some(tried);
        self.stdout.begin_again();
        self.stderr.begin_again();
        tried
    }

    /// The record tells the end: have the streams had this long to tell it, too?
    pub(super) fn waited_for_end(&mut self, long: Duration) -> bool {
        let now = Instant::now();
        now - *self.ended_since.get_or_insert(now) >= long
    }

    /// Shows what is waited for.
    pub(super) fn show(&mut self, text: &str) {
        self.progress.show(text);
    }

    /// Why the output could not be written, unless its reader had enough.
    pub(super) fn write_failure(&self) -> Option<io::Error> {
        let failures = [self.stdout.failure(), self.stderr.failure()];
        let failure = failures.into_iter().flatten().find(|e| *e != rustix::io::Errno::PIPE);
        failure.map(io::Error::from)
    }

    /// Waits until the user wants to go; signals meant for the process wait for the connection.
    pub(super) async fn leave_requested(&mut self) {
        loop {
            let event = tokio::select! {
                event = self.signals.next() => event,
                () = self.progress.due() => {
                    self.progress.flush();
                    continue;
                }
            };
            match event {
                Event::Leave | Event::HangUp => return,
                Event::Forward(_) if !self.attached => return,
                event => drop(self.on_signal(event)),
            }
        }
    }

    /// Gives the terminal back.
    pub(super) fn give_terminal_back(&mut self) {
        self.progress.clear();
        self.raw = None;
    }

    /// Waits until our reader has taken everything that came. Comes back before that to tell the
    /// process of a signal. `Some`: the user goes away.
    pub(super) async fn catch_up(&mut self) -> Option<Ending> {
        while !(self.stdout.is_drained() && self.stderr.is_drained()) {
            tokio::select! {
                Some(report) = self.reports.recv() => self.on_report(report),
                event = self.signals.next() => {
                    let ending = self.on_signal(event);
                    if ending.is_some() || matches!(event, Event::Forward(_)) {
                        return ending;
                    }
                }
            }
        }
        None
    }

    /// A new connection begins. What was for the last one is said anew, but for signals: nobody
    /// presses Ctrl-C again because of a connection.
    pub(super) fn begin_connection(&mut self) {
        self.outbox.retain(|message| matches!(message, In::Signal(_)));
        // The opening itself says up to where everything is here.
        self.ack_at = None;
    }

    pub(super) fn on_signal(&mut self, event: Event) -> Option<Ending> {
        match event {
            Event::Forward(_) if !self.attached => return Some(Ending::NotBegun),
            Event::Forward(signal) => self.outbox.push_back(In::Signal(signal)),
            Event::Leave => return Some(Ending::Detached),
            Event::HangUp => return Some(Ending::HungUp),
            Event::Resized => self.tell_size(),
            Event::Suspend => self.suspend(),
        }
        None
    }

    fn tell_size(&mut self) {
        if let Some(size) = terminal::size() {
            self.outbox.push_back(In::Resize(Resize { rows: size.rows, columns: size.columns }));
        }
    }

    /// Stops this program as Ctrl-Z would have, with the terminal as the user knows it.
    fn suspend(&mut self) {
        let was_raw = self.raw.take().is_some();
        let me = rustix::process::getpid();
        // From here on after the user has brought us back.
        let _stopped = rustix::process::kill_process(me, rustix::process::Signal::STOP);
        if was_raw {
            self.raw = RawMode::enter();
        }
        self.tell_size();
    }

    fn on_attached(&mut self, at: ExecAttached) {
        self.progress.clear();
        if self.looking_since.take().is_some() {
            render::message("the command was lost with its backing and runs again");
        }
        let dropped =
            [self.stdout.resume_at(at.stdout_offset), self.stderr.resume_at(at.stderr_offset)];
        let dropped: u64 = dropped.iter().sum();
        if self.attached && dropped > 0 {
            render::message(&format!("({dropped} bytes of output were dropped here)"));
        }
        if !self.attached {
            self.attached = true;
            if self.tty && self.wants_stdin {
                self.raw = RawMode::enter();
            }
            if self.wants_stdin {
                // Without a thread for it there is no stdin, which the process sees as its end.
                self.input = Input::start().ok();
            }
        }
        match &mut self.input {
            Some(input) => self.outbox.extend(input.resume_at(at.stdin_offset)),
            None if self.wants_stdin => {
                self.outbox.push_back(In::StdinEnd(StreamEnd { offset: 0 }));
            }
            None => {}
        }
        if self.tty {
            self.tell_size();
        }
    }

    pub(super) fn on_output(&mut self, message: Out) {
        self.progressed = true;
        match message {
            Out::Attached(at) => self.on_attached(at),
            Out::Stdout(data) => self.stdout.accept(data),
            Out::Stderr(data) => self.stderr.accept(data),
            Out::StdoutEnd(_) | Out::StderrEnd(_) => {}
            Out::StdinAck(ack) => {
                if let Some(input) = &mut self.input {
                    input.acknowledged(ack.offset);
                }
            }
            Out::Exited(exit) => self.exited = Some(exit),
        }
        self.after_writing();
    }

    pub(super) fn on_report(&mut self, report: Report) {
        let output = match report.sink {
            Sink::Stdout => &mut self.stdout,
            Sink::Stderr => &mut self.stderr,
        };
        output.reported(report.result);
        self.after_writing();
    }

    fn after_writing(&mut self) {
        for output in [&mut self.stdout, &mut self.stderr] {
            self.outbox.extend(output.ack_due().map(In::Ack));
            if output.failed_just_now() {
                // What the command alone would have got; what it does then is its own business.
                self.outbox.push_back(In::Signal(BROKEN_PIPE));
            }
        }
        if self.stdout.is_owing() || self.stderr.is_owing() {
            self.ack_at.get_or_insert_with(|| Instant::now() + ACK_AFTER);
        } else {
            self.ack_at = None;
        }
    }

    /// Acknowledges all that was written, however little.
    pub(super) fn acknowledge(&mut self) {
        self.ack_at = None;
        for output in [&mut self.stdout, &mut self.stderr] {
            self.outbox.extend(output.ack_now().map(In::Ack));
        }
    }

    pub(super) fn on_stdin(&mut self, message: In) {
        if let In::Stdin(data) = &message
            && self.tty
            && let Some(keys) = &mut self.leave_keys
        {
            match keys.typed(&data.data, Instant::now()) {
                // The command gets it, too, and a little time to end by it.
                Leave::IfItGoesOn => self.leave_at = Some(Instant::now() + LEAVE_GRACE),
                Leave::Now => {
                    self.leave_at = Some(Instant::now());
                    return;
                }
                Leave::No => {}
            }
        }
        self.outbox.push_back(message);
    }

    pub(super) fn finished(&self) -> Option<Exit> {
        let drained = self.stdout.is_drained() && self.stderr.is_drained();
        self.exited.clone().filter(|_| drained)
    }
}

#[cfg(test)]
mod tests {
    use sandkeep_proto::v1::StreamData;

    use super::*;

    /// Ctrl-C twice at once, in a terminal in raw mode; gives whether that leaves, and what is sent.
    async fn interrupted_twice(leave_keys: Option<LeaveKeys>) -> (bool, usize) {
        let progress = Progress::after(true, Duration::ZERO);
        let mut state = State::new(true, true, leave_keys, progress).unwrap();
        for offset in 0..2 {
            state.on_stdin(In::Stdin(StreamData { offset, data: "\x03".into() }));
        }
        (state.leave_at.is_some(), state.outbox.len())
    }

    #[tokio::test]
    async fn a_second_interrupt_leaves_the_main_command_and_never_an_exec() {
        assert_eq!(interrupted_twice(None).await, (false, 2));
        assert_eq!(interrupted_twice(Some(LeaveKeys::default())).await, (true, 2));
    }

    #[tokio::test]
    async fn a_signal_outlives_the_connection_it_was_for() {
        let progress = Progress::after(true, Duration::ZERO);
        let mut state = State::new(true, false, None, progress).unwrap();
        state.outbox.extend([In::Signal(2), In::Forget(true)]);
        state.begin_connection();
        assert_eq!(state.outbox, [In::Signal(2)]);
    }
}
