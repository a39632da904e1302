//! One connection of an attachment: what comes is written out, what is typed goes in, until the
//! process ends, the user leaves, or the connection breaks.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::exec_out::Message as Out;
use sandkeep_proto::v1::{ExecAttached, ExecIn, ExecOut, Exit, Resize};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::input::Input;
use super::lifeline::{Fate, Lifeline};
use super::output::{Output, Report, Sink};
use super::signals::{BROKEN_PIPE, Event, Signals};
use super::{Broken, Ending};
use crate::client::Gateway;
use crate::error::Failure;
use crate::progress::Progress;
use crate::render;
use crate::terminal::{self, RawMode};

/// A command that ends by the second Ctrl-C is waited for so long before we go away from it.
const LEAVE_GRACE: Duration = Duration::from_millis(500);
/// A run that is lost by the record may still have output on its way to us.
const LOST_GRACE: Duration = Duration::from_secs(5);
/// The gateway hears that we have everything; it is no harm if it does not.
const FAREWELL: Duration = Duration::from_millis(500);

/// What lives through all connections.
#[derive(Debug)]
pub(super) struct State {
    stdout: Output,
    stderr: Output,
    reports: mpsc::UnboundedReceiver<Report>,
    wants_stdin: bool,
    tty: bool,
    input: Option<Input>,
    signals: Signals,
    raw: Option<RawMode>,
    progress: Progress,
    /// What is to be said on this connection.
    outbox: VecDeque<In>,
    /// There was an answer, on any connection.
    attached: bool,
    /// Something came on the latest connection.
    progressed: bool,
    /// Another execution of the main command is looked for: the number of the one that is gone.
    looking_since: Option<u32>,
    exited: Option<Exit>,
    leave_at: Option<Instant>,
    /// Until when the process has to be there; `None`: no limit.
    start_by: Option<Instant>,
    /// Since when the record has told the end that the streams have not.
    ended_since: Option<Instant>,
}

impl State {
    /// Nothing has happened yet.
    pub(super) fn new(stdin: bool, tty: bool, progress: Progress) -> io::Result<Self> {
        let (sender, reports) = mpsc::unbounded_channel();
        Ok(Self {
            stdout: Output::new(Sink::Stdout, sender.clone()),
            stderr: Output::new(Sink::Stderr, sender),
            reports,
            wants_stdin: stdin,
            tty,
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

    fn on_signal(&mut self, event: Event) -> Option<Ending> {
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
                self.outbox.push_back(In::StdinEnd(sandkeep_proto::v1::StreamEnd { offset: 0 }));
            }
            None => {}
        }
        if self.tty {
            self.tell_size();
        }
    }

    fn on_output(&mut self, message: Out) {
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

    fn on_report(&mut self, report: Report) {
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
    }

    fn on_stdin(&mut self, message: In) {
        if let In::Stdin(data) = &message
            && self.tty
            && data.data[..] == [0x03]
            && self.signals.typed_interrupt()
        {
            // The command gets it, too, and a little time to end by it.
            self.leave_at = Some(Instant::now() + LEAVE_GRACE);
        }
        self.outbox.push_back(message);
    }

    fn finished(&self) -> Option<Exit> {
        let drained = self.stdout.is_drained() && self.stderr.is_drained();
        self.exited.clone().filter(|_| drained)
    }
}

/// One connection.
pub(super) struct Session<'a> {
    pub(super) state: &'a mut State,
    pub(super) lifeline: Option<&'a mut Lifeline>,
    pub(super) what: &'a str,
}

/// Where the streams of a connection are.
struct Connection {
    to_gateway: mpsc::Sender<ExecIn>,
    from_gateway: Streaming<ExecOut>,
}

impl Session<'_> {
    /// Attaches and stays until one of the ends.
    pub(super) async fn run(mut self, gateway: &Gateway, first: ExecIn) -> Broken {
        self.state.outbox.clear();
        let mut connection = match self.open(gateway, first).await {
            Ok(connection) => connection,
            Err(broken) => return broken,
        };
        let broken = self.pump(&mut connection).await;
        if let Broken::Ended(Ending::Exited(_)) = &broken {
            say_farewell(connection).await;
        }
        broken
    }

    /// Waits until the gateway has reached the process; it answers only then.
    async fn open(&mut self, gateway: &Gateway, first: ExecIn) -> Result<Connection, Broken> {
        // Two windows of chunks would only hold memory.
        let (to_gateway, messages) = mpsc::channel(4);
        let _has_room = to_gateway.try_send(first);
        let mut client = gateway.client();
        let opening = client.exec(ReceiverStream::new(messages));
        tokio::pin!(opening);
        loop {
            tokio::select! {
                response = &mut opening => {
                    let response = response.map_err(|status| self.failed(&status))?;
                    let from_gateway = response.into_inner();
                    return Ok(Connection { to_gateway, from_gateway });
                }
                event = self.state.signals.next() => {
                    if let Some(ending) = self.state.on_signal(event) {
                        return Err(Broken::Ended(ending));
                    }
                }
                fate = change_of(&mut self.lifeline) => match fate {
                    // Nothing is attached, so nothing is on its way.
                    Fate::Lost(failure) => return Err(Broken::Lost(failure)),
                    Fate::Alive | Fate::Ended(_) => self.show_state(),
                },
                () = self.state.progress.due() => self.state.progress.flush(),
                () = at(self.state.start_by), if !self.state.attached => {
                    return Err(Broken::Lost(self.not_in_time()));
                }
            }
        }
    }

