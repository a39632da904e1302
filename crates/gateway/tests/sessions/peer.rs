//! The supervisor's end of a session, as a test plays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use prost::Message;
use sandkeep_driver::SessionStream;
use sandkeep_frames::message::{
    Channel, ExecAttached, ExecEof, ExecExited, Exited, Hello, MainState, StreamBytes, Welcome,
};
use sandkeep_frames::{Decoder, Encoded, Frame, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The supervisor's end.
pub(super) struct Peer {
    stream: Box<dyn SessionStream>,
    decoder: Decoder,
    /// Answers pings by itself.
    pub(super) pongs: Arc<AtomicBool>,
}

pub(super) fn hello() -> Hello {
    Hello {
        oldest_version: 1,
        newest_version: 1,
        build: "fake".to_owned(),
        boot_nonce: 7,
        ..Hello::default()
    }
}

pub(super) fn main_state(run: u64, incarnation: u64, exit: Option<i32>) -> MainState {
    let exited = exit.map(|code| Exited { code, finished_at_ms: 5, ..Exited::default() });
    MainState { run, incarnation, restart: 0, exited }
}

impl Peer {
    pub(super) fn new(stream: impl SessionStream + 'static) -> Self {
        let stream = Box::new(stream);
        Self { stream, decoder: Decoder::new(), pongs: Arc::new(AtomicBool::new(true)) }
    }

    pub(super) async fn bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    pub(super) async fn frame(&mut self, frame: Encoded) {
        self.try_frame(frame).await.unwrap();
    }

    /// As [`frame`](Self::frame), where the gateway may have closed the session.
    pub(super) async fn try_frame(&mut self, mut frame: Encoded) -> std::io::Result<()> {
        self.stream.write_all_buf(&mut frame).await
    }

    pub(super) async fn say(&mut self, kind: Kind, stream: u32, message: &impl Message) {
        self.frame(Encoded::message(kind, stream, message).unwrap()).await;
    }

    /// The next frame but pings; `None`: the gateway closed the session.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some(frame) = self.decoder.next_frame() {
                if frame.kind() != Some(Kind::Ping) {
                    return Some(frame);
                }
                if self.pongs.load(Ordering::Relaxed) {
                    let mut pong = Encoded::raw(Kind::Pong, 0, frame.payload).unwrap();
                    // A session that has ended meanwhile is seen by the next read.
                    let _sent = self.stream.write_all_buf(&mut pong).await;
                }
            }
            match self.stream.read_buf(self.decoder.space()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next frame but pings has to be of this kind.
    pub(super) async fn expect<M: Message + Default>(&mut self, kind: Kind) -> (u32, M) {
        let frame = self.next().await.expect("the session ended");
        assert_eq!(frame.kind(), Some(kind));
        (frame.stream, frame.decode().unwrap())
    }

    pub(super) async fn expect_empty(&mut self, kind: Kind) -> u32 {
        let frame = self.next().await.expect("the session ended");
        assert_eq!(frame.kind(), Some(kind));
        frame.stream
    }

    pub(super) async fn expect_data(&mut self) -> StreamBytes {
        let frame = self.next().await.expect("the session ended");
        assert_eq!(frame.kind(), Some(Kind::ExecData));
        frame.stream_bytes().unwrap()
    }

    /// Says `hello` and reads the answer.
    pub(super) async fn greet(&mut self, hello: &Hello) -> Welcome {
        self.say(Kind::Hello, 0, hello).await;
        self.expect(Kind::Welcome).await.1
    }

    /// Answers an opening: attached, from these offsets.
    pub(super) async fn attach(&mut self, stream: u32, offsets: [u64; 3]) {
        let [stdin_offset, stdout_offset, stderr_offset] = offsets;
        let attached = ExecAttached {
            stdin_offset,
            stdout_offset,
            stderr_offset,
            pid: 9,
            ..ExecAttached::default()
        };
        self.say(Kind::ExecAttached, stream, &attached).await;
    }

    pub(super) async fn output(
        &mut self,
        stream: u32,
        channel: Channel,
        offset: u64,
        bytes: Bytes,
    ) {
        let data = StreamBytes { channel, offset, bytes };
        self.frame(Encoded::stream_bytes(stream, data).unwrap()).await;
    }

    pub(super) async fn end(&mut self, stream: u32, channel: Channel, offset: u64) {
        let eof = ExecEof { channel: channel as u32, offset };
        self.say(Kind::ExecEof, stream, &eof).await;
    }

    pub(super) async fn exit(&mut self, stream: u32, code: i32) {
        let exited = Some(Exited { code, finished_at_ms: 5, ..Exited::default() });
        self.say(Kind::ExecExited, stream, &ExecExited { exited }).await;
    }
}
