//! A supervisor that breaks every rule: it hurts its own exec or session, and nothing grows.

use bytes::Bytes;
use sandkeep_core::Session;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecAttached, ExecEof, ExecOpen, Go, Hello, Refused, Welcome,
};
use sandkeep_frames::{Encoded, Kind};

use super::peer::{Peer, hello};
use super::world::{World, spec};
use sandkeep_gateway::session::{ExecOutput, ExecRequest, ExecStream};
use sandkeep_gateway::sessions::{SessionError, Sessions};

async fn open(world: &World, peer: &mut Peer, id: &str) -> (ExecStream, u32) {
    let request = ExecRequest {
        exec_id: id.to_owned(),
        argv: vec!["true".to_owned()],
        ..ExecRequest::default()
    };
    let exec = world.hub.exec_open(&world.id, &spec(), request).unwrap();
    let (stream, _) = peer.expect::<ExecOpen>(Kind::ExecOpen).await;
    (exec, stream)
}

/// The exec's client ends with a protocol error, and the supervisor hears that nobody listens.
async fn closed_for_cause(exec: &ExecStream, peer: &mut Peer, stream: u32) {
    let error = loop {
        match exec.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a good end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, SessionError::Refused { reason, .. } if reason == "Protocol"));
    assert_eq!(peer.expect_empty(Kind::ExecDetach).await, stream);
}

async fn misbehave(peer: &mut Peer, stream: u32, how: usize) {
    let byte = || Bytes::from_static(b"x");
    match how {
        0 => peer.output(stream, Channel::Stdout, 0, byte()).await,
        1 => peer.exit(stream, 0).await,
        2 => peer.end(stream, Channel::Stdout, 0).await,
        _ => peer.attach(stream, [0, 0, 0]).await,
    }
    match how {
        3 => peer.attach(stream, [0, 0, 0]).await,
        4 => peer.output(stream, Channel::Stdout, 1, byte()).await,
        5 => peer.output(stream, Channel::Stdout, u64::MAX, byte()).await,
        6 => peer.output(stream, Channel::Stdin, 0, byte()).await,
        7 => peer.end(stream, Channel::Stderr, 1).await,
        8 => {
            peer.end(stream, Channel::Stderr, 0).await;
            peer.output(stream, Channel::Stderr, 0, byte()).await;
        }
        9 => peer.say(Kind::ExecAck, stream, &ExecAck { channel: 0, offset: 1 }).await,
        10 => peer.say(Kind::ExecAck, stream, &ExecAck { channel: 1, offset: 0 }).await,
        11 => peer.say(Kind::ExecEof, stream, &ExecEof { channel: 9, offset: 0 }).await,
        12 => {
            let chunk = Bytes::from(vec![0; 256 * 1024]);
            for at in 0..5 {
                peer.output(stream, Channel::Stdout, at * 256 * 1024, chunk.clone()).await;
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn breaking_an_execs_rules_closes_that_exec_only() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (bystander, by) = open(&world, &mut peer, "bystander").await;
    for how in 0..=12 {
        let (exec, stream) = open(&world, &mut peer, "victim").await;
        misbehave(&mut peer, stream, how).await;
        closed_for_cause(&exec, &mut peer, stream).await;
    }
    peer.attach(by, [0, 0, 0]).await;
    assert!(matches!(bystander.next().await, Ok(Some(ExecOutput::Attached { .. }))));
}

#[tokio::test]
async fn output_from_before_the_offset_that_was_asked_for_is_refused() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let exec = world.hub.exec_attach(&world.id, "e", 100, 0).unwrap();
    let stream = peer.next().await.unwrap().stream;
    peer.attach(stream, [0, 99, 0]).await;
    closed_for_cause(&exec, &mut peer, stream).await;
}

#[tokio::test]
async fn single_bytes_take_no_more_memory_than_chunks() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (exec, stream) = open(&world, &mut peer, "e").await;
    peer.attach(stream, [0, 0, 0]).await;
    for at in 0..20_000 {
        peer.output(stream, Channel::Stdout, at, Bytes::from_static(b"o")).await;
        peer.output(stream, Channel::Stderr, at, Bytes::from_static(b"e")).await;
    }
    peer.exit(stream, 0).await;
    let (mut pieces, mut bytes) = (0, 0);
    // Only look once everything is there, as a client that stalls would.
    let (_after, _) = open(&world, &mut peer, "after").await;
    while let Some(output) = exec.next().await.unwrap() {
        if let ExecOutput::Stdout { bytes: piece, .. } | ExecOutput::Stderr { bytes: piece, .. } =
            output
        {
            pieces += 1;
            bytes += piece.len();
        }
    }
    assert_eq!(bytes, 40_000);
    assert!(pieces < 200, "{pieces} pieces");
}

#[tokio::test]
async fn long_words_of_a_supervisor_are_cut() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (exec, stream) = open(&world, &mut peer, "e").await;
    let refused = ExecAttached {
        refused: "ä".repeat(50_000),
        message: "ö".repeat(50_000),
        ..ExecAttached::default()
    };
    peer.say(Kind::ExecAttached, stream, &refused).await;
    let Err(SessionError::Refused { reason, message }) = exec.next().await else {
        panic!("not refused");
    };
    assert!(reason.len() <= 1024 && message.len() <= 1024);
}

