//! `exec`: codes, streams, connections that break.

use std::sync::Arc;

use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::exec_out::Message as Out;
use sandkeep_proto::v1::{ExecAttached, ExecOpen, Exit, StreamAck, StreamData, StreamEnd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tonic::{Code, Status};

use crate::fake::{Fake, Step, attached, exited, refusal, stdout};
use crate::process::{end, sandkeep, start};

fn opened(fake: &Fake) -> ExecOpen {
    let opens = fake.heard().into_iter().filter_map(|message| match message {
        In::Open(open) => Some(open),
        _ => None,
    });
    opens.last().expect("an exec was opened")
}

#[tokio::test]
async fn the_commands_output_and_code_are_passed_on() {
    let fake = Fake::start();
    let stderr = Step::Say(Out::Stderr(StreamData { offset: 0, data: "bad\n".into() }));
    fake.exec(vec![attached(0, 0), stdout(0, b"good\n"), stderr, exited(42)]);
    let arguments = ["exec", "lab", "-e", "A=1", "--workdir", "/srv", "--", "sh", "-c", "x"];
    let ended = sandkeep(&fake, &arguments).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (42, "good\n", "bad\n"));
    let open = opened(&fake);
    assert_eq!(open.argv, ["sh", "-c", "x"]);
    assert_eq!((open.env, open.workdir.as_str()), (vec!["A=1".to_owned()], "/srv"));
    assert!(!open.stdin && !open.tty);
    assert!(fake.heard().contains(&In::Forget(true)));
}

#[tokio::test]
async fn issue_0022_the_code_comes_back_although_stdin_stays_open() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), exited(3)]);
    fake.exec(vec![attached(0, 0), exited(4)]);
    // Nobody writes to stdin or closes it before the command has ended.
    let mut child = start(&fake, &["exec", "-i", "lab", "true"]);
    let open_stdin = child.stdin.take();
    assert_eq!(end(child).await.code, 3);
    drop(open_stdin);
    let mut child = start(&fake, &["exec", "lab", "true"]);
    let open_stdin = child.stdin.take();
    assert_eq!(end(child).await.code, 4);
    drop(open_stdin);
}

#[tokio::test]
async fn a_broken_connection_loses_no_output_and_doubles_none() {
    let fake = Fake::start();
    fake.exec(vec![
        attached(0, 0),
        stdout(0, b"abc"),
        Step::Break(Status::unavailable("h2 protocol error")),
    ]);
    fake.exec(vec![
        Step::Hear,
        attached(0, 3),
        // What came before comes once more.
        stdout(1, b"bcd"),
        stdout(4, b"ef"),
        Step::Break(refusal(Code::Unavailable, "GatewayStopping", 5)),
    ]);
    fake.exec(vec![attached(0, 6), stdout(6, b"g\n"), exited(0)]);
    let ended = sandkeep(&fake, &["exec", "lab", "x"]).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "abcdefg\n", ""));
    let attaches: Vec<u64> = fake
        .heard()
        .iter()
        .filter_map(|message| match message {
            In::Attach(attach) => Some(attach.stdout_offset),
            _ => None,
        })
        .collect();
    assert_eq!(attaches, [3, 6]);
}

#[tokio::test]
async fn output_that_was_dropped_meanwhile_is_told() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), stdout(0, b"a"), Step::Break(Status::unavailable("x"))]);
    fake.exec(vec![attached(0, 11), stdout(11, b"b"), exited(0)]);
    let ended = sandkeep(&fake, &["exec", "lab", "x"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "ab"));
    assert_eq!(ended.stderr, "(10 bytes of output were dropped here)\n");
}

