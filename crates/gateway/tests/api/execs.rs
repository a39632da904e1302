//! Execs over the API: bytes both ways, waiting for a sandbox that comes up, ends of all kinds.

use std::time::Duration;

use bytes::Bytes;
use sandkeep_proto::v1;
use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::exec_out::Message as Out;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

use crate::scene::{PATIENCE, Scene, detail};

fn open(sandbox: &str, argv: &[&str]) -> In {
    In::Open(v1::ExecOpen {
        sandbox: sandbox.to_owned(),
        exec_id: "e1".to_owned(),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        stdin: true,
        ..Default::default()
    })
}

fn message(message: In) -> v1::ExecIn {
    v1::ExecIn { message: Some(message) }
}

type Exec = (mpsc::Sender<v1::ExecIn>, Result<Streaming<v1::ExecOut>, Status>);

async fn exec(scene: &mut Scene, first: In) -> Exec {
    exec_within(scene, first, None).await
}

async fn exec_within(scene: &mut Scene, first: In, deadline: Option<Duration>) -> Exec {
    let (input, queue) = mpsc::channel(16);
    input.send(message(first)).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(queue));
    if let Some(deadline) = deadline {
        // As its own header only: the client's library would cut the call off itself otherwise.
        let value = format!("{}m", deadline.as_millis()).parse().unwrap();
        request.metadata_mut().insert("grpc-timeout", value);
    }
    let answer = tokio::time::timeout(PATIENCE, scene.client.exec(request)).await.unwrap();
    (input, answer.map(tonic::Response::into_inner))
}

async fn next(output: &mut Streaming<v1::ExecOut>) -> Result<Option<Out>, Status> {
    let next = tokio::time::timeout(PATIENCE, output.message()).await.unwrap()?;
    Ok(next.and_then(|next| next.message))
}

#[tokio::test]
async fn stdin_comes_back_from_echo_and_the_exit_code_is_last() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    // Not Ready yet: the exec waits for it.
    let (input, output) = exec(&mut scene, open("lab", &["echo"])).await;
    let mut output = output.unwrap();
    let attached = next(&mut output).await.unwrap();
    assert!(matches!(&attached, Some(Out::Attached(at)) if at.pid == 7), "{attached:?}");
    let data = v1::StreamData { offset: 0, data: Bytes::from_static(b"hello") };
    input.send(message(In::Stdin(data))).await.unwrap();
    input.send(message(In::StdinEnd(v1::StreamEnd { offset: 5 }))).await.unwrap();
    let mut echoed = Vec::new();
    let exit = loop {
        match next(&mut output).await.unwrap() {
            Some(Out::Stdout(data)) => echoed.extend_from_slice(&data.data),
            Some(Out::Exited(exit)) => break exit,
            Some(_) => {}
            None => panic!("it ended without an exit"),
        }
    };
    assert_eq!((echoed.as_slice(), exit.code), (&b"hello"[..], 0));
    input.send(message(In::Forget(true))).await.unwrap();
    assert_eq!(next(&mut output).await.unwrap(), None);
}

#[tokio::test]
async fn an_exit_code_comes_over_without_any_input() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    let (input, output) = exec(&mut scene, open("lab", &["exit", "3"])).await;
    drop(input);
    let mut output = output.unwrap();
    let mut code = None;
    while let Some(out) = next(&mut output).await.unwrap() {
        if let Out::Exited(exit) = out {
            code = Some(exit.code);
        }
    }
    assert_eq!(code, Some(3));
}