async fn is_thrown_out(world: &World, peer: &mut Peer) {
    loop {
        let Some(frame) = peer.next().await else { break };
        if frame.kind() == Some(Kind::Refused) {
            assert_eq!(frame.decode::<Refused>().unwrap().reason, "Protocol");
        }
    }
    world.until(|session| !matches!(session, Session::Connected { .. })).await;
}

#[tokio::test]
async fn what_only_a_gateway_may_say_ends_the_session() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    peer.say(Kind::Go, 0, &Go::default()).await;
    is_thrown_out(&world, &mut peer).await;
    let mut peer = world.connected(1).await;
    peer.say(Kind::Welcome, 0, &Welcome::default()).await;
    is_thrown_out(&world, &mut peer).await;
    let mut peer = world.connected(1).await;
    peer.say(Kind::Hello, 0, &hello()).await;
    is_thrown_out(&world, &mut peer).await;
    let mut peer = world.connected(1).await;
    peer.frame(Encoded::raw(Kind::MainState, 0, Bytes::from_static(&[0xff; 30])).unwrap()).await;
    is_thrown_out(&world, &mut peer).await;
}

#[tokio::test]
async fn anything_but_hello_first_is_refused() {
    let world = World::new();
    world.want(1);
    let mut peer = world.dial(1);
    peer.say(Kind::MainState, 0, &super::peer::main_state(1, 1, Some(0))).await;
    is_thrown_out(&world, &mut peer).await;
    assert_eq!(world.hub.result(&world.id), None);
}

#[tokio::test]
async fn noise_is_skipped_until_it_is_nothing_but_noise() {
    let world = World::new();
    world.want(1);
    let mut peer = world.dial(1);
    peer.bytes(b"a greeting of the engine\r\n").await.unwrap();
    peer.greet(&hello()).await;
    let noise = vec![0xF5; 64 * 1024];
    while peer.bytes(&noise).await.is_ok() {}
    world.until(|session| matches!(session, Session::Lost { .. })).await;
}

#[tokio::test]
async fn unknown_kinds_are_skipped() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let mut bytes = Vec::new();
    let frame = Encoded::empty(Kind::UsageAsk, 0);
    for piece in frame.pieces() {
        bytes.extend_from_slice(piece);
    }
    bytes[5] = 200;
    let sum = crc32(&bytes[..16]);
    bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    peer.bytes(&bytes).await.unwrap();
    world.hub.go(&world.id, world.order(1, 1)).await.unwrap();
    peer.expect::<Go>(Kind::Go).await;
}

/// The bitwise definition, so that no dependency is needed for one test.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

#[tokio::test]
async fn a_flood_of_pings_that_nobody_reads_answers_to_grows_nothing() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    // The reader takes them all though the writer is stuck: the pipe back is full.
    for _ in 0..20_000 {
        peer.frame(Encoded::raw(Kind::Ping, 0, Bytes::from(vec![1; 1024])).unwrap()).await;
    }
    drop(peer);
    world.until(|session| matches!(session, Session::Lost { .. })).await;
}

#[tokio::test]
async fn a_hello_with_absurd_numbers_is_taken_for_what_it_is() {
    let world = World::new();
    world.want(1);
    let mut peer = world.dial(1);
    let mut absurd = Hello { newest_version: u32::MAX, boot_nonce: u64::MAX, ..hello() };
    absurd.main = Some(super::peer::main_state(u64::MAX, 1, Some(i32::MIN)));
    let welcome = peer.greet(&absurd).await;
    assert_eq!(welcome.version, sandkeep_frames::VERSION);
    world.until(|session| matches!(session, Session::Connected { .. })).await;
    let result = world.hub.result(&world.id).unwrap();
    assert_eq!((result.code, result.signal), (0, None));
}
