//! A gateway in small, and the real supervisor as its child: an ordinary process, no guards.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecAttach, ExecAttached, ExecEof, ExecExited, ExecOpen, Exited, Go, Hello,
    LogAck, MainState, Process, StreamBytes, Welcome,
};
use sandkeep_frames::{Decoder, Encoded, Frame, Kind};

/// Far longer than anything here takes; a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

pub const INCARNATION: u64 = 7;

/// A directory with a socket and a state directory, and the supervisor that uses them.
pub struct Sandbox {
    pub dir: tempfile::TempDir,
    pub listener: UnixListener,
    pub child: Option<Child>,
}

impl Sandbox {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("state")).unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let mut sandbox = Self { dir, listener, child: None };
        sandbox.start_supervisor();
        sandbox
    }

    pub fn start_supervisor(&mut self) {
        let built = env!("CARGO_BIN_EXE_sandkeep-supervisor");
        let program = std::env::var_os("SANDKEEP_SUPERVISOR").unwrap_or_else(|| built.into());
        let child = Command::new(program)
            .args(["init", "--not-pid1", "--socket"])
            .arg(self.dir.path().join("s"))
            .arg("--state")
            .arg(self.state())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The next connection, after its hello.
    pub fn accept(&self) -> (Link, Hello) {
        let (stream, _) = self.listener.accept().unwrap();
        let mut link = Link::new(stream);
        let hello = link.expect(Kind::Hello).decode().unwrap();
        (link, hello)
    }

    /// The next connection, welcomed.
    pub fn session(&self) -> Link {
        let (mut link, _) = self.accept();
        link.welcome();
        link
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().unwrap().id()).unwrap()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: no memory effects; our own child, not yet waited for.
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// The supervisor dies, and with it what it started, as with a PID namespace.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        // Stopped, it starts nothing more while its children are looked for.
        let pid = i32::try_from(child.id()).unwrap();
        // SAFETY: no memory effects; our own child, not yet waited for.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let child: i32 = child.parse().unwrap();
            // SAFETY: as above; its children are not reaped, so the numbers are theirs still.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::kill(-child, libc::SIGKILL);
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.take().unwrap().wait().unwrap()
    }

    /// A value from the supervisor's /proc status, in its unit.
    pub fn status(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// One connection, the gateway's side.
pub struct Link {
    pub stream: UnixStream,
    decoder: Decoder,
}

impl Link {
    pub fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, decoder: Decoder::new() }
    }

    pub fn welcome(&mut self) {
        self.welcome_with(Vec::new());
    }

    /// With the logs that the gateway has.
    pub fn welcome_with(&mut self, logs: Vec<LogAck>) {
        let welcome = Welcome { version: 1, incarnation: INCARNATION, logs, now_ms: 0 };
        self.send(Kind::Welcome, 0, &welcome);
    }

    pub fn send(&mut self, kind: Kind, stream: u32, message: &impl Message) {
        self.write(&Encoded::message(kind, stream, message).unwrap());
    }

    pub fn write(&mut self, frame: &Encoded) {
        for piece in frame.pieces() {
            self.stream.write_all(piece).unwrap();
        }
    }

    /// The next frame; `None`: the supervisor closed the connection.
    pub fn next(&mut self) -> Option<Frame> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return Some(frame);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.decoder.feed(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    /// Reads and forgets. False: the connection is over.
    pub fn read_some(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        self.stream.read(&mut buffer).is_ok_and(|count| count > 0)
    }

    /// The next frame of that kind; others are passed over.
    pub fn expect(&mut self, kind: Kind) -> Frame {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("closed while waiting: {kind:?}"));
            if frame.kind() == Some(kind) {
                return frame;
            }
        }
    }

    pub fn go(&mut self, run: u64, restart: u32, argv: &[&str]) {
        let process = Some(Process { attached: false, ..process(argv) });
        self.send(Kind::Go, 0, &Go { run, restart, incarnation: INCARNATION, process });
    }

    /// The next report of the main command's end.
    pub fn main_exit(&mut self) -> (u64, u32, Exited) {
        loop {
            let state: MainState = self.expect(Kind::MainState).decode().unwrap();
            if let Some(exited) = state.exited {
                return (state.run, state.restart, exited);
            }
        }
    }

    pub fn open(&mut self, stream: u32, id: &str, process: Process) -> ExecAttached {
        let open = ExecOpen { exec_id: id.to_owned(), process: Some(process), detached: false };
        self.send(Kind::ExecOpen, stream, &open);
        self.attached()
    }

    pub fn attach(&mut self, stream: u32, id: &str, stdout_offset: u64) -> ExecAttached {
        let attach = ExecAttach { exec_id: id.to_owned(), stdout_offset, stderr_offset: 0 };
        self.send(Kind::ExecAttach, stream, &attach);
        self.attached()
    }

    pub fn attached(&mut self) -> ExecAttached {
        self.expect(Kind::ExecAttached).decode().unwrap()
    }

    pub fn stdin(&mut self, stream: u32, offset: u64, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        let data = StreamBytes { channel: Channel::Stdin, offset, bytes };
        self.write(&Encoded::stream_bytes(stream, data).unwrap());
    }

    pub fn stdin_end(&mut self, stream: u32, offset: u64) {
        let eof = ExecEof { channel: Channel::Stdin as u32, offset };
        self.send(Kind::ExecEof, stream, &eof);
    }

    pub fn ack(&mut self, stream: u32, channel: Channel, offset: u64) {
        self.send(Kind::ExecAck, stream, &ExecAck { channel: channel as u32, offset });
    }

    /// Takes everything of one exec until its end, acknowledging as it comes.
    pub fn finish(&mut self, stream: u32) -> Output {
        let mut output = Output::default();
        self.finish_into(stream, &mut output);
        output
    }

    pub fn finish_into(&mut self, stream: u32, output: &mut Output) {
        loop {
            let frame = self.next().expect("closed before the exit");
            if frame.stream != stream {
                continue;
            }
            match frame.kind().unwrap() {
                Kind::ExecData => {
                    let data = frame.stream_bytes().unwrap();
                    let end = data.offset + data.bytes.len() as u64;
                    let channel = data.channel;
                    output.take(data);
                    self.ack(stream, channel, end);
                }
                Kind::ExecEof => {
                    let eof: ExecEof = frame.decode().unwrap();
                    let got = output.of(Channel::from_raw(eof.channel).unwrap()).len();
                    assert_eq!(eof.offset, got as u64, "eof before the last byte");
                    output.ends += 1;
                }
                Kind::ExecExited => {
                    let exited: ExecExited = frame.decode().unwrap();
                    output.exited = exited.exited.unwrap();
                    return;
                }
                _ => {}
            }
        }
    }

    /// Opens, takes everything, forgets.
    pub fn run(&mut self, stream: u32, id: &str, process: Process) -> Output {
        let attached = self.open(stream, id, process);
        assert_eq!(attached.refused, "", "{}", attached.message);
        let output = self.finish(stream);
        self.write(&Encoded::empty(Kind::ExecForget, stream));
        output
    }

    /// Waits for a text on stdout, acknowledging as it comes.
    pub fn wait_for(&mut self, stream: u32, output: &mut Output, text: &str) {
        while !String::from_utf8_lossy(&output.stdout).contains(text) {
            let frame = self.expect(Kind::ExecData);
            if frame.stream == stream {
                let data = frame.stream_bytes().unwrap();
                let end = data.offset + data.bytes.len() as u64;
                let channel = data.channel;
                output.take(data);
                self.ack(stream, channel, end);
            }
        }
    }
}

/// What one exec has said.
#[derive(Debug, Default)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exited: Exited,
    pub ends: u32,
}

impl Output {
    pub fn take(&mut self, data: StreamBytes) {
        let known = self.of(data.channel);
        assert_eq!(data.offset, known.len() as u64, "a byte lost or doubled");
        known.extend_from_slice(&data.bytes);
    }

    pub fn of(&mut self, channel: Channel) -> &mut Vec<u8> {
        match channel {
            Channel::Stderr => &mut self.stderr,
            _ => &mut self.stdout,
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// An attached process in /, without stdin.
pub fn process(argv: &[&str]) -> Process {
    Process {
        argv: argv.iter().map(ToString::to_string).collect(),
        workdir: "/".to_owned(),
        attached: true,
        ..Process::default()
    }
}

pub fn shell(script: &str) -> Process {
    process(&["sh", "-c", script])
}

/// Waits until a file says something; the state is what is waited for, not the time.
pub fn wait_for_file(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => std::thread::yield_now(),
        }
    }
}