#[tokio::test]
async fn output_that_nobody_reads_is_held_back_and_flows_on_when_read() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    let (input, output) = exec(&mut scene, open("lab", &["flood"])).await;
    let mut output = output.unwrap();
    let mut read = 0;
    while read < 8 << 20 {
        if let Some(Out::Stdout(data)) = next(&mut output).await.unwrap() {
            assert_eq!(data.offset, read);
            read += data.data.len() as u64;
            let ack = v1::StreamAck { channel: 1, offset: read };
            input.send(message(In::Ack(ack))).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_stopped_sandbox_says_how_to_start_it_and_a_deleted_one_that_it_goes() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    scene.set_intent("lab", "stop").await;
    scene.until("lab", "Stopped").await;
    let (_input, output) = exec(&mut scene, open("lab", &["echo"])).await;
    let status = output.unwrap_err();
    let stopped = detail(&status);
    assert_eq!((status.code(), stopped.exit_code), (Code::FailedPrecondition, 1));
    assert_eq!(stopped.next, "start it: sandkeep start lab");
    let (_input, output) = exec(&mut scene, open("nobody", &["echo"])).await;
    assert_eq!(detail(&output.unwrap_err()).exit_code, 3);
}

#[tokio::test]
async fn an_exec_that_waits_in_vain_tells_why() {
    let mut scene = Scene::new().await;
    scene.driver.set_connects(false);
    scene.create("lab").await;
    let patience = Some(Duration::from_millis(300));
    let (_input, output) = exec_within(&mut scene, open("lab", &["echo"]), patience).await;
    let status = output.unwrap_err();
    assert_eq!((status.code(), detail(&status).exit_code), (Code::DeadlineExceeded, 6), "{status}");
    assert!(detail(&status).why.contains("Supervisor"), "{status}");
}

#[tokio::test]
async fn a_lost_session_is_told_and_the_next_exec_waits_for_a_new_one() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    let (_input, output) = exec(&mut scene, open("lab", &["echo"])).await;
    let mut output = output.unwrap();
    assert!(matches!(next(&mut output).await.unwrap(), Some(Out::Attached(_))));
    scene.driver.set_connects(false);
    let status = loop {
        match next(&mut output).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end of the session was not told"),
            Err(status) => break status,
        }
    };
    assert_eq!(
        (status.code(), detail(&status).reason.as_str()),
        (Code::Unavailable, "SessionLost")
    );
    scene.driver.set_connects(true);
    let (input, output) = exec(&mut scene, open("lab", &["exit", "0"])).await;
    drop(input);
    let mut output = output.unwrap();
    assert!(matches!(next(&mut output).await.unwrap(), Some(Out::Attached(_))));
}

#[tokio::test]
async fn streams_that_break_the_rules_are_refused() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    let open_with = |change: fn(&mut v1::ExecOpen)| {
        let In::Open(mut open) = open("lab", &["echo"]) else { unreachable!() };
        change(&mut open);
        In::Open(open)
    };
    for (reason, first) in [
        ("InvalidStream", In::StdinEnd(v1::StreamEnd { offset: 0 })),
        ("InvalidCommand", open_with(|open| open.argv.clear())),
        ("InvalidCommand", open_with(|open| open.argv = vec!["\0".to_owned()])),
        ("InvalidCommand", open_with(|open| open.detached = true)),
        ("InvalidEnv", open_with(|open| open.env = vec!["A".to_owned()])),
        ("InvalidUser", open_with(|open| open.user = "a b".to_owned())),
        ("InvalidWorkdir", open_with(|open| open.workdir = "x".to_owned())),
        ("InvalidExecId", open_with(|open| open.exec_id = "../x".to_owned())),
        ("InvalidExecId", open_with(|open| open.exec_id.clear())),
        ("NameMissing", open_with(|open| open.sandbox.clear())),
    ] {
        let (_input, output) = exec(&mut scene, first).await;
        let status = output.unwrap_err();
        assert_eq!(
            (status.code(), detail(&status).reason.as_str()),
            (Code::InvalidArgument, reason)
        );
    }
}

#[tokio::test]
async fn nonsense_in_the_middle_of_a_stream_ends_that_stream_only() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    for nonsense in [
        open("lab", &["echo"]),
        In::Signal(0),
        In::Signal(i32::MAX),
        In::Ack(v1::StreamAck { channel: 0, offset: 0 }),
        In::Ack(v1::StreamAck { channel: 9, offset: 0 }),
        In::Stdin(v1::StreamData { offset: 1 << 40, data: Bytes::from_static(b"x") }),
    ] {
        let (input, output) = exec(&mut scene, open("lab", &["echo"])).await;
        let mut output = output.unwrap();
        assert!(matches!(next(&mut output).await.unwrap(), Some(Out::Attached(_))));
        input.send(message(nonsense.clone())).await.unwrap();
        let status = loop {
            match next(&mut output).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("taken: {nonsense:?}"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::InvalidArgument, "{nonsense:?}: {status}");
        detail(&status);
    }
    let (_input, output) = exec(&mut scene, open("lab", &["unknown"])).await;
    let status = next(&mut output.unwrap()).await.unwrap_err();
    assert_eq!(detail(&status).reason, "ExecNotFound");
}
