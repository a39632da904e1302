//! Watches, events and logs, and how a stopping gateway ends them.

use futures::StreamExt;
use sandkeep_proto::v1;
use tonic::Code;

use crate::scene::{PATIENCE, Scene, detail};

#[tokio::test]
async fn the_timeline_is_followed_as_things_happen() {
    let mut scene = Scene::new().await;
    let request = v1::EventsRequest { name: String::new(), follow: true };
    let mut events = scene.client.events(request).await.unwrap().into_inner();
    scene.create("lab").await;
    let event = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(event.sandbox_name, "lab");
    scene.until("lab", "Ready").await;
    let request = v1::EventsRequest { name: "lab".to_owned(), follow: false };
    let past = scene.client.events(request).await.unwrap().into_inner();
    let past: Vec<_> = past.map(Result::unwrap).collect().await;
    assert!(past.is_sorted_by_key(|event| event.sequence) && !past.is_empty());
}

#[tokio::test]
async fn logs_of_a_sandbox_that_wrote_nothing_are_empty() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    let request = v1::LogsRequest { name: "lab".to_owned(), ..Default::default() };
    let chunks = scene.client.logs(request).await.unwrap().into_inner();
    assert_eq!(chunks.count().await, 0);
    let request = v1::LogsRequest {
        name: "lab".to_owned(),
        source: "no-such-exec".to_owned(),
        ..Default::default()
    };
    let status = scene.client.logs(request).await.unwrap_err();
    assert_eq!((status.code(), detail(&status).reason.as_str()), (Code::NotFound, "LogNotFound"));
}

#[tokio::test]
async fn a_stopping_gateway_ends_its_streams_and_waits_for_nobody() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    let named = v1::SandboxRef { name: "lab".to_owned() };
    let mut watched = scene.client.watch(named).await.unwrap().into_inner();
    let follow = v1::EventsRequest { name: String::new(), follow: true };
    let mut events = scene.client.events(follow).await.unwrap().into_inner();
    scene.api.stopping.cancel();
    let ended = tokio::time::timeout(PATIENCE, scene.served).await.unwrap();
    ended.unwrap().unwrap();
    let last = async {
        loop {
            match watched.next().await {
                Some(Ok(_)) => {}
                Some(Err(status)) => break status,
                None => panic!("the watch ended without a word"),
            }
        }
    };
    let status = tokio::time::timeout(PATIENCE, last).await.unwrap();
    assert_eq!(
        (status.code(), detail(&status).reason.as_str()),
        (Code::Unavailable, "GatewayStopping")
    );
    while let Some(Ok(_)) = events.next().await {}
}
