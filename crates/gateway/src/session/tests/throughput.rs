//! How fast bytes pass through the hub, over a real socket with a supervisor played by a task; and
//! what sessions cost at rest.
//!
//! `cargo test --release -p sandkeep-gateway --lib throughput -- --ignored --nocapture`

use bytes::Bytes;
use sandkeep_frames::message::{Channel, ExecAck, ExecOpen};
use sandkeep_frames::{CHUNK_BYTES, Kind, WINDOW_BYTES};
use tokio::time::Instant;

use super::peer::hello;
use super::world::{World, spec};
use crate::session::{ExecInput, ExecOutput, ExecRequest};

const TOTAL: u64 = 1 << 30;

/// A client acknowledges this often, as the command line does.
const ACK_EVERY: u64 = WINDOW_BYTES / 4;

fn print(what: &str, began: Instant) {
    let rate = TOTAL as f64 / 1e6 / began.elapsed().as_secs_f64();
    println!("{what}: {rate:.0} MB/s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, not a check"]
async fn throughput_of_output_and_stdin() {
    let world = World::new();
    world.want(1);
    let mut peer = world.dial_socket(1);
    peer.greet(&hello()).await;
    world.until(|session| matches!(session, sandkeep_core::Session::Connected { .. })).await;
    let request = ExecRequest {
        exec_id: "e".to_owned(),
        argv: vec!["cat".to_owned()],
        stdin: true,
        ..ExecRequest::default()
    };
    let exec = world.hub.exec_open(&world.id, &spec(), request).unwrap();
    let (stream, _) = peer.expect::<ExecOpen>(Kind::ExecOpen).await;
    peer.attach(stream, [0, 0, 0]).await;
    exec.next().await.unwrap();

    let began = Instant::now();
    let supervisor = tokio::spawn(async move {
        let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
        let (mut sent, mut acked) = (0, 0);
        while sent < TOTAL {
            while sent + CHUNK_BYTES as u64 > acked + WINDOW_BYTES {
                acked = peer.expect::<ExecAck>(Kind::ExecAck).await.1.offset;
            }
            peer.output(stream, Channel::Stdout, sent, chunk.clone()).await;
            sent += chunk.len() as u64;
        }
        while acked < TOTAL {
            acked = peer.expect::<ExecAck>(Kind::ExecAck).await.1.offset;
        }
        peer
    });
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
    let mut peer = supervisor.await.unwrap();
    print("output", began);

    let began = Instant::now();
    let supervisor = tokio::spawn(async move {
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
    });
    let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
    let (mut sent, mut acked) = (0, 0);
    while sent < TOTAL {
        while sent + CHUNK_BYTES as u64 > acked + WINDOW_BYTES {
            if let Some(ExecOutput::StdinAck { offset }) = exec.next().await.unwrap() {
                acked = offset;
            }
        }
        exec.send(ExecInput::Stdin { offset: sent, bytes: chunk.clone() }).unwrap();
        sent += chunk.len() as u64;
    }
    supervisor.await.unwrap();
    print("stdin", began);
}

/// Resident memory of this process in bytes, and CPU time in clock ticks.
fn usage() -> (u64, u64) {
    let field = |path: &str, at: usize| -> u64 {
        let text = std::fs::read_to_string(path).unwrap();
        text.split_whitespace().nth(at).unwrap().parse().unwrap()
    };
    let ticks = field("/proc/self/stat", 13) + field("/proc/self/stat", 14);
    (field("/proc/self/statm", 1) * 4096, ticks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, not a check"]
async fn throughput_at_rest_of_a_thousand_sessions() {
    let world = World::new();
    let (before, _) = usage();
    let mut quiet = Vec::new();
    for number in 0..1000 {
        let one = world.beside(number);
        one.want(1);
        let mut peer = one.dial_socket(1);
        peer.greet(&hello()).await;
        tokio::spawn(async move { while peer.next().await.is_some() {} });
        quiet.push(one);
    }
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let (after, began) = usage();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let (_, ended) = usage();
    println!("a session: {} bytes, both ends", (after - before) / 1000);
    println!("CPU over 60 s at rest, both ends: {} ms", (ended - began) * 10);
}
