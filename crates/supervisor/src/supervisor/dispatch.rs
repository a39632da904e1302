//! What the gateway says, frame by frame. Unknown kinds are skipped, frames for streams that are
//! not attached any more likewise; what breaks the rules ends the session, and only that.

use sandkeep_frames::frame::Kind;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecAttach, ExecAttached, ExecEof, ExecOpen, ExecResize, ExecSignal, Go,
    LogAck, Process, Refused, ResultStored, Usage, Welcome,
};
use sandkeep_frames::{Encoded, Frame, Malformed};

use super::Supervisor;
use crate::clock::now_ms;
use crate::exec::input::OutOfWindow;
use crate::exec::terminal;
use crate::poller::Token;
use crate::{clock, signals, usage};

/// Frames taken before bytes are moved and children are looked after.
const FRAMES_AT_ONCE: usize = 64;

/// Streams of one session: every exec attached, some being replaced.
const MOST_STREAMS: usize = 2048;

/// Why a session is ended from here.
enum Wrong {
    /// Said to the gateway.
    Rule(String),
    /// The gateway wants no session.
    RefusedThere,
}

impl From<Malformed> for Wrong {
    fn from(malformed: Malformed) -> Self {
        Self::Rule(malformed.to_string())
    }
}

impl From<OutOfWindow> for Wrong {
    fn from(_: OutOfWindow) -> Self {
        Self::Rule("stdin bytes outside the window".to_owned())
    }
}

impl Supervisor {
    /// Takes some frames. True: there may be more.
    pub(super) fn receive(&mut self) -> bool {
        for _ in 0..FRAMES_AT_ONCE {
            match self.session.receive() {
                Ok(None) => return false,
                Ok(Some(frame)) => match self.handle(&frame) {
                    Ok(()) => {}
                    Err(Wrong::RefusedThere) => {
                        self.lose_session();
                        return false;
                    }
                    Err(Wrong::Rule(sentence)) => {
                        self.session.refuse("Protocol", &sentence, now_ms());
                        self.lose_session();
                        return false;
                    }
                },
                Err(_) => {
                    self.lose_session();
                    return false;
                }
            }
        }
        true
    }

    fn handle(&mut self, frame: &Frame) -> Result<(), Wrong> {
        let Some(kind) = frame.kind() else {
            return Ok(());
        };
        match kind {
            Kind::Welcome => return self.welcome(&frame.decode()?),
            Kind::Refused => {
                frame.decode::<Refused>()?;
                return Err(Wrong::RefusedThere);
            }
            _ if !self.session.is_live() => {
                return Err(Wrong::Rule("a frame before the welcome".to_owned()));
            }
            Kind::Ping => {
                if let Ok(pong) = Encoded::raw(Kind::Pong, 0, frame.payload.clone()) {
                    self.session.queue(pong);
                }
            }
            Kind::Go => {
                let go: Go = frame.decode()?;
                self.go(go);
            }
            Kind::ResultStored => {
                let stored: ResultStored = frame.decode()?;
                self.results.stored(stored.run, stored.restart);
            }
            Kind::LogAck => {
                let ack: LogAck = frame.decode()?;
                self.spool.acknowledge(&self.state, &ack, now_ms());
            }
            Kind::UsageAsk => self.report_usage(),
            Kind::ExecOpen | Kind::ExecAttach if frame.stream == 0 => {
                return Err(Wrong::Rule("an exec on stream 0".to_owned()));
            }
            Kind::ExecOpen => self.open(frame.stream, frame.decode()?),
            Kind::ExecAttach => self.attach(frame.stream, &frame.decode()?),
            _ => return self.handle_stream(kind, frame),
        }
        Ok(())
    }

    /// Frames on the stream of an attached exec.
    fn handle_stream(&mut self, kind: Kind, frame: &Frame) -> Result<(), Wrong> {
        let Some(key) = self.session.streams.get(&frame.stream).copied() else {
            return Ok(());
        };
        let Some(exec) = self.execs.get(key) else {
            return Ok(());
        };
        match kind {
            Kind::ExecData => {
                let data = frame.stream_bytes()?;
                if data.channel != Channel::Stdin {
                    return Err(Wrong::Rule("output from the gateway".to_owned()));
                }
                exec.input.take(data.offset, data.bytes)?;
            }
            Kind::ExecEof => {
                let eof: ExecEof = frame.decode()?;
                if eof.channel == Channel::Stdin as u32 {
                    exec.input.end(eof.offset)?;
                }
            }
            Kind::ExecAck => {
                let ack: ExecAck = frame.decode()?;
                let output = Channel::from_raw(ack.channel).and_then(|it| exec.output(it));
                if let Some(output) = output {
                    output.window.acknowledge(ack.offset);
                }
            }
            Kind::ExecResize => {
                let size: ExecResize = frame.decode()?;
                if let Some(master) = exec.terminal() {
                    // A terminal that its processes have closed has no size.
                    drop(terminal::resize(master, size.rows, size.columns));
                }
            }
            Kind::ExecSignal => {
                let signal: ExecSignal = frame.decode()?;
                if let Some(pid) = exec.pid() {
                    signals::signal_group(pid, signal.signal);
                }
            }
            Kind::ExecDetach => self.detach(frame.stream),
            Kind::ExecForget => self.forget(frame.stream),
            _ => {}
        }
        Ok(())
    }

