//! `run`: what is asked for, results, losses.

use sandkeep_proto::v1::Exit;
use sandkeep_proto::v1::exec_in::Message as In;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tonic::{Code, Status};

use crate::exec::interrupt;
use crate::fake::{Fake, Step, attached, exited, refusal, stdout};
use crate::process::{end, sandkeep, start};

#[tokio::test]
async fn the_command_is_run_and_its_code_is_ours() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), stdout(0, b"hi\n"), exited(7)]);
    let ended = sandkeep(&fake, &["run", "--", "sh", "-c", "echo hi"]).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (7, "hi\n", ""));
    let spec = fake.creations()[0].spec.clone().unwrap();
    assert_eq!((spec.restart.as_str(), spec.remove_when_done, spec.attach), ("never", true, true));
    let heard = fake.heard();
    let In::Attach(attach) = &heard[0] else { panic!("{heard:?}") };
    assert_eq!((attach.sandbox.as_str(), attach.exec_id.as_str()), ("abcdefghijkl", "main-1"));
}

#[tokio::test]
async fn only_an_unnamed_sandbox_that_is_not_kept_goes_with_its_command() {
    for (arguments, rm, attach) in [
        (&["run", "--", "x"][..], true, true),
        (&["run", "--name", "lab", "--", "x"], false, true),
        (&["run", "--name", "lab", "--rm", "--", "x"], true, true),
        (&["run", "--keep", "--", "x"], false, true),
        (&["run", "--detach", "--", "x"], true, false),
    ] {
        let fake = Fake::start();
        fake.exec(vec![attached(0, 0), exited(0)]);
        assert_eq!(sandkeep(&fake, arguments).await.code, 0);
        let spec = fake.creations()[0].spec.clone().unwrap();
        assert_eq!((spec.remove_when_done, spec.attach), (rm, attach), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_is_repeated_with_the_same_request_id() {
    let fake = Fake::start();
    fake.refuse(Status::unavailable("connection reset"));
    fake.exec(vec![attached(0, 0), exited(0)]);
    assert_eq!(sandkeep(&fake, &["run", "--", "x"]).await.code, 0);
    let creations = fake.creations();
    assert_eq!(creations.len(), 2);
    assert_eq!(creations[0].request_id, creations[1].request_id);
    assert_eq!(creations[0].request_id.len(), 12);
}

#[tokio::test]
async fn a_lost_run_is_125_with_its_cause() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), Step::Break(refusal(Code::Unavailable, "SessionLost", 5))]);
    fake.becomes(|sandbox| {
        sandbox.reason = "RunLost".into();
        sandbox.message = "the backing was killed".into();
    });
    let ended = sandkeep(&fake, &["run", "--", "x"]).await;
    assert_eq!(ended.code, 125);
    assert_eq!(
        ended.stderr,
        "error: the command in sandbox \"lab\" has no result\n  why: the backing was killed\n  \
         next: to run it again: sandkeep restart lab\n"
    );
}

#[tokio::test]
async fn the_record_tells_the_code_when_the_streams_cannot() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), Step::Break(refusal(Code::Unavailable, "SessionLost", 5))]);
    let child = start(&fake, &["run", "--name", "lab", "--", "x"]);
    fake.until("it watches", || fake.asked().contains(&"watch abcdefghijkl".into())).await;
    fake.becomes(|sandbox| {
        sandbox.exit = Some(Exit { code: 9, run: 1, ..Exit::default() });
        sandbox.want = "Deleted".into();
    });
    fake.goes();
    assert_eq!(end(child).await.code, 9);
}

#[tokio::test]
async fn a_taken_name_is_4_and_a_failure_of_sandkeep_is_125() {
    for (status, code) in [
        (refusal(Code::AlreadyExists, "AlreadyExists", 4), 4),
        (refusal(Code::InvalidArgument, "InvalidName", 2), 2),
        (refusal(Code::ResourceExhausted, "DiskFull", 1), 125),
        (refusal(Code::Unavailable, "EngineUnreachable", 5), 125),
    ] {
        let fake = Fake::start();
        fake.refuse(status);
        let ended = sandkeep(&fake, &["run", "--name", "lab", "--", "x"]).await;
        assert_eq!(ended.code, code, "{}", ended.stderr);
    }
}

