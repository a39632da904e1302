//! Questions and verbs: what is asked, what is printed where, with which code.

use tonic::{Code, Status};

use crate::fake::{Fake, refusal};
use crate::process::{end, program, sandkeep};

#[tokio::test]
async fn the_gateways_refusals_keep_their_words_and_codes() {
    for (code, exit) in [
        (Code::InvalidArgument, 2),
        (Code::NotFound, 3),
        (Code::FailedPrecondition, 4),
        (Code::Unavailable, 5),
        (Code::DeadlineExceeded, 6),
        (Code::PermissionDenied, 7),
        (Code::Internal, 1),
    ] {
        let fake = Fake::start();
        fake.refuse(refusal(code, "Some", exit));
        let ended = sandkeep(&fake, &["get", "lab"]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (exit, ""));
        let expect = "error: it was refused\n  why: the script says so\n  next: ask the test\n";
        assert_eq!(ended.stderr, expect);
    }
}

#[tokio::test]
async fn a_transport_error_is_never_shown_raw_and_a_question_is_asked_twice() {
    let fake = Fake::start();
    fake.refuse(Status::internal("h2 protocol error: http2 error"));
    assert_eq!(sandkeep(&fake, &["list", "-o", "name"]).await.stdout, "lab\n");
    fake.refuse(Status::internal("h2 protocol error: http2 error"));
    fake.refuse(Status::internal("h2 protocol error: http2 error"));
    let ended = sandkeep(&fake, &["list"]).await;
    assert_eq!(ended.code, 5);
    assert!(!ended.stderr.contains("h2") && ended.stderr.lines().count() == 3, "{}", ended.stderr);
}

#[tokio::test]
async fn each_of_several_is_reported_and_one_that_fails_spares_the_others() {
    let fake = Fake::start();
    let ended = sandkeep(&fake, &["start", "lab", "nosuch", "lab"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "lab: Ready\n"));
    assert_eq!(ended.stderr.lines().count(), 3);
    let ended = sandkeep(&fake, &["delete", "--no-wait", "--ignore-missing", "nosuch"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let ended = sandkeep(&fake, &["delete", "--no-wait", "nosuch"]).await;
    assert_eq!(ended.code, 3);
}

#[tokio::test]
async fn all_means_each_that_is_listed_by_id() {
    let fake = Fake::start();
    let ended = sandkeep(&fake, &["stop", "--all", "--no-wait", "-o", "name"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "lab\n"));
    assert_eq!(fake.asked(), ["list", "stop abcdefghijkl"]);
}

#[tokio::test]
async fn json_of_one_is_a_document_and_of_several_a_list() {
    let fake = Fake::start();
    let json = async |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&sandkeep(&fake, arguments).await.stdout).unwrap()
    };
    assert_eq!(json(&["get", "lab", "-o", "json"]).await["name"], "lab");
    assert_eq!(json(&["get", "--all", "-o", "json"]).await["sandboxes"][0]["name"], "lab");
    assert_eq!(json(&["list", "-o", "json"]).await["sandboxes"][0]["intent"]["want"], "Running");
    let status = json(&["gateway", "status", "-o", "json"]).await;
    assert_eq!(status["pid"], std::process::id());
    assert_eq!(json(&["events", "-o", "json"]).await["at"], "1970-01-01T00:00:00.001Z");
    assert_eq!(json(&["explain", "lab", "-o", "json"]).await["asked"], "running");
    let adopted = json(&["gateway", "adopt", "-o", "json"]).await;
    assert_eq!(adopted["adopted"][0], "lab");
    let version = json(&["version", "-o", "json"]).await;
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn the_same_verbs_stand_under_sandbox() {
    let fake = Fake::start();
    assert_eq!(sandkeep(&fake, &["sandbox", "ls", "-o", "name"]).await.stdout, "lab\n");
}

#[tokio::test]
async fn logs_keep_the_two_streams_apart() {
    let fake = Fake::start();
    let ended = sandkeep(&fake, &["logs", "lab"]).await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("out\n", 0));
    assert_eq!(ended.stderr, "err\n(output was dropped here)\n");
}

#[tokio::test]
async fn a_reader_that_had_enough_ends_us_quietly() {
    let fake = Fake::start();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = program(fake.home.path(), &["list"]).stdout(writer).spawn().unwrap();
    let ended = end(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn nobody_listening_is_5_with_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    let ended = end(program(home.path(), &["list"]).spawn().unwrap()).await;
    assert_eq!(ended.code, 5);
    assert!(ended.stderr.contains("  next: start one: sandkeep gateway start\n"));
    // A socket file that nobody listens on any more is the same.
    drop(std::os::unix::net::UnixListener::bind(home.path().join("gateway.sock")).unwrap());
    let ended = end(program(home.path(), &["list"]).spawn().unwrap()).await;
    assert_eq!(ended.code, 5);
    let stop = end(program(home.path(), &["gateway", "stop"]).spawn().unwrap()).await;
    assert_eq!(stop.code, 0);
}

#[tokio::test]
async fn a_home_path_of_200_bytes_is_no_obstacle() {
    let fake = Fake::start();
    let deep = fake.home.path().join("d".repeat(200));
    std::os::unix::fs::symlink(fake.home.path(), &deep).unwrap();
    let ended = end(program(&deep, &["list", "-o", "name"]).spawn().unwrap()).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "lab\n"));
}
