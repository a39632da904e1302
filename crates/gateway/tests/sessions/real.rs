//! The hub against the real supervisor, as an ordinary process over a Unix socket.

use bytes::Bytes;
use futures::StreamExt;
use sandkeep_frames::message::Channel;
use sandkeep_gateway::session::{
    ExecExit, ExecInput, ExecOutput, ExecRequest, ExecStream, LogQuery, Prospects,
};
use sandkeep_gateway::sessions::{SessionError, Sessions};

use super::process::{Real, shell};

/// Everything of an exec, acknowledged as it comes.
async fn drain(exec: &ExecStream) -> (Vec<u8>, Vec<u8>, ExecExit) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        let (channel, end) = match exec.next().await.unwrap().unwrap() {
            ExecOutput::Stdout { offset, bytes } => {
                out.extend_from_slice(&bytes);
                (Channel::Stdout, offset + bytes.len() as u64)
            }
            ExecOutput::Stderr { offset, bytes } => {
                err.extend_from_slice(&bytes);
                (Channel::Stderr, offset + bytes.len() as u64)
            }
            ExecOutput::Exited(exit) => return (out, err, exit),
            _ => continue,
        };
        exec.send(ExecInput::Ack { channel, offset: end }).unwrap();
    }
}

#[tokio::test]
async fn execs_run_in_a_real_process() {
    let real = Real::new().await;
    let exec = real.open(shell("e1", "echo $A$B; echo oops >&2; exit 3"));
    let (out, err, exit) = drain(&exec).await;
    assert_eq!((out.as_slice(), err.as_slice(), exit.code), (&b"12\n"[..], &b"oops\n"[..], 3));

    let exec = real.open(shell("e2", "cat; echo end"));
    exec.send(ExecInput::Stdin { offset: 0, bytes: Bytes::from_static(b"to and fro\n") }).unwrap();
    exec.send(ExecInput::StdinEnd { offset: 11 }).unwrap();
    assert_eq!(drain(&exec).await.0, b"to and fro\nend\n");

    let exec = real.open(shell("e3", "sleep 1000"));
    exec.next().await.unwrap();
    exec.send(ExecInput::Signal(9)).unwrap();
    assert_eq!(drain(&exec).await.2.signal, Some(9));

    let missing = ExecRequest { argv: vec!["/no/such/program".to_owned()], ..shell("e4", "") };
    let exit = drain(&real.open(missing)).await.2;
    assert_eq!(exit.code, 127);
    assert!(exit.spawn_error.is_some());
}

#[tokio::test]
async fn an_exec_and_its_output_outlive_the_session() {
    let real = Real::new().await;
    let script = "echo one; read line; echo $line; read line; echo $line";
    let exec = real.open(shell("e1", script));
    let seen = loop {
        if let ExecOutput::Stdout { offset, bytes } = exec.next().await.unwrap().unwrap() {
            break offset + bytes.len() as u64;
        }
    };
    assert_eq!(seen, 4);
    exec.send(ExecInput::Ack { channel: Channel::Stdout, offset: seen }).unwrap();
    exec.send(ExecInput::Stdin { offset: 0, bytes: Bytes::from_static(b"two\n") }).unwrap();
    real.world.hub.release(&real.world.id);
    let lost = loop {
        if let Err(error) = exec.next().await {
            break error;
        }
    };
    assert_eq!(lost, SessionError::Lost);
    real.world.want(1);
    real.accept(1).await;
    let exec = real.world.hub.exec_attach(&real.world.id, "e1", seen, 0).unwrap();
    let Ok(Some(ExecOutput::Attached { stdin_offset, stdout_offset, .. })) = exec.next().await
    else {
        panic!("not attached");
    };
    assert_eq!(stdout_offset, 4);
    let rest = &b"two\nthree\n"[usize::try_from(stdin_offset).unwrap()..];
    exec.send(ExecInput::Stdin { offset: stdin_offset, bytes: Bytes::from_static(rest) }).unwrap();
    exec.send(ExecInput::StdinEnd { offset: 10 }).unwrap();
    assert_eq!(drain(&exec).await.0, b"two\nthree\n");
    exec.send(ExecInput::Forget).unwrap();
    drop(exec);
    let gone = real.world.hub.exec_attach(&real.world.id, "e1", 0, 0).unwrap();
    assert!(matches!(gone.next().await, Err(SessionError::Refused { .. })));
}

#[tokio::test]
async fn a_result_and_a_log_outlive_the_supervisor() {
    let mut real = Real::new().await;
    real.go(1, 1, "echo built; echo badly >&2; exit 7").await;
    real.ended(1).await;
    let result = real.world.hub.result(&real.world.id).unwrap();
    assert_eq!((result.run, result.incarnation, result.code), (1, 1, 7));
    // The command has ended and its log with it, though the supervisor is there still.
    let ended = Prospects { run: 1, settled: true, down: false };
    let coming = futures::stream::iter([ended]).chain(futures::stream::pending()).boxed();
    let logs = real.world.hub.logs();
    let mut log = logs.follow(&real.world.id, LogQuery::default(), coming).await.unwrap();
    let mut text = Vec::new();
    while let Some(entry) = log.next().await {
        text.extend_from_slice(&entry.unwrap().bytes);
    }
    assert_eq!(text.len(), 12);
    // Killed before the result was called stored: the next PID 1 offers it again.
    real.kill_and_start(2).await;
    assert_eq!(real.world.hub.result(&real.world.id).unwrap().code, 7);
    real.world.hub.result_stored(&real.world.id, 1, 0);
    real.go(2, 2, "exit 0").await;
    real.ended(2).await;
    assert_eq!(real.world.hub.result(&real.world.id).unwrap().run, 2);
}
