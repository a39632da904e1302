//! How fast bytes pass through the hub, with a supervisor played by a task and with a real one; and
//! what sessions cost at rest.
//!
//! `cargo bench -p sandkeep-gateway --bench sessions`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is a measurement")]
#![allow(dead_code, reason = "the tests use more of what they share with this")]

#[path = "../tests/sessions/peer.rs"]
mod peer;
#[path = "../tests/sessions/process.rs"]
mod process;
#[path = "../tests/sessions/world.rs"]
mod world;

use std::time::Duration;

use bytes::Bytes;
use sandkeep_core::Session;
use sandkeep_frames::message::{Channel, ExecAck, ExecOpen};
use sandkeep_frames::{CHUNK_BYTES, Kind, WINDOW_BYTES};
use sandkeep_gateway::session::{ExecInput, ExecOutput, ExecRequest, ExecStream};
use tokio::time::Instant;

use peer::{Peer, hello};
use process::{Real, shell};
use world::{World, spec};

const TOTAL: u64 = 1 << 30;
const CHUNK: u64 = CHUNK_BYTES as u64;

/// A client acknowledges this often, as the command line does.
const ACK_EVERY: u64 = WINDOW_BYTES / 4;

fn main() {
    // `cargo test --all-targets` runs this too, and is not the time to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    runtime().block_on(with_a_played_supervisor());
    runtime().block_on(with_a_real_supervisor());
    runtime().block_on(at_rest());
}

/// A supervisor of incarnation 1, over a real socket.
fn dial_socket(world: &World) -> Peer {
    let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
    world.hand_over(1, theirs);
    Peer::new(ours)
}

fn report(what: &str, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {:.0} MB/s", TOTAL as f64 / 1e6 / seconds);
}

async fn with_a_played_supervisor() {
    let world = World::new();
    world.want(1);
    let mut peer = dial_socket(&world);
    peer.greet(&hello()).await;
    world.until(|session| matches!(session, Session::Connected { .. })).await;
    let request = ExecRequest {
        exec_id: "e".to_owned(),
        argv: vec!["cat".to_owned()],
        stdin: true,
        ..ExecRequest::default()
    };
    let exec = world.hub.exec_open(&world.id, &spec(), request).unwrap();
    let (stream, _) = peer.expect::<ExecOpen>(Kind::ExecOpen).await;
    peer.attach(stream, [0, 0, 0]).await;

    let began = Instant::now();
    let supervisor = tokio::spawn(play_output(peer, stream));
    take_output(&exec).await;
    let peer = supervisor.await.unwrap();
    report("hub alone, output", began);

    let began = Instant::now();
    let supervisor = tokio::spawn(play_stdin(peer, stream));
    give_stdin(&exec).await;
    supervisor.await.unwrap();
    report("hub alone, stdin", began);
}

async fn with_a_real_supervisor() {
    let real = Real::new().await;
    let exec = real.open(shell("out", "head -c 1073741824 /dev/zero"));
    let began = Instant::now();
    take_output(&exec).await;
    report("real supervisor, output", began);
    let exec = real.open(shell("in", "cat >/dev/null"));
    let began = Instant::now();
    give_stdin(&exec).await;
    report("real supervisor, stdin", began);
}

async fn play_output(mut peer: Peer, stream: u32) -> Peer {
    let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
    let (mut sent, mut acked) = (0, 0);
    while acked < TOTAL {
        if sent < TOTAL && sent + CHUNK <= acked + WINDOW_BYTES {
            peer.output(stream, Channel::Stdout, sent, chunk.clone()).await;
            sent += CHUNK;
        } else {
            acked = peer.expect::<ExecAck>(Kind::ExecAck).await.1.offset;
        }
    }
    peer
}

async fn play_stdin(mut peer: Peer, stream: u32) {
    let (mut taken, mut acked) = (0, 0);
    while taken < TOTAL {
        let data = peer.expect_data().await;
        taken = data.offset + data.bytes.len() as u64;
        if taken >= acked + ACK_EVERY || taken == TOTAL {
            acked = taken;
            let ack = ExecAck { channel: Channel::Stdin as u32, offset: taken };
            peer.say(Kind::ExecAck, stream, &ack).await;
        }
    }
}

async fn take_output(exec: &ExecStream) {
    let (mut taken, mut acked) = (0, 0);
    while taken < TOTAL {
        if let Some(ExecOutput::Stdout { offset, bytes }) = exec.next().await.unwrap() {
            taken = offset + bytes.len() as u64;
        }
        if taken >= acked + ACK_EVERY || taken == TOTAL {
            acked = taken;
            exec.send(ExecInput::Ack { channel: Channel::Stdout, offset: taken }).unwrap();
        }
    }
}

async fn give_stdin(exec: &ExecStream) {
    let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
    let (mut sent, mut acked) = (0, 0);
    while acked < TOTAL {
        if sent < TOTAL && sent + CHUNK <= acked + WINDOW_BYTES {
            exec.send(ExecInput::Stdin { offset: sent, bytes: chunk.clone() }).unwrap();
            sent += CHUNK;
        } else if let Some(ExecOutput::StdinAck { offset }) = exec.next().await.unwrap() {
            acked = offset;
        }
    }
}

/// Resident memory of this process in bytes, and CPU time in hundredths of a second.
fn usage() -> (u64, u64) {
    let field = |path: &str, at: usize| -> u64 {
        let text = std::fs::read_to_string(path).unwrap();
        text.split_whitespace().nth(at).unwrap().parse().unwrap()
    };
    let ticks = field("/proc/self/stat", 13) + field("/proc/self/stat", 14);
    (field("/proc/self/statm", 1) * 4096, ticks)
}

async fn at_rest() {
    let world = World::new();
    let (before, _) = usage();
    let mut quiet = Vec::new();
    for number in 0..1000 {
        let one = world.beside(number);
        one.want(1);
        let mut peer = dial_socket(&one);
        peer.greet(&hello()).await;
        tokio::spawn(async move { while peer.next().await.is_some() {} });
        quiet.push(one);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (after, began) = usage();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, ended) = usage();
    println!("an idle session, both ends: {} bytes", after.saturating_sub(before) / 1000);
    println!("1000 idle sessions for 60 s, both ends: {} ms of CPU", (ended - began) * 10);
}