    fn welcome(&mut self, welcome: &Welcome) -> Result<(), Wrong> {
        if self.session.is_live() {
            return Err(Wrong::Rule("a second welcome".to_owned()));
        }
        let ours = sandkeep_frames::version::OURS;
        if !(ours.oldest..=ours.newest).contains(&welcome.version) {
            let sentence = format!("version {} is not spoken here", welcome.version);
            self.session.refuse("Version", &sentence, now_ms());
            return Err(Wrong::RefusedThere);
        }
        self.session.welcomed(welcome.incarnation);
        self.clock_lag_ms = clock::lag_ms(welcome.now_ms);
        self.spool.begin_session(&self.state, &welcome.logs, now_ms());
        Ok(())
    }

    fn open(&mut self, stream: u32, open: ExecOpen) {
        if let Some(key) = self.execs.find(&open.exec_id) {
            return self.answer_known(stream, key, open.detached, 0, 0);
        }
        let process = open.process.unwrap_or_default();
        let started = self.start_exec(&open.exec_id, process, open.detached);
        match started {
            Ok(key) => self.answer_known(stream, key, open.detached, 0, 0),
            Err((refused, message)) => {
                let refused = refused.to_owned();
                let answer = ExecAttached { refused, message, ..ExecAttached::default() };
                self.session.send(Kind::ExecAttached, stream, &answer);
            }
        }
    }

    fn attach(&mut self, stream: u32, attach: &ExecAttach) {
        match self.execs.find(&attach.exec_id) {
            Some(key) => {
                let (stdout, stderr) = (attach.stdout_offset, attach.stderr_offset);
                self.answer_known(stream, key, false, stdout, stderr);
            }
            None => self.send_not_found(stream, &attach.exec_id),
        }
    }

    /// Attaches a stream to an exec that is there, unless nobody wants to be attached.
    fn answer_known(&mut self, stream: u32, key: u32, detached: bool, stdout: u64, stderr: u64) {
        let too_many = self.session.streams.len() >= MOST_STREAMS;
        let taken = self.session.streams.contains_key(&stream);
        let Some(exec) = self.execs.get(key) else {
            return;
        };
        if too_many || taken {
            return self.session.send(Kind::ExecAttached, stream, &taken_or_too_many());
        }
        if detached {
            return self.answer_once_started(stream, key);
        }
        if let Some(before) = exec.stream {
            self.session.streams.remove(&before);
        }
        let answer = exec.attach(stream, stdout, stderr);
        self.session.streams.insert(stream, key);
        self.session.send(Kind::ExecAttached, stream, &answer);
    }

    /// Whoever lets a process go on by itself has to hear first whether there is one.
    fn answer_once_started(&mut self, stream: u32, key: u32) {
        let Some(exec) = self.execs.get(key) else {
            return;
        };
        if exec.awaiting_start.len() >= MOST_STREAMS {
            return self.session.send(Kind::ExecAttached, stream, &taken_or_too_many());
        }
        exec.awaiting_start.push(stream);
        if let Some(fd) = exec.start_fd() {
            // Watched already for another stream, or no kernel memory: then it is told at the next
            // event, whatever that is of.
            drop(self.poller.watch(fd, Token::Start(key)));
        }
    }

    /// Answers those who wait to hear that a process runs, or has ended.
    pub(super) fn tell_started(&mut self) {
        for (_, exec) in self.execs.iter_mut() {
            if exec.awaiting_start.is_empty() || !exec.is_started() {
                continue;
            }
            let pid = exec.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
            let answer = ExecAttached { pid, ..ExecAttached::default() };
            for stream in exec.awaiting_start.drain(..) {
                self.session.send(Kind::ExecAttached, stream, &answer);
            }
        }
    }

    fn send_not_found(&mut self, stream: u32, exec_id: &str) {
        let answer = ExecAttached {
            refused: "NotFound".to_owned(),
            message: format!("there is no exec {}", exec_id.escape_default()),
            ..ExecAttached::default()
        };
        self.session.send(Kind::ExecAttached, stream, &answer);
    }

    fn detach(&mut self, stream: u32) {
        if let Some(key) = self.session.streams.remove(&stream)
            && let Some(exec) = self.execs.get(key)
        {
            exec.detach(now_ms());
        }
    }

    fn forget(&mut self, stream: u32) {
        if let Some(key) = self.session.streams.remove(&stream)
            && let Some(exec) = self.execs.get(key)
        {
            exec.detach(now_ms());
            exec.forgotten = !exec.is_main;
            if exec.forgotten && exec.exited().is_some() {
                self.drop_exec(key);
            }
        }
    }

    fn report_usage(&mut self) {
        let attached = self.execs.iter().filter(|(_, exec)| exec.stream.is_some()).count();
        let usage = Usage {
            attached_execs: u32::try_from(attached).unwrap_or(u32::MAX),
            now_ms: self.wall_ms(),
            ..usage::measure()
        };
        self.session.send(Kind::Usage, 0, &usage);
    }
}

fn taken_or_too_many() -> ExecAttached {
    ExecAttached {
        refused: "Exhausted".to_owned(),
        message: "this stream is in use, or too many are".to_owned(),
        ..ExecAttached::default()
    }
}

/// What a detached exec is: nobody waits, output is kept.
pub(super) fn as_detached(process: Process) -> Process {
    Process { keep_output: true, attached: false, ..process }
}