#[tokio::test]
async fn stdin_goes_on_where_the_process_has_it() {
    let fake = Fake::start();
    let ack = |offset| Step::Say(Out::StdinAck(StreamAck { channel: 0, offset }));
    fake.exec(vec![
        attached(0, 0),
        Step::ExpectStdin(b"hello world"),
        ack(4),
        Step::Break(Status::unavailable("x")),
    ]);
    fake.exec(vec![
        attached(6, 0),
        Step::ExpectStdin(b"world"),
        Step::Expect(In::StdinEnd(StreamEnd { offset: 11 })),
        exited(0),
    ]);
    let mut child = start(&fake, &["exec", "-i", "lab", "cat"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hello world").await.unwrap();
    fake.until("a second connection", || fake.asked().len() == 2).await;
    drop(stdin);
    assert_eq!(end(child).await.code, 0);
    assert_eq!(fake.stdin(), b"hello world");
}

#[tokio::test]
async fn an_exec_that_was_never_answered_is_opened_again_by_the_same_id() {
    let fake = Fake::start();
    fake.exec(vec![Step::Hear, Step::Break(Status::unavailable("x"))]);
    fake.exec(vec![attached(0, 0), exited(5)]);
    assert_eq!(sandkeep(&fake, &["exec", "lab", "x"]).await.code, 5);
    let ids: Vec<String> = fake
        .heard()
        .into_iter()
        .filter_map(|message| match message {
            In::Open(open) => Some(open.exec_id),
            _ => None,
        })
        .collect();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
}

#[tokio::test]
async fn a_reader_that_takes_nothing_holds_the_acknowledgements_back() {
    let fake = Fake::start();
    let chunk: &'static [u8] = Vec::leak(vec![b'x'; 256 << 10]);
    let all_said = Arc::new(Notify::new());
    let mut steps = vec![attached(0, 0)];
    steps.extend((0..4).map(|i| stdout(i * (256 << 10), chunk)));
    steps.push(Step::Hold(Arc::clone(&all_said)));
    steps.push(exited(0));
    fake.exec(steps);
    let mut child = start(&fake, &["exec", "lab", "x"]);
    let mut out = child.stdout.take().unwrap();
    let acknowledged = || {
        let acks = fake.heard().into_iter().filter_map(|message| match message {
            In::Ack(ack) => Some(ack.offset),
            _ => None,
        });
        acks.max().unwrap_or(0)
    };
    // The first byte is here, so the program writes; a pipe has room for a quarter of a chunk.
    let mut first = [0];
    out.read_exact(&mut first).await.unwrap();
    assert_eq!(acknowledged(), 0);
    let mut taken = vec![0; (512 << 10) - 1];
    out.read_exact(&mut taken).await.unwrap();
    fake.until("an acknowledgement", || acknowledged() >= 256 << 10).await;
    assert!(acknowledged() <= 768 << 10, "{}", acknowledged());
    all_said.notify_one();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest.len(), 512 << 10);
    assert_eq!(end(child).await.code, 0);
}

#[tokio::test]
async fn little_output_is_acknowledged_too_once_no_more_comes() {
    let fake = Fake::start();
    let ack = In::Ack(StreamAck { channel: 1, offset: 5 });
    fake.exec(vec![attached(0, 0), stdout(0, b"short"), Step::Expect(ack), exited(0)]);
    let ended = sandkeep(&fake, &["exec", "lab", "x"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "short"));
}

#[tokio::test]
async fn a_reader_that_goes_away_is_told_to_the_command_as_a_broken_pipe() {
    let fake = Fake::start();
    let chunk: &'static [u8] = Vec::leak(vec![b'y'; 256 << 10]);
    fake.exec(vec![attached(0, 0), stdout(0, chunk), Step::Expect(In::Signal(13)), exited(141)]);
    let mut child = start(&fake, &["exec", "lab", "yes"]);
    drop(child.stdout.take());
    let ended = end(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (141, ""));
}

#[tokio::test]
async fn ctrl_c_goes_to_the_command_and_a_second_one_leaves_it() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), stdout(0, b"up\n"), Step::Listen]);
    let mut child = start(&fake, &["exec", "lab", "sleep"]);
    let mut line = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
    interrupt(&child);
    fake.until("the command got it", || fake.heard().contains(&In::Signal(2))).await;
    interrupt(&child);
    let ended = end(child).await;
    assert_eq!(ended.code, 130);
    assert!(ended.stderr.contains("goes on in sandbox \"lab\""), "{}", ended.stderr);
}

