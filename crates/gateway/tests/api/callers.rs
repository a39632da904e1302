//! Callers that go away in the middle of a call.

use std::time::Duration;

use sandkeep_proto::v1;

use crate::scene::{Scene, request};

#[tokio::test]
async fn what_was_asked_for_is_done_at_once_though_its_caller_goes_away() {
    /// Below the time after which everything is looked at anyway.
    const AT_ONCE: Duration = Duration::from_secs(10);
    let mut scene = Scene::new().await;
    scene.create("old").await;
    scene.until("old", "Ready").await;
    // The callers leave while their wishes are being written.
    scene.store.set_delay(Duration::from_millis(300));
    let leave = Duration::from_millis(100);
    let mut client = scene.client.clone();
    let create = tokio::time::timeout(leave, client.create(request("lab"))).await;
    let stop = v1::SetIntentRequest { name: "old".to_owned(), verb: "stop".to_owned() };
    let stop = tokio::time::timeout(leave, client.set_intent(stop)).await;
    assert!(create.is_err() && stop.is_err(), "answered before the caller left");
    scene.store.set_delay(Duration::ZERO);
    let done = async {
        loop {
            let listed = scene.client.list(v1::ListRequest::default()).await.unwrap().into_inner();
            let phases: Vec<(&str, &str)> =
                listed.sandboxes.iter().map(|s| (s.name.as_str(), s.phase.as_str())).collect();
            if phases == [("old", "Stopped"), ("lab", "Ready")] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(AT_ONCE, done).await.expect("both are done");
}
