//! Verbs and questions, from create to gone.

use std::collections::HashMap;

use sandkeep_proto::v1;
use tonic::Code;

use crate::scene::{Scene, detail, request};

fn named(name: &str) -> v1::SandboxRef {
    v1::SandboxRef { name: name.to_owned() }
}

#[tokio::test]
async fn a_sandbox_is_made_stopped_started_and_deleted() {
    let mut scene = Scene::new().await;
    let made = scene.create("lab").await;
    assert_eq!((made.name.as_str(), made.want.as_str(), made.run), ("lab", "Running", 1));
    assert_eq!(made.asked_by, format!("uid:{}", rustix::process::geteuid().as_raw()));
    let ready = scene.until("lab", "Ready").await;
    assert_eq!((ready.waits_for.as_str(), ready.observed_generation), ("", ready.generation));
    assert_eq!(ready.incarnation, 1);
    let workspace = ready.workspace.unwrap();
    assert_eq!((workspace.name.as_str(), workspace.state.as_str()), ("lab", "Bound"));
    assert!(ready.conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True"));

    let stopping = scene.set_intent("lab", "stop").await;
    assert_eq!(stopping.want, "Stopped");
    scene.until("lab", "Stopped").await;
    scene.set_intent("lab", "start").await;
    let again = scene.until("lab", "Ready").await;
    assert_eq!((again.incarnation, again.id.as_str()), (2, made.id.as_str()));

    scene.delete("lab").await;
    let mut events = scene.client.watch(named(&made.id)).await;
    while let Ok(stream) = &mut events {
        match stream.get_mut().message().await.unwrap() {
            Some(event) if event.gone => break,
            Some(_) => {}
            None => break,
        }
    }
    let status = scene.client.get(named("lab")).await.unwrap_err();
    assert_eq!((status.code(), detail(&status).exit_code), (Code::NotFound, 3));
    let kept = scene.client.list_workspaces(v1::ListWorkspacesRequest {}).await.unwrap();
    assert_eq!(kept.into_inner().workspaces[0].state, "Kept");
}

#[tokio::test]
async fn a_restart_that_was_asked_for_is_not_told_as_a_crash() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    scene.set_intent("lab", "restart").await;
    let asked = v1::EventsRequest { name: "lab".to_owned(), follow: true };
    let mut events = scene.client.events(asked).await.unwrap().into_inner();
    let mut reasons: Vec<String> = Vec::new();
    // The first Ready is no event when the restart is asked for before it is written down.
    let up_again = async {
        while !reasons.ends_with(&["Ready".to_owned()])
            || !reasons.iter().any(|reason| reason == "RestartAsked")
        {
            reasons.push(events.message().await.unwrap().unwrap().reason);
        }
    };
    let met = tokio::time::timeout(std::time::Duration::from_secs(20), up_again).await;
    assert!(met.is_ok(), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason == "Restarting"), "{reasons:?}");
    assert!(!reasons.iter().any(|reason| reason.starts_with("Backing")), "{reasons:?}");
}

#[tokio::test]
async fn a_repeated_request_makes_nothing_twice() {
    let mut scene = Scene::new().await;
    let request = v1::CreateRequest { request_id: "abcdefghijkl".to_owned(), ..request("lab") };
    let first = scene.client.create(request.clone()).await.unwrap().into_inner();
    let second = scene.client.create(request).await.unwrap().into_inner();
    assert_eq!((first.id.as_str(), second.id.as_str()), ("abcdefghijkl", "abcdefghijkl"));
    let listed = scene.client.list(v1::ListRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.sandboxes.len(), 1);
}

#[tokio::test]
async fn a_taken_name_is_refused_and_with_reuse_it_is_the_answer() {
    let mut scene = Scene::new().await;
    let first = scene.create("lab").await;
    let status = scene.client.create(request("lab")).await.unwrap_err();
    assert_eq!((status.code(), detail(&status).exit_code), (Code::AlreadyExists, 4));
    let reuse = v1::CreateRequest { reuse: true, ..request("lab") };
    assert_eq!(scene.client.create(reuse).await.unwrap().into_inner().id, first.id);
}

#[tokio::test]
async fn everything_wished_comes_back_in_the_answer() {
    let mut scene = Scene::new().await;
    let pairs = |key: &str, value: &str| HashMap::from([(key.to_owned(), value.to_owned())]);
    let spec = v1::Spec {
        image: "host".to_owned(),
        command: vec!["forever".to_owned()],
        env: pairs("A", "b=c"),
        user: "1000:1000".to_owned(),
        workdir: "/workspace/x".to_owned(),
        cpu_millis: 1500,
        memory_bytes: 1 << 30,
        pids: 100,
        disk_bytes: 0,
        restart: "always".to_owned(),
        labels: pairs("team", "a"),
        mounts: vec![v1::Mount {
            source: "/srv/data".to_owned(),
            target: "/mnt/data".to_owned(),
            read_only: true,
        }],
        tools: vec!["/opt/tools".to_owned()],
        privileges: vec!["packages".to_owned()],
        unenforced: true,
        remove_when_done: false,
        tty: true,
        stdin: true,
        attach: true,
        stop_grace_ms: 1234,
    };
    let request = v1::CreateRequest { spec: Some(spec.clone()), ..request("lab") };
    let made = scene.client.create(request).await.unwrap().into_inner();
    assert_eq!(made.spec, Some(spec));
    let by_label = v1::ListRequest { selector: pairs("team", "a"), brief: false };
    assert_eq!(scene.client.list(by_label).await.unwrap().into_inner().sandboxes.len(), 1);
    let brief = v1::ListRequest { selector: pairs("team", "a"), brief: true };
    let brief = scene.client.list(brief).await.unwrap().into_inner().sandboxes.remove(0);
    assert_eq!((brief.id, brief.spec), (made.id, None));
    assert_eq!(brief.workspace.unwrap().name, "lab");
    let other = v1::ListRequest { selector: pairs("team", "b"), brief: false };
    assert_eq!(scene.client.list(other).await.unwrap().into_inner().sandboxes.len(), 0);
}

#[tokio::test]
async fn explain_tells_what_was_asked_and_what_happened() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    let told = scene.client.explain(named("lab")).await.unwrap().into_inner();
    assert!(told.asked.contains("running"), "{told:?}");
    assert!(!told.seen.is_empty() && !told.choices.is_empty(), "{told:?}");
    assert!(!told.chain.is_empty() && told.chain.is_sorted_by_key(|cause| cause.at_ms));
    assert_eq!(told.sandbox.unwrap().phase, "Ready");
}

#[tokio::test]
async fn the_gateway_tells_about_itself() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    let status = scene.client.gateway_status(v1::GatewayStatusRequest {}).await;
    let status = status.unwrap().into_inner();
    assert_eq!((status.pid, status.version.as_str()), (std::process::id(), "0.0.0-test"));
    assert_eq!(status.sandboxes, HashMap::from([("Ready".to_owned(), 1)]));
    assert_eq!(status.hold, None);
    assert_eq!((status.drivers[0].name.as_str(), status.drivers[0].reachable), ("sim", true));
}

#[tokio::test]
async fn a_full_disk_refuses_creation_and_lets_delete_through() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    scene.until("lab", "Ready").await;
    scene.store.set_full(true);
    let status = scene.client.create(request("other")).await.unwrap_err();
    assert_eq!(
        (status.code(), detail(&status).reason.as_str()),
        (Code::ResourceExhausted, "DiskFull")
    );
    scene.delete("lab").await;
}