pub(crate) fn interrupt(child: &tokio::process::Child) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

#[tokio::test]
async fn failures_of_sandkeep_are_125_and_a_stopped_sandbox_is_1() {
    let check = async |status: Status, code: i32| {
        let fake = Fake::start();
        fake.exec(vec![Step::Break(status)]);
        let ended = sandkeep(&fake, &["exec", "lab", "x"]).await;
        assert_eq!(ended.code, code, "{}", ended.stderr);
        let expect = "error: it was refused\n  why: the script says so\n  next: ask the test\n";
        assert_eq!(ended.stderr, expect);
    };
    check(refusal(Code::FailedPrecondition, "Stopped", 1), 1).await;
    check(refusal(Code::FailedPrecondition, "NotReady", 1), 125).await;
    check(refusal(Code::NotFound, "NotFound", 3), 125).await;
    check(refusal(Code::FailedPrecondition, "Deleting", 4), 125).await;
    check(refusal(Code::PermissionDenied, "No", 7), 125).await;
}

#[tokio::test]
async fn a_command_that_is_lost_with_its_sandbox_is_125() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), Step::Break(refusal(Code::Unavailable, "SessionLost", 5))]);
    // The next attach finds no script: the exec is not known any more.
    let ended = sandkeep(&fake, &["exec", "lab", "x"]).await;
    assert_eq!(ended.code, 125);
    assert!(ended.stderr.starts_with("error: the command in sandbox \"lab\" was lost\n"));
}

#[tokio::test]
async fn a_command_that_cannot_be_started_says_why() {
    let fake = Fake::start();
    let end = Exit { code: 127, spawn_error: "no such file".into(), ..Exit::default() };
    fake.exec(vec![attached(0, 0), Step::Say(Out::Exited(end))]);
    let ended = sandkeep(&fake, &["exec", "lab", "nosuch"]).await;
    assert_eq!(ended.code, 127);
    assert!(ended.stderr.contains("error: the command was not started\n  why: no such file\n"));
}

#[tokio::test]
async fn a_detached_exec_prints_its_id_and_does_not_wait() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), Step::Listen]);
    let ended = sandkeep(&fake, &["exec", "-d", "lab", "sleep", "100"]).await;
    assert_eq!(ended.code, 0);
    let open = opened(&fake);
    assert!(open.detached);
    assert_eq!(ended.stdout, format!("{}\n", open.exec_id));
}

#[tokio::test]
async fn a_detached_command_that_cannot_be_started_is_no_success() {
    let check = async |code: i32, why: &str, next: &str| {
        let fake = Fake::start();
        let nobody = ExecAttached::default();
        fake.exec(vec![Step::Say(Out::Attached(nobody))]);
        let end = Exit { code, spawn_error: why.into(), ..Exit::default() };
        fake.exec(vec![attached(0, 0), Step::Say(Out::Exited(end))]);
        let ended = sandkeep(&fake, &["exec", "-d", "lab", "x"]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (code, ""));
        let what = "error: the command was not run in sandbox \"lab\"";
        assert_eq!(ended.stderr, format!("{what}\n  why: {why}\n  next: {next}\n"));
    };
    let there = "name a program that is there, or make it be there";
    check(127, "x: No such file or directory", there).await;
    check(126, "x: Permission denied", "make it executable, or name another").await;
    let user = "name a user that is there, or a number: --user USER";
    check(126, "there is no user eve in /etc/passwd", user).await;
    let directory = "name a directory that is there: --workdir DIRECTORY";
    check(126, "working directory /no: No such file or directory", directory).await;
}
