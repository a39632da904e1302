//! Execs: opening, windows, endings.

use bytes::Bytes;
use sandkeep_core::Session;
use sandkeep_frames::message::{Channel, ExecAck, ExecAttach, ExecAttached, ExecEof, ExecOpen};
use sandkeep_frames::message::{ExecResize, ExecSignal};
use sandkeep_frames::{Kind, WINDOW_BYTES};

use super::peer::Peer;
use super::world::{World, spec};
use sandkeep_gateway::session::{ExecInput, ExecOutput, ExecRequest, ExecStream};
use sandkeep_gateway::sessions::SessionError;

fn request(id: &str) -> ExecRequest {
    ExecRequest { exec_id: id.to_owned(), argv: vec!["true".to_owned()], ..ExecRequest::default() }
}

/// An exec that is open on both sides.
async fn open(world: &World, peer: &mut Peer) -> (ExecStream, u32) {
    let exec = world.hub.exec_open(&world.id, &spec(), request("e1")).unwrap();
    let (stream, _) = peer.expect::<ExecOpen>(Kind::ExecOpen).await;
    peer.attach(stream, [0, 0, 0]).await;
    assert!(matches!(exec.next().await, Ok(Some(ExecOutput::Attached { pid: 9, .. }))));
    (exec, stream)
}

#[tokio::test]
async fn an_exec_runs_from_open_to_exit() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let more = ExecRequest {
        env: vec!["B=3".to_owned(), "C=x=y".to_owned()],
        workdir: Some("/tmp".to_owned()),
        ..request("e1")
    };
    let exec = world.hub.exec_open(&world.id, &spec(), more).unwrap();
    let (stream, opened) = peer.expect::<ExecOpen>(Kind::ExecOpen).await;
    let process = opened.process.unwrap();
    assert_eq!((opened.exec_id.as_str(), opened.detached), ("e1", false));
    assert_eq!(process.env, ["A=1", "B=3", "C=x=y"]);
    assert_eq!((process.user.as_str(), process.workdir.as_str()), ("1000", "/tmp"));
    assert!(process.attached && !process.keep_output);

    peer.attach(stream, [0, 0, 0]).await;
    peer.output(stream, Channel::Stdout, 0, Bytes::from_static(b"out")).await;
    peer.output(stream, Channel::Stderr, 0, Bytes::from_static(b"err")).await;
    peer.end(stream, Channel::Stdout, 3).await;
    peer.end(stream, Channel::Stderr, 3).await;
    peer.exit(stream, 4).await;
    let mut seen = Vec::new();
    while let Some(output) = exec.next().await.unwrap() {
        seen.push(output);
    }
    let data = |bytes: &'static [u8]| Bytes::from_static(bytes);
    assert!(matches!(seen[0], ExecOutput::Attached { .. }));
    assert_eq!(seen[1], ExecOutput::Stdout { offset: 0, bytes: data(b"out") });
    assert_eq!(seen[2], ExecOutput::Stderr { offset: 0, bytes: data(b"err") });
    assert_eq!(seen[3], ExecOutput::StdoutEnd { offset: 3 });
    assert_eq!(seen[4], ExecOutput::StderrEnd { offset: 3 });
    assert!(matches!(&seen[5], ExecOutput::Exited(exit) if exit.code == 4));
    assert_eq!(seen.len(), 6);

    exec.send(ExecInput::Forget).unwrap();
    drop(exec);
    assert_eq!(peer.expect_empty(Kind::ExecForget).await, stream);
    // And no ExecDetach after it: the next frame is the next exec's.
    let _next = world.hub.exec_open(&world.id, &spec(), request("e2")).unwrap();
    peer.expect::<ExecOpen>(Kind::ExecOpen).await;
}

#[tokio::test]
async fn stdin_goes_in_up_to_the_window_and_on_with_each_acknowledgement() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (exec, stream) = open(&world, &mut peer).await;
    let window = usize::try_from(WINDOW_BYTES).unwrap();
    let send = |offset: u64, length: usize| {
        exec.send(ExecInput::Stdin { offset, bytes: Bytes::from(vec![7; length]) })
    };
    send(0, window).unwrap();
    assert!(matches!(send(WINDOW_BYTES, 1), Err(SessionError::Refused { .. })));
    let mut taken = 0;
    while taken < WINDOW_BYTES {
        let data = peer.expect_data().await;
        assert_eq!((data.channel, data.offset), (Channel::Stdin, taken));
        taken += data.bytes.len() as u64;
    }
    let ack = ExecAck { channel: Channel::Stdin as u32, offset: 10 };
    peer.say(Kind::ExecAck, stream, &ack).await;
    assert_eq!(exec.next().await, Ok(Some(ExecOutput::StdinAck { offset: 10 })));
    assert!(matches!(send(WINDOW_BYTES, 11), Err(SessionError::Refused { .. })));
    assert!(matches!(send(WINDOW_BYTES + 1, 1), Err(SessionError::Refused { .. })));
    send(WINDOW_BYTES, 10).unwrap();
    exec.send(ExecInput::StdinEnd { offset: WINDOW_BYTES + 10 }).unwrap();
    assert_eq!(peer.expect_data().await.bytes.len(), 10);
    let (_, eof) = peer.expect::<ExecEof>(Kind::ExecEof).await;
    assert_eq!((eof.channel, eof.offset), (0, WINDOW_BYTES + 10));
    assert!(matches!(send(WINDOW_BYTES + 10, 1), Err(SessionError::Refused { .. })));
}

