//! Messages that no client of ours sends: each has a clear error, and the gateway goes on.

use std::collections::HashMap;

use proptest::prelude::*;
use prost::Message;
use sandkeep_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::Code;

use crate::scene::{Scene, detail, request};

/// Makes a sandbox of a changed request, expects this refusal.
async fn refused(scene: &mut Scene, reason: &str, change: impl FnOnce(&mut v1::CreateRequest)) {
    let mut request = request("lab");
    change(&mut request);
    let status = scene.client.create(request).await.unwrap_err();
    let detail = detail(&status);
    assert_eq!(
        (status.code(), detail.reason.as_str()),
        (Code::InvalidArgument, reason),
        "{status}"
    );
    assert_eq!(detail.exit_code, 2);
    assert!(!detail.next.is_empty(), "{detail:?}");
}

fn spec(request: &mut v1::CreateRequest) -> &mut v1::Spec {
    request.spec.as_mut().unwrap()
}

#[tokio::test]
async fn a_create_that_makes_no_sense_is_refused_and_stores_nothing() {
    let mut scene = Scene::new().await;
    let scene = &mut scene;
    let before = scene.store.commits();
    refused(scene, "SpecMissing", |r| r.spec = None).await;
    refused(scene, "InvalidRequestId", |r| r.request_id = "nope".to_owned()).await;
    refused(scene, "NameTooLong", |r| r.name = "x".repeat(257)).await;
    refused(scene, "InvalidName", |r| r.name = "-x".to_owned()).await;
    refused(scene, "InvalidRestart", |r| spec(r).restart = "maybe".to_owned()).await;
    refused(scene, "InvalidPrivileges", |r| spec(r).privileges = vec!["all".to_owned()]).await;
    refused(scene, "InvalidLimit", |r| spec(r).memory_bytes = 1).await;
    refused(scene, "InvalidLabel", |r| {
        spec(r).labels = HashMap::from([("a b".to_owned(), String::new())]);
    })
    .await;
    refused(scene, "InvalidCommand", |r| spec(r).command = vec!["\0".to_owned()]).await;
    refused(scene, "CommandTooLong", |r| spec(r).command = vec!["x".repeat(200_000)]).await;
    refused(scene, "ForbiddenPath", |r| {
        let (source, target) = ("/".to_owned(), "/mnt".to_owned());
        spec(r).mounts = vec![v1::Mount { source, target, read_only: true }];
    })
    .await;
    assert_eq!(scene.store.commits(), before);
    let listed = scene.client.list(v1::ListRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.sandboxes, []);
}

#[tokio::test]
async fn questions_about_nothing_and_about_too_much_are_answered() {
    let mut scene = Scene::new().await;
    let long = "x".repeat(300);
    for (name, code) in [
        ("", Code::InvalidArgument),
        (long.as_str(), Code::InvalidArgument),
        ("nobody", Code::NotFound),
        ("\u{1b}[31mred", Code::NotFound),
        ("../../etc", Code::NotFound),
    ] {
        let named = || v1::SandboxRef { name: name.to_owned() };
        let workspace = || v1::WorkspaceRef { name: name.to_owned() };
        let intent = v1::SetIntentRequest { name: name.to_owned(), verb: "stop".to_owned() };
        let delete = v1::DeleteRequest { name: name.to_owned(), ..Default::default() };
        let logs = v1::LogsRequest { name: name.to_owned(), ..Default::default() };
        let client = &mut scene.client;
        for status in [
            client.get(named()).await.unwrap_err(),
            client.watch(named()).await.unwrap_err(),
            client.explain(named()).await.unwrap_err(),
            client.set_intent(intent).await.unwrap_err(),
            client.delete(delete).await.unwrap_err(),
            client.logs(logs).await.unwrap_err(),
            client.get_workspace(workspace()).await.unwrap_err(),
            client.delete_workspace(workspace()).await.unwrap_err(),
        ] {
            assert_eq!(status.code(), code, "{name:?}: {status}");
            let detail = detail(&status);
            let shown = format!("{}{}{}", detail.what, detail.why, detail.next);
            assert!(!shown.contains('\u{1b}'), "{shown:?}");
        }
    }
}

