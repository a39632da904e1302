//! Properties: whatever a supervisor sends, in whatever order, its own session is all it hurts.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use sandkeep_core::Session;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecAttached, ExecEof, ExecExited, Exited, LogData, MainState, StreamBytes,
};
use sandkeep_frames::{Encoded, Kind, WINDOW_BYTES};

use super::peer::{Peer, hello};
use super::world::{World, spec};
use sandkeep_gateway::session::{ExecInput, ExecOutput, ExecRequest, ExecStream, LogQuery};

/// Something that a supervisor may send.
#[derive(Debug, Clone)]
enum Sent {
    Noise(Vec<u8>),
    Any {
        kind: u8,
        stream: u32,
        payload: Vec<u8>,
    },
    Attached {
        stream: u32,
        offsets: [u64; 3],
        refused: bool,
    },
    Data {
        stream: u32,
        channel: u8,
        offset: u64,
        length: usize,
    },
    /// Goes on from the last good offset: the way deeper in.
    MoreData {
        stream: u32,
        length: usize,
    },
    Ack {
        stream: u32,
        channel: u32,
        offset: u64,
    },
    End {
        stream: u32,
        channel: u32,
        offset: u64,
    },
    Exited {
        stream: u32,
        code: i32,
    },
    Main {
        run: u64,
        incarnation: u64,
        restart: u32,
        exited: Option<i32>,
    },
    Log {
        source: String,
        offset: u64,
        entries: Vec<u8>,
        complete: bool,
    },
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        2 => 0..10u64,
        1 => Just(WINDOW_BYTES),
        1 => Just(WINDOW_BYTES + 1),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    let stream = || prop_oneof![16 => Just(1), 8 => 2..4u32, 1 => Just(0), 1 => any::<u32>()];
    let source = prop_oneof!["main-[1-3]", "[a-z]{1,3}", "[./A-Z]{0,80}"];
    prop_oneof![
        1 => vec(any::<u8>(), 0..300).prop_map(Sent::Noise),
        1 => (any::<u8>(), stream(), vec(any::<u8>(), 0..100))
            .prop_map(|(kind, stream, payload)| Sent::Any { kind, stream, payload }),
        8 => (stream(), [offset(), offset(), offset()], prop::bool::weighted(0.1))
            .prop_map(|(stream, offsets, refused)| Sent::Attached { stream, offsets, refused }),
        4 => (stream(), 0..4u8, offset(), 0..300_000usize).prop_map(
            |(stream, channel, offset, length)| Sent::Data { stream, channel, offset, length }
        ),
        16 => (stream(), 0..200_000usize).prop_map(|(stream, length)| Sent::MoreData { stream, length }),
        4 => (stream(), 0..4u32, offset()).prop_map(|(stream, channel, offset)| Sent::Ack {
            stream,
            channel,
            offset
        }),
        4 => (stream(), 0..4u32, offset()).prop_map(|(stream, channel, offset)| Sent::End {
            stream,
            channel,
            offset
        }),
        2 => (stream(), any::<i32>()).prop_map(|(stream, code)| Sent::Exited { stream, code }),
        4 => (offset(), offset(), any::<u32>(), any::<Option<i32>>()).prop_map(
            |(run, incarnation, restart, exited)| Sent::Main { run, incarnation, restart, exited }
        ),
        4 => (source, offset(), vec(any::<u8>(), 0..200), any::<bool>()).prop_map(
            |(source, offset, entries, complete)| Sent::Log { source, offset, entries, complete }
        ),
    ]
}

fn encoded(sent: Sent, next: &mut u64) -> Option<Encoded> {
    match sent {
        Sent::Noise(_) => None,
        Sent::Any { kind, stream, payload } => {
            let kind = Kind::from_raw(kind % 40)?;
            Encoded::raw(kind, stream, payload.into()).ok()
        }
        Sent::Attached {
            stream,
            offsets: [stdin_offset, stdout_offset, stderr_offset],
            refused,
        } => {
            *next = stdout_offset;
            let refused = if refused { "NotFound" } else { "" }.to_owned();
            let attached = ExecAttached {
                refused,
                stdin_offset,
                stdout_offset,
                stderr_offset,
                ..ExecAttached::default()
            };
            Encoded::message(Kind::ExecAttached, stream, &attached).ok()
        }
        Sent::Data { stream, channel, offset, length } => {
            let channel = Channel::from_raw(channel.into())?;
            let bytes = Bytes::from(vec![b'd'; length]);
            Encoded::stream_bytes(stream, StreamBytes { channel, offset, bytes }).ok()
        }
        Sent::MoreData { stream, length } => {
            let (channel, offset) = (Channel::Stdout, *next);
            *next = next.saturating_add(length as u64);
            let bytes = Bytes::from(vec![b'm'; length]);
            Encoded::stream_bytes(stream, StreamBytes { channel, offset, bytes }).ok()
        }
        Sent::Ack { stream, channel, offset } => {
            Encoded::message(Kind::ExecAck, stream, &ExecAck { channel, offset }).ok()
        }
        Sent::End { stream, channel, offset } => {
            Encoded::message(Kind::ExecEof, stream, &ExecEof { channel, offset }).ok()
        }
        Sent::Exited { stream, code } => {
            let exited = Some(Exited { code, signal: code, ..Exited::default() });
            Encoded::message(Kind::ExecExited, stream, &ExecExited { exited }).ok()
        }
        Sent::Main { run, incarnation, restart, exited } => {
            let exited = exited.map(|code| Exited { code, ..Exited::default() });
            let state = MainState { run, incarnation, restart, exited };
            Encoded::message(Kind::MainState, 0, &state).ok()
        }
        Sent::Log { source, offset, entries, complete } => {
            let data = LogData { source, offset, entries: entries.into(), complete };
            Encoded::message(Kind::LogData, 0, &data).ok()
        }
    }
}

