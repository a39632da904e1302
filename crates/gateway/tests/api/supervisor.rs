//! A supervisor that a test can talk to: `echo` gives stdin back, `exit N` ends with N, `flood`
//! writes for ever, `mute` never answers; whatever else is not found.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecAttach, ExecAttached, ExecEof, ExecExited, ExecOpen, Exited, Go, Hello,
    MainState, StreamBytes,
};
use sandkeep_frames::{Decoder, Encoded, Frame, Kind, WINDOW_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// One session's end.
pub(crate) struct Supervisor {
    stream: DuplexStream,
    decoder: Decoder,
    execs: HashMap<u32, Exec>,
}

#[derive(Debug)]
struct Exec {
    floods: bool,
    written: u64,
    acknowledged: u64,
}

impl Supervisor {
    pub(crate) fn new(stream: DuplexStream) -> Self {
        Self { stream, decoder: Decoder::new(), execs: HashMap::new() }
    }

    /// Speaks until the gateway ends the session.
    pub(crate) async fn run(mut self) -> std::io::Result<()> {
        let hello = Hello {
            oldest_version: 1,
            newest_version: 1,
            build: "test".to_owned(),
            boot_nonce: 1,
            ..Hello::default()
        };
        self.say(Kind::Hello, 0, &hello).await?;
        loop {
            while let Some(frame) = self.decoder.next_frame() {
                self.hear(frame).await?;
            }
            if self.stream.read_buf(self.decoder.space()).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn hear(&mut self, frame: Frame) -> std::io::Result<()> {
        let stream = frame.stream;
        match frame.kind() {
            Some(Kind::Ping) => {
                self.write(Encoded::raw(Kind::Pong, 0, frame.payload).unwrap()).await
            }
            Some(Kind::Go) => {
                let go: Go = frame.decode().unwrap();
                let state = MainState {
                    run: go.run,
                    incarnation: go.incarnation,
                    restart: go.restart,
                    exited: None,
                };
                self.say(Kind::MainState, 0, &state).await
            }
            Some(Kind::ExecOpen) => self.open(stream, frame.decode().unwrap()).await,
            Some(Kind::ExecAttach) => {
                let attach: ExecAttach = frame.decode().unwrap();
                let message = format!("there is no exec {}", attach.exec_id);
                self.refuse(stream, "NotFound", message).await
            }
            Some(Kind::ExecData) => self.echo(stream, frame.stream_bytes().unwrap()).await,
            Some(Kind::ExecEof) => {
                let total = self.execs.get(&stream).map_or(0, |exec| exec.written);
                self.end(stream, total, 0).await
            }
            Some(Kind::ExecAck) => {
                let ack: ExecAck = frame.decode().unwrap();
                if let Some(exec) = self.execs.get_mut(&stream) {
                    exec.acknowledged = ack.offset;
                }
                self.flood(stream).await
            }
            _ => Ok(()),
        }
    }

    async fn open(&mut self, stream: u32, open: ExecOpen) -> std::io::Result<()> {
        let argv = open.process.unwrap().argv;
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        let floods = words == ["flood"];
        match words.as_slice() {
            ["mute"] => return Ok(()),
            ["echo" | "flood"] | ["exit", _] => {}
            _ => return self.refuse(stream, "NotFound", "no such program".to_owned()).await,
        }
        self.execs.insert(stream, Exec { floods, written: 0, acknowledged: 0 });
        self.say(Kind::ExecAttached, stream, &ExecAttached { pid: 7, ..Default::default() })
            .await?;
        if let ["exit", code] = words.as_slice() {
            return self.end(stream, 0, code.parse().unwrap()).await;
        }
        self.flood(stream).await
    }

    async fn echo(&mut self, stream: u32, data: StreamBytes) -> std::io::Result<()> {
        let taken = data.offset + data.bytes.len() as u64;
        let ack = ExecAck { channel: Channel::Stdin as u32, offset: taken };
        self.say(Kind::ExecAck, stream, &ack).await?;
        self.output(stream, data.bytes).await
    }

    /// Writes as much as the window allows.
    async fn flood(&mut self, stream: u32) -> std::io::Result<()> {
        let chunk = Bytes::from_static(&[b'x'; 64 * 1024]);
        while self.execs.get(&stream).is_some_and(|exec| {
            exec.floods && exec.written + chunk.len() as u64 <= exec.acknowledged + WINDOW_BYTES
        }) {
            self.output(stream, chunk.clone()).await?;
        }
        Ok(())
    }

    async fn output(&mut self, stream: u32, bytes: Bytes) -> std::io::Result<()> {
        let Some(exec) = self.execs.get_mut(&stream) else { return Ok(()) };
        let data = StreamBytes { channel: Channel::Stdout, offset: exec.written, bytes };
        exec.written += data.bytes.len() as u64;
        self.write(Encoded::stream_bytes(stream, data).unwrap()).await
    }

    async fn end(&mut self, stream: u32, total: u64, code: i32) -> std::io::Result<()> {
        for (channel, offset) in [(Channel::Stdout, total), (Channel::Stderr, 0)] {
            let eof = ExecEof { channel: channel as u32, offset };
            self.say(Kind::ExecEof, stream, &eof).await?;
        }
        let exited = Some(Exited { code, finished_at_ms: 5, ..Exited::default() });
        self.say(Kind::ExecExited, stream, &ExecExited { exited }).await
    }

    async fn refuse(&mut self, stream: u32, refused: &str, message: String) -> std::io::Result<()> {
        let answer = ExecAttached { refused: refused.to_owned(), message, ..Default::default() };
        self.say(Kind::ExecAttached, stream, &answer).await
    }

    async fn say(
        &mut self,
        kind: Kind,
        stream: u32,
        message: &impl Message,
    ) -> std::io::Result<()> {
        self.write(Encoded::message(kind, stream, message).unwrap()).await
    }

    async fn write(&mut self, mut frame: Encoded) -> std::io::Result<()> {
        self.stream.write_all_buf(&mut frame).await
    }
}