#[tokio::test]
async fn unknown_verbs_and_endless_selectors_are_refused() {
    let mut scene = Scene::new().await;
    scene.create("lab").await;
    for verb in ["", "START", "destroy", &"x".repeat(100_000)] {
        let request = v1::SetIntentRequest { name: "lab".to_owned(), verb: verb.to_owned() };
        let status = scene.client.set_intent(request).await.unwrap_err();
        assert_eq!(detail(&status).reason, "UnknownVerb");
    }
    let selector = (0..1000).map(|i| (format!("l{i}"), String::new())).collect();
    let status = scene.client.list(v1::ListRequest { selector, brief: false }).await.unwrap_err();
    assert_eq!(detail(&status).reason, "SelectorTooLong");
}

#[tokio::test]
async fn a_message_of_many_megabytes_is_refused_unread() {
    let mut scene = Scene::new().await;
    let mut request = request("lab");
    spec(&mut request).command = vec!["x".repeat(8 << 20)];
    let status = scene.client.create(request).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    scene.create("lab").await;
}

#[tokio::test]
async fn bytes_that_are_no_http_end_their_own_connection_only() {
    let mut scene = Scene::new().await;
    for noise in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxxxx"]
    {
        let mut stream = UnixStream::connect(&scene.socket).await.unwrap();
        stream.write_all(noise).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _reset_or_closed = stream.take(1 << 20).read_to_end(&mut answer).await;
    }
    scene.create("lab").await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any bytes that decode as a request are answered by a sandbox or by three parts.
    #[test]
    fn any_request_that_decodes_is_answered(requests in prop::collection::vec(any_request(), 1..8)) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut scene = Scene::new().await;
            for request in requests {
                if let Err(status) = scene.client.create(request).await {
                    detail(&status);
                    assert_ne!(status.code(), Code::Internal, "{status}");
                }
            }
            scene.client.list(v1::ListRequest::default()).await.unwrap();
        });
    }

    #[test]
    fn no_bytes_make_the_decoding_of_messages_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _any = v1::CreateRequest::decode(&bytes[..]);
        let _any = v1::ExecIn::decode(&bytes[..]);
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z][a-z0-9-]{0,10}",
        "/[a-z/.]{0,20}",
        any::<String>(),
        Just("x".repeat(5000)),
    ]
}

prop_compose! {
    fn any_request()(
        name in text(),
        driver in prop_oneof![Just(String::new()), text()],
        workspace in text(),
        request_id in prop_oneof![Just(String::new()), "[a-z2-7]{12}", text()],
        flags in any::<[bool; 8]>(),
        words in prop::collection::vec(text(), 0..5),
        pairs in prop::collection::hash_map(text(), text(), 0..4),
        image in prop_oneof![Just("host".to_owned()), text()],
        restart in prop_oneof![Just(String::new()), Just("never".to_owned()), text()],
        numbers in any::<(u64, u64, u32, u64)>(),
    ) -> v1::CreateRequest {
        let spec = v1::Spec {
            image,
            command: words.clone(),
            env: pairs.clone(),
            user: name.clone(),
            workdir: workspace.clone(),
            cpu_millis: numbers.0 % 10_000,
            memory_bytes: numbers.1,
            pids: numbers.2,
            disk_bytes: numbers.3,
            restart,
            labels: pairs,
            mounts: words.iter().map(|word| v1::Mount {
                source: word.clone(),
                target: word.clone(),
                read_only: flags[0],
            }).collect(),
            tools: words,
            privileges: Vec::new(),
            unenforced: flags[1],
            remove_when_done: flags[2],
            tty: flags[3],
            stdin: flags[4],
            attach: flags[5],
            stop_grace_ms: numbers.0,
        };
        v1::CreateRequest {
            name,
            spec: Some(spec),
            driver,
            workspace,
            new_workspace: flags[6],
            reuse: flags[7],
            request_id,
        }
    }
}