    fn not_in_time(&self) -> Failure {
        let state = self.lifeline.as_ref().and_then(|lifeline| lifeline.words());
        Failure::new(
            crate::error::exit::SANDKEEP,
            format!("{} has not started in time", self.what),
            state.unwrap_or_else(|| "nothing was heard of it".to_owned()),
            "the work goes on; see: sandkeep list",
        )
    }

    async fn pump(&mut self, connection: &mut Connection) -> Broken {
        let Connection { to_gateway, from_gateway } = connection;
        let mut lost = None;
        loop {
            if let Some(exit) = self.state.finished() {
                return Broken::Ended(Ending::Exited(exit));
            }
            let state = &mut *self.state;
            // What is to be said first, then more of stdin: its window is not its own queue.
            let stdin = state.input.as_mut().filter(|input| {
                state.outbox.is_empty() && state.exited.is_none() && input.wants_more()
            });
            tokio::select! {
                message = from_gateway.message(), if state.exited.is_none() => match message {
                    Ok(Some(ExecOut { message: Some(message) })) => {
                        state.on_output(message);
                    }
                    Ok(Some(_of_a_newer_version)) => {}
                    Ok(None) => return self.failed(&Status::unavailable("the stream ended")),
                    Err(status) => return self.failed(&status),
                },
                permit = to_gateway.reserve(), if !state.outbox.is_empty() => {
                    // A closed channel shows as the end of the other direction.
                    if let (Ok(permit), Some(message)) = (permit, state.outbox.pop_front()) {
                        permit.send(ExecIn { message: Some(message) });
                    }
                }
                Some(report) = state.reports.recv() => state.on_report(report),
                message = next_of(stdin) => state.on_stdin(message),
                event = state.signals.next() => {
                    if let Some(ending) = state.on_signal(event) {
                        return Broken::Ended(ending);
                    }
                }
                fate = change_of(&mut self.lifeline) => lost = grace_for(&fate, lost),
                () = after(lost.as_ref()) => return give_up(lost),
                () = at(state.leave_at) => return Broken::Ended(Ending::Detached),
            }
        }
    }

    fn show_state(&mut self) {
        let words = self.lifeline.as_ref().and_then(|lifeline| lifeline.words());
        if let Some(words) = words.filter(|_| !self.state.attached) {
            self.state.progress.show(&words);
        }
    }

    fn failed(&self, status: &Status) -> Broken {
        let what = format!("the connection to {} broke", self.what);
        Broken::Failed(Failure::of_status(&what, status))
    }
}

/// A run lost by the record, and until when its streams may still end by themselves.
type LostUntil = Option<(Failure, Instant)>;

fn grace_for(fate: &Fate, before: LostUntil) -> LostUntil {
    match (fate, before) {
        (Fate::Lost(failure), None) => Some((failure.clone(), Instant::now() + LOST_GRACE)),
        (Fate::Lost(failure), Some((_, until))) => Some((failure.clone(), until)),
        (Fate::Alive | Fate::Ended(_), _) => None,
    }
}

fn give_up(lost: LostUntil) -> Broken {
    let unknown = || Failure::new(crate::error::exit::SANDKEEP, "the command was lost", "", "");
    Broken::Lost(lost.map_or_else(unknown, |(failure, _)| failure))
}

async fn after(lost: Option<&(Failure, Instant)>) {
    at(lost.map(|(_, until)| *until)).await;
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn change_of(lifeline: &mut Option<&mut Lifeline>) -> Fate {
    match lifeline {
        Some(lifeline) => lifeline.changed().await,
        None => std::future::pending().await,
    }
}

async fn next_of(input: Option<&mut Input>) -> In {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}

/// Tells the gateway that everything has arrived, so that it keeps nothing for us, and waits for
/// its end of the stream: that it was heard.
async fn say_farewell(connection: Connection) {
    let Connection { to_gateway, mut from_gateway } = connection;
    let forget = ExecIn { message: Some(In::Forget(true)) };
    let heard = async {
        if to_gateway.send(forget).await.is_ok() {
            drop(to_gateway);
            while let Ok(Some(_late)) = from_gateway.message().await {}
        }
    };
    let _in_time = timeout(FAREWELL, heard).await;
}