fn request(id: &str) -> ExecRequest {
    ExecRequest {
        exec_id: id.to_owned(),
        argv: vec!["true".to_owned()],
        stdin: true,
        ..ExecRequest::default()
    }
}

/// What a client sees is a clean stream whatever was sent: attached once, no holes, one end. It
/// never acknowledges, so a window is all it can ever get.
async fn read_as_a_client(exec: ExecStream) {
    let mut expect: Option<[u64; 2]> = None;
    let mut taken = [0, 0];
    let mut over = false;
    while let Ok(Some(output)) = exec.next().await {
        assert!(!over, "something after the exit");
        let (channel, offset, length) = match output {
            ExecOutput::Attached { stdin_offset, stdout_offset, stderr_offset, .. } => {
                assert_eq!(expect.replace([stdout_offset, stderr_offset]), None);
                let stdin = ExecInput::Stdin { offset: stdin_offset, bytes: vec![1; 9].into() };
                // Refused near the end of all numbers; the session may have gone.
                let _sent = exec.send(stdin);
                continue;
            }
            ExecOutput::Stdout { offset, bytes } => (0, offset, bytes.len() as u64),
            ExecOutput::Stderr { offset, bytes } => (1, offset, bytes.len() as u64),
            ExecOutput::StdoutEnd { offset } => (0, offset, 0),
            ExecOutput::StderrEnd { offset } => (1, offset, 0),
            ExecOutput::StdinAck { .. } => continue,
            ExecOutput::Exited(exit) => {
                assert!((0..=255).contains(&exit.code));
                over = true;
                continue;
            }
        };
        let next = &mut expect.as_mut().expect("output before attached")[channel];
        assert_eq!(*next, offset);
        *next += length;
        taken[channel] += length;
        assert!(taken[channel] <= WINDOW_BYTES);
    }
}

async fn storm(sent: Vec<Sent>) {
    let world = World::new();
    let neighbour = world.beside(2);
    let mut quiet = neighbour.connected(1).await;
    let mut peer = world.connected(1).await;
    let execs = ["a", "b", "c"].map(|id| world.hub.exec_open(&world.id, &spec(), request(id)));
    let clients: Vec<_> =
        execs.into_iter().map(|exec| tokio::spawn(read_as_a_client(exec.unwrap()))).collect();

    let mut next = 0;
    for sent in sent {
        let sent_on = match &sent {
            Sent::Noise(noise) => peer.bytes(noise).await,
            _ => match encoded(sent, &mut next) {
                Some(frame) => peer.try_frame(frame).await,
                None => Ok(()),
            },
        };
        if sent_on.is_err() {
            break;
        }
    }
    drop(peer);
    world.until(|session| matches!(session, Session::Lost { .. })).await;
    for client in clients {
        client.await.unwrap();
    }
    // It can come back, and its logs can be read, whatever is in them.
    let _again = world.connected(1).await;
    for source in world.hub.logs().sources(&world.id).await.unwrap() {
        let query = LogQuery { source: Some(source), ..LogQuery::default() };
        let mut log = world.hub.logs().read(&world.id, query).await.unwrap();
        while let Some(entry) = futures::StreamExt::next(&mut log).await {
            entry.unwrap();
        }
    }
    serve_one(&neighbour, &mut quiet).await;
}

/// The neighbour never noticed anything.
async fn serve_one(world: &World, peer: &mut Peer) {
    let exec = world.hub.exec_open(&world.id, &spec(), request("n")).unwrap();
    let stream = peer.next().await.unwrap().stream;
    peer.attach(stream, [0, 0, 0]).await;
    peer.exit(stream, 0).await;
    let mut seen = 0;
    while exec.next().await.unwrap().is_some() {
        seen += 1;
    }
    assert_eq!((seen, hello().boot_nonce), (2, 7));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_supervisor_sends_hurts_its_own_session_only(sent in vec(sent(), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(storm(sent));
    }
}
