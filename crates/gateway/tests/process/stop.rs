//! Stopping: clean on SIGTERM and SIGINT, whoever is connected and whatever is under way.

use rustix::process::Signal;
use sandkeep_gateway::home::{holder, socket_of};
use sandkeep_proto::v1;

use crate::child::Gateway;
use crate::client::{create_many, list, listens, request, with_client};

#[test]
fn both_signals_stop_it_cleanly_and_the_home_is_free() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    for signal in [Signal::TERM, Signal::INT] {
        let gateway = Gateway::serving(&home);
        gateway.signal(signal);
        assert!(gateway.told().starts_with("STOPPING=1\n"));
        let (ended, words) = gateway.ended();
        assert_eq!(ended.code(), Some(0), "{words}");
        assert!(!socket_of(&home).exists());
        assert_eq!(holder(&home), None);
        assert!(!listens(&home));
    }
}

#[test]
fn clients_that_watch_do_not_keep_it_from_stopping() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let gateway = Gateway::serving(&home);
    let (ended, words) = with_client(&home, |mut client| async move {
        client.create(request("lab")).await.unwrap();
        let named = v1::SandboxRef { name: "lab".to_owned() };
        let mut watched = client.watch(named).await.unwrap().into_inner();
        watched.message().await.unwrap();
        let stopped = tokio::task::spawn_blocking(|| gateway.stop());
        let status = loop {
            match watched.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the watch ended without a word"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), tonic::Code::Unavailable);
        stopped.await.unwrap()
    });
    assert_eq!(ended.code(), Some(0), "{words}");
}

/// Whatever was answered before the end is there after it; what was not answered may be.
#[test]
fn verbs_under_way_at_the_end_are_answered_or_refused_and_never_half_done() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let gateway = Gateway::serving(&home);
    create_many(&home, 20);
    let answered = with_client(&home, |client| async move {
        let creations = (0..200).map(|i| {
            let mut client = client.clone();
            async move {
                let made = client.create(request(&format!("late-{i}"))).await;
                made.ok().map(|made| made.into_inner().id)
            }
        });
        let all = futures::future::join_all(creations);
        let stopped = tokio::task::spawn_blocking(|| gateway.stop());
        let answered: Vec<String> = all.await.into_iter().flatten().collect();
        let (ended, words) = stopped.await.unwrap();
        assert_eq!(ended.code(), Some(0), "{words}");
        answered
    });
    let _next = Gateway::serving(&home);
    let there: Vec<String> = list(&home).into_iter().map(|sandbox| sandbox.id).collect();
    assert!(there.len() >= 20);
    for id in &answered {
        assert!(there.contains(id), "{id} was answered and is not there");
    }
}

#[test]
fn a_client_that_is_asleep_does_not_keep_it_from_stopping() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let gateway = Gateway::serving(&home);
    let (ended, words) = with_client(&home, |mut client| async move {
        client.create(request("lab")).await.unwrap();
        // Its only thread waits here, and its connection takes no part in any farewell.
        gateway.stop()
    });
    assert_eq!(ended.code(), Some(0), "{words}");
}