#[tokio::test]
async fn leaving_says_how_to_come_back() {
    let fake = Fake::start();
    fake.exec(vec![attached(0, 0), stdout(0, b"up\n"), Step::Listen]);
    let mut child = start(&fake, &["run", "--name", "lab", "--", "sleep", "100"]);
    let mut line = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
    interrupt(&child);
    fake.until("it got it", || fake.heard().contains(&In::Signal(2))).await;
    interrupt(&child);
    let ended = end(child).await;
    assert_eq!(ended.code, 130);
    assert!(
        ended.stderr.contains("come back: sandkeep run --reuse --name lab"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn reuse_starts_what_is_stopped_and_attaches_to_its_own_command() {
    let fake = Fake::start();
    fake.becomes(|sandbox| sandbox.want = "Stopped".into());
    fake.exec(vec![attached(0, 0), exited(0)]);
    let child = start(&fake, &["run", "--reuse", "--name", "lab", "--", "x"]);
    fake.until("it is started", || fake.asked().contains(&"start abcdefghijkl".into())).await;
    fake.becomes(|sandbox| sandbox.want = "Running".into());
    assert_eq!(end(child).await.code, 0);
}

#[tokio::test]
async fn a_command_that_is_run_again_after_a_loss_is_attached_to_again() {
    let fake = Fake::start();
    let lost = refusal(Code::Unavailable, "SessionLost", 5);
    let unknown = || Step::Break(refusal(Code::NotFound, "ExecNotFound", 3));
    fake.exec(vec![Step::Hear, attached(0, 0), stdout(0, b"one\n"), Step::Break(lost)]);
    fake.exec(vec![Step::Hear, unknown()]);
    fake.exec(vec![Step::Hear, unknown()]);
    fake.exec(vec![Step::Hear, attached(0, 0), stdout(0, b"two\n"), exited(0)]);
    fake.becomes(|sandbox| sandbox.spec.as_mut().unwrap().restart = "on-failure".into());
    let arguments = ["run", "--name", "lab", "--restart", "on-failure", "--", "x"];
    let ended = sandkeep(&fake, &arguments).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "one\ntwo\n"));
    assert_eq!(ended.stderr, "the command was lost with its backing and runs again\n");
    let ids: Vec<_> = fake
        .heard()
        .into_iter()
        .filter_map(|message| match message {
            In::Attach(attach) => Some((attach.exec_id, attach.stdout_offset)),
            _ => None,
        })
        .collect();
    let expect = [("main-1", 0), ("main-1", 4), ("main-1-1", 0), ("main-1-2", 0)];
    assert_eq!(ids, expect.map(|(id, offset)| (id.to_owned(), offset)));
}

#[tokio::test]
async fn a_reader_that_falls_behind_is_told_what_it_missed_and_goes_on() {
    let fake = Fake::start();
    let chunk: &'static [u8] = Vec::leak(vec![b'x'; 256 << 10]);
    fake.exec(vec![
        attached(0, 0),
        stdout(0, chunk),
        Step::Break(refusal(Code::Unavailable, "FellBehind", 5)),
    ]);
    fake.exec(vec![attached(0, 1 << 20), stdout(1 << 20, b"last\n"), exited(4)]);
    let mut child = start(&fake, &["run", "--name", "lab", "--", "yes"]);
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let behind = told.next_line().await.unwrap().unwrap();
    assert!(behind.contains("goes on without it; see: sandkeep logs lab"), "{behind}");
    // Only now is anything taken: a pipe has no room for all of it.
    let ended = end(child).await;
    assert_eq!((ended.code, ended.stdout.len()), (4, (256 << 10) + 5));
    assert!(ended.stdout.ends_with("xlast\n"));
    let missed = told.next_line().await.unwrap().unwrap();
    assert_eq!(missed, "(786432 bytes of output were dropped here)");
    let from: Vec<u64> = fake.heard().iter().filter_map(attached_from).collect();
    assert_eq!(from.last(), Some(&(256 << 10)));
}

fn attached_from(message: &In) -> Option<u64> {
    match message {
        In::Attach(attach) => Some(attach.stdout_offset),
        _ => None,
    }
}