#[tokio::test]
async fn resize_signal_and_acknowledgement_reach_the_supervisor() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (exec, stream) = open(&world, &mut peer).await;
    exec.send(ExecInput::Resize { rows: 50, columns: 120 }).unwrap();
    let (_, size) = peer.expect::<ExecResize>(Kind::ExecResize).await;
    assert_eq!((size.rows, size.columns), (50, 120));
    exec.send(ExecInput::Signal(15)).unwrap();
    assert_eq!(peer.expect::<ExecSignal>(Kind::ExecSignal).await.1.signal, 15);
    assert!(matches!(exec.send(ExecInput::Signal(65)), Err(SessionError::Refused { .. })));
    peer.output(stream, Channel::Stdout, 0, Bytes::from_static(b"12345")).await;
    exec.next().await.unwrap();
    exec.send(ExecInput::Ack { channel: Channel::Stdout, offset: 5 }).unwrap();
    let (_, ack) = peer.expect::<ExecAck>(Kind::ExecAck).await;
    assert_eq!((ack.channel, ack.offset), (1, 5));
    let beyond = ExecInput::Ack { channel: Channel::Stdout, offset: 6 };
    assert!(matches!(exec.send(beyond), Err(SessionError::Refused { .. })));
}

#[tokio::test]
async fn a_client_that_stalls_stops_its_own_exec_only() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (stalled, stream) = open(&world, &mut peer).await;
    let chunk = Bytes::from(vec![1; 64 * 1024]);
    let mut offset = 0;
    while offset < WINDOW_BYTES {
        peer.output(stream, Channel::Stdout, offset, chunk.clone()).await;
        offset += chunk.len() as u64;
    }
    // The window is full and nobody reads: everyone else goes on.
    let other = world.hub.exec_open(&world.id, &spec(), request("e2")).unwrap();
    let (second, _) = peer.expect::<ExecOpen>(Kind::ExecOpen).await;
    peer.attach(second, [0, 0, 0]).await;
    peer.exit(second, 0).await;
    while other.next().await.unwrap().is_some() {}
    let mut taken = 0;
    while taken < WINDOW_BYTES {
        match stalled.next().await.unwrap().unwrap() {
            ExecOutput::Stdout { bytes, .. } => taken += bytes.len() as u64,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_came_before_a_loss_is_delivered_and_an_attach_goes_on_from_there() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (exec, stream) = open(&world, &mut peer).await;
    peer.output(stream, Channel::Stdout, 0, Bytes::from_static(b"before")).await;
    drop(peer);
    world.until(|session| matches!(session, Session::Lost { .. })).await;
    assert!(matches!(exec.next().await, Ok(Some(ExecOutput::Stdout { .. }))));
    assert_eq!(exec.next().await, Err(SessionError::Lost));
    assert_eq!(exec.send(ExecInput::Signal(2)), Err(SessionError::Lost));

    let mut peer = world.connected(1).await;
    let exec = world.hub.exec_attach(&world.id, "e1", 6, 0).unwrap();
    let (stream, attach) = peer.expect::<ExecAttach>(Kind::ExecAttach).await;
    assert_eq!((attach.exec_id.as_str(), attach.stdout_offset), ("e1", 6));
    peer.attach(stream, [100, 6, 0]).await;
    peer.output(stream, Channel::Stdout, 6, Bytes::from_static(b"after")).await;
    assert!(matches!(exec.next().await, Ok(Some(ExecOutput::Attached { stdin_offset: 100, .. }))));
    assert!(matches!(exec.next().await, Ok(Some(ExecOutput::Stdout { offset: 6, .. }))));
    exec.send(ExecInput::Stdin { offset: 100, bytes: Bytes::from_static(b"x") }).unwrap();
    assert_eq!(peer.expect_data().await.offset, 100);
}

#[tokio::test]
async fn dropping_an_exec_detaches_it() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (exec, stream) = open(&world, &mut peer).await;
    drop(exec);
    assert_eq!(peer.expect_empty(Kind::ExecDetach).await, stream);
    // What the supervisor still had under way is nobody's.
    peer.output(stream, Channel::Stdout, 0, Bytes::from_static(b"late")).await;
    peer.exit(stream, 0).await;
    let (_exec, other) = open(&world, &mut peer).await;
    assert_ne!(other, stream);
}

