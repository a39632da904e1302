//! Running a command inside, over a session, as the gateway would.

use std::time::Duration;

use sandkeep_core::SandboxId;
use sandkeep_driver::{Driver, SessionStream};
use sandkeep_driver_local::LocalDriver;
use sandkeep_frames::message::{Channel, ExecAck, ExecExited, ExecOpen, Hello, Process, Welcome};
use sandkeep_frames::{Decoder, Encoded, Frame, Kind, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PATIENCE: Duration = Duration::from_secs(60);

/// A session with a supervisor.
pub(crate) struct Inside {
    stream: Box<dyn SessionStream>,
    decoder: Decoder,
    execs: u32,
    /// Guards that the supervisor says are missing.
    pub(crate) missing_guards: Vec<String>,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    /// Standard output, then standard error.
    pub(crate) output: String,
}

impl Inside {
    pub(crate) async fn open(driver: &LocalDriver, id: &SandboxId, run: &str) -> Self {
        let opened = tokio::time::timeout(PATIENCE, driver.open_session(id, run)).await;
        let (stream, _) = opened.expect("nobody came for a session").unwrap();
        let decoder = Decoder::new();
        let mut inside = Self { stream, decoder, execs: 0, missing_guards: Vec::new() };
        let hello: Hello = inside.next(Kind::Hello).await.decode().unwrap();
        inside.missing_guards = hello.missing_guards;
        let welcome = Welcome { version: VERSION, incarnation: 1, logs: Vec::new(), now_ms: 0 };
        inside.send(Encoded::message(Kind::Welcome, 0, &welcome).unwrap()).await;
        inside
    }

    /// Runs `argv` to its end.
    pub(crate) async fn run(&mut self, argv: &[&str]) -> Done {
        self.execs += 1;
        let stream = self.execs;
        let process = Process {
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            attached: true,
            ..Process::default()
        };
        let exec_id = format!("probe-{stream}");
        let open = ExecOpen { exec_id, process: Some(process), detached: false };
        self.send(Encoded::message(Kind::ExecOpen, stream, &open).unwrap()).await;
        let mut output: [Vec<u8>; 3] = Default::default();
        loop {
            let frame = self.any().await;
            match frame.kind() {
                Some(Kind::ExecData) if frame.stream == stream => {
                    let data = frame.stream_bytes().unwrap();
                    output[data.channel as usize].extend_from_slice(&data.bytes);
                    self.acknowledge(stream, data.channel, output[data.channel as usize].len())
                        .await;
                }
                Some(Kind::ExecExited) if frame.stream == stream => {
                    let exited: ExecExited = frame.decode().unwrap();
                    self.send(Encoded::empty(Kind::ExecForget, stream)).await;
                    let code = exited.exited.unwrap().code;
                    let output = String::from_utf8_lossy(&output.concat()).into_owned();
                    return Done { code, output };
                }
                Some(Kind::Ping) => {
                    self.send(Encoded::raw(Kind::Pong, 0, frame.payload).unwrap()).await;
                }
                _ => {}
            }
        }
    }

    async fn acknowledge(&mut self, stream: u32, channel: Channel, offset: usize) {
        let ack = ExecAck { channel: channel as u32, offset: offset as u64 };
        self.send(Encoded::message(Kind::ExecAck, stream, &ack).unwrap()).await;
    }

    async fn send(&mut self, mut frame: Encoded) {
        self.stream.write_all_buf(&mut frame).await.unwrap();
    }

    async fn next(&mut self, kind: Kind) -> Frame {
        loop {
            let frame = self.any().await;
            if frame.kind() == Some(kind) {
                return frame;
            }
        }
    }

    async fn any(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return frame;
            }
            let space = self.decoder.space();
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(space)).await;
            let read = read.expect("the supervisor is silent").unwrap();
            assert_ne!(read, 0, "the session ended");
        }
    }
}