#[tokio::test]
async fn a_client_whose_place_is_taken_is_told_so() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (first, _) = open(&world, &mut peer).await;
    let second = world.hub.exec_attach(&world.id, "e1", 0, 0).unwrap();
    let (stream, _) = peer.expect::<ExecAttach>(Kind::ExecAttach).await;
    peer.attach(stream, [0, 0, 0]).await;
    let error = first.next().await.unwrap_err();
    assert!(matches!(error, SessionError::Refused { reason, .. } if reason == "Replaced"));
    // Its end does not detach the other.
    drop(first);
    second.send(ExecInput::Signal(2)).unwrap();
    peer.expect::<ExecSignal>(Kind::ExecSignal).await;
}

#[tokio::test]
async fn a_client_that_fell_behind_gets_what_came_before_and_may_come_back() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let (exec, stream) = open(&world, &mut peer).await;
    peer.output(stream, Channel::Stdout, 0, Bytes::from_static(b"before")).await;
    let refused = ExecAttached {
        refused: "FellBehind".to_owned(),
        message: "its output was not taken".to_owned(),
        ..ExecAttached::default()
    };
    peer.say(Kind::ExecAttached, stream, &refused).await;
    assert!(matches!(exec.next().await, Ok(Some(ExecOutput::Stdout { .. }))));
    let error = exec.next().await.unwrap_err();
    assert!(matches!(error, SessionError::Refused { reason, .. } if reason == "FellBehind"));

    let back = world.hub.exec_attach(&world.id, "e1", 6, 0).unwrap();
    let (stream, _) = peer.expect::<ExecAttach>(Kind::ExecAttach).await;
    peer.attach(stream, [0, 1000, 0]).await;
    let attached = back.next().await;
    assert!(matches!(attached, Ok(Some(ExecOutput::Attached { stdout_offset: 1000, .. }))));
}

#[tokio::test]
async fn a_detached_exec_ends_once_it_is_started() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let detached = ExecRequest { detached: true, ..request("e1") };
    let exec = world.hub.exec_open(&world.id, &spec(), detached).unwrap();
    let (stream, opened) = peer.expect::<ExecOpen>(Kind::ExecOpen).await;
    let process = opened.process.unwrap();
    assert!(opened.detached && process.keep_output && !process.attached);
    peer.attach(stream, [0, 0, 0]).await;
    assert!(matches!(exec.next().await, Ok(Some(ExecOutput::Attached { .. }))));
    assert_eq!(exec.next().await, Ok(None));
}

#[tokio::test]
async fn a_refusal_of_the_supervisor_reaches_the_client() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let exec = world.hub.exec_attach(&world.id, "gone", 0, 0).unwrap();
    let (stream, _) = peer.expect::<ExecAttach>(Kind::ExecAttach).await;
    let refused = ExecAttached {
        refused: "NotFound".to_owned(),
        message: "there is no such exec".to_owned(),
        ..ExecAttached::default()
    };
    peer.say(Kind::ExecAttached, stream, &refused).await;
    let error = exec.next().await.unwrap_err();
    assert!(matches!(error, SessionError::Refused { reason, .. } if reason == "NotFound"));
}

#[tokio::test]
async fn a_bad_request_is_refused_before_it_is_sent() {
    let world = World::new();
    let _peer = world.connected(1).await;
    let check = |request: ExecRequest| {
        let refused = world.hub.exec_open(&world.id, &spec(), request).err();
        assert!(
            matches!(&refused, Some(SessionError::Refused { reason, .. }) if reason == "InvalidArgument"),
            "{refused:?}"
        );
    };
    check(request(""));
    check(request("../etc"));
    check(request(&"x".repeat(64)));
    check(ExecRequest { argv: Vec::new(), ..request("e") });
    check(ExecRequest { argv: vec!["a\0b".to_owned()], ..request("e") });
    check(ExecRequest { env: vec!["=x".to_owned()], ..request("e") });
    check(ExecRequest { env: vec!["nothing".to_owned()], ..request("e") });
    check(ExecRequest { argv: vec!["x".repeat(1024 * 1024)], ..request("e") });
    assert_eq!(
        world.hub.exec_attach(&world.id, "e", 0, 0).map(drop),
        Ok(()),
        "a good one still works"
    );
}
