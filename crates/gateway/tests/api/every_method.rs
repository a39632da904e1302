//! Every method with every field at its extremes, on a sandbox that is there and on ones that are
//! not: an answer, or a refusal in three parts; never an internal error, never a silence.

use std::time::Duration;

use futures::StreamExt;
use proptest::prelude::*;
use sandkeep_proto::v1;
use sandkeep_proto::v1::exec_in::Message;
use tonic::{Code, Request, Status};

use crate::scene::{PATIENCE, Scene, detail};

/// One call.
#[derive(Debug, Clone)]
enum Call {
    Get(String),
    Explain(String),
    Watch(String),
    SetIntent(String, String),
    Delete(String, bool, bool),
    List(Vec<(String, String)>),
    Events(String, bool),
    Logs(v1::LogsRequest),
    GetWorkspace(String),
    DeleteWorkspace(String),
    Exec(Vec<Message>, String),
    Adopt,
    Disown,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("lab".to_owned()),
        1 => Just(String::new()),
        1 => any::<String>(),
        1 => Just("x".repeat(5000)),
        1 => Just("main-18446744073709551615".to_owned()),
        1 => Just("\u{1b}[2J\0".to_owned()),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63), any::<u64>()]
}

fn message() -> impl Strategy<Value = Message> {
    let words = || prop::collection::vec(text(), 0..4);
    let sizes = any::<(u32, u32)>();
    let open = (text(), text(), words(), words(), text(), text(), any::<[bool; 3]>(), sizes);
    let open = open.prop_map(|(sandbox, exec_id, argv, env, workdir, user, flags, sizes)| {
        let [tty, stdin, detached] = flags;
        let (rows, columns) = sizes;
        let open = v1::ExecOpen {
            sandbox,
            exec_id,
            argv,
            env,
            workdir,
            user,
            tty,
            stdin,
            rows,
            columns,
            detached,
        };
        Message::Open(open)
    });
    let attach = (text(), text(), number(), number());
    let attach = attach.prop_map(|(sandbox, exec_id, stdout_offset, stderr_offset)| {
        Message::Attach(v1::ExecAttach { sandbox, exec_id, stdout_offset, stderr_offset })
    });
    prop_oneof![
        4 => open,
        4 => attach,
        1 => (number(), prop::collection::vec(any::<u8>(), 0..50))
            .prop_map(|(offset, data)| Message::Stdin(v1::StreamData { offset, data: data.into() })),
        1 => number().prop_map(|offset| Message::StdinEnd(v1::StreamEnd { offset })),
        1 => any::<(u32, u32)>()
            .prop_map(|(rows, columns)| Message::Resize(v1::Resize { rows, columns })),
        1 => any::<i32>().prop_map(Message::Signal),
        1 => (any::<u32>(), number())
            .prop_map(|(channel, offset)| Message::Ack(v1::StreamAck { channel, offset })),
        1 => any::<bool>().prop_map(Message::Forget),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let flags = any::<(bool, bool)>();
    let verb = prop_oneof![3 => prop::sample::select(vec!["start", "stop", "restart"])
        .prop_map(str::to_owned), 1 => text()];
    let timeout = prop_oneof![
        Just("100m".to_owned()),
        Just("0n".to_owned()),
        Just("99999999H".to_owned()),
        Just("H".to_owned()),
        "[0-9]{0,10}[a-zA-Z]"
    ];
    let logs = (text(), text(), number(), number());
    prop_oneof![
        text().prop_map(Call::Get),
        text().prop_map(Call::Explain),
        text().prop_map(Call::Watch),
        (text(), verb).prop_map(|(name, verb)| Call::SetIntent(name, verb)),
        (text(), flags).prop_map(|(name, (discard, forget))| Call::Delete(name, discard, forget)),
        prop::collection::vec((text(), text()), 0..4).prop_map(Call::List),
        (text(), any::<bool>()).prop_map(|(name, follow)| Call::Events(name, follow)),
        logs.prop_map(|(name, source, tail, since_ms)| {
            Call::Logs(v1::LogsRequest { name, follow: false, source, tail, since_ms })
        }),
        text().prop_map(Call::GetWorkspace),
        text().prop_map(Call::DeleteWorkspace),
        (prop::collection::vec(message(), 0..4), timeout)
            .prop_map(|(messages, timeout)| Call::Exec(messages, timeout)),
        Just(Call::Adopt),
        Just(Call::Disown),
    ]
}

/// What a stream says first, or that it says nothing for a moment.
async fn first<T>(
    answer: Result<tonic::Response<tonic::Streaming<T>>, Status>,
) -> Result<(), Status> {
    let mut stream = answer?.into_inner();
    match tokio::time::timeout(Duration::from_millis(20), stream.next()).await {
        Ok(Some(Err(status))) => Err(status),
        _ => Ok(()),
    }
}

async fn make(scene: &mut Scene, call: Call) -> Result<(), Status> {
    let sandbox = |name| v1::SandboxRef { name };
    let workspace = |name| v1::WorkspaceRef { name };
    let client = &mut scene.client;
    match call {
        Call::Get(name) => client.get(sandbox(name)).await.map(drop),
        Call::Explain(name) => client.explain(sandbox(name)).await.map(drop),
        Call::Watch(name) => first(client.watch(sandbox(name)).await).await,
        Call::SetIntent(name, verb) => {
            client.set_intent(v1::SetIntentRequest { name, verb }).await.map(drop)
        }
        Call::Delete(name, discard_workspace, forget) => {
            client.delete(v1::DeleteRequest { name, discard_workspace, forget }).await.map(drop)
        }
        Call::List(pairs) => {
            let selector = pairs.into_iter().collect();
            client.list(v1::ListRequest { selector, ..Default::default() }).await.map(drop)
        }
        Call::Events(name, follow) => {
            first(client.events(v1::EventsRequest { name, follow }).await).await
        }
        Call::Logs(request) => first(client.logs(request).await).await,
        Call::GetWorkspace(name) => client.get_workspace(workspace(name)).await.map(drop),
        Call::DeleteWorkspace(name) => client.delete_workspace(workspace(name)).await.map(drop),
        Call::Exec(messages, timeout) => {
            let messages: Vec<_> =
                messages.into_iter().map(|one| v1::ExecIn { message: Some(one) }).collect();
            let mut request = Request::new(futures::stream::iter(messages));
            if let Ok(timeout) = timeout.parse() {
                request.metadata_mut().insert("grpc-timeout", timeout);
            }
            first(client.exec(request).await).await
        }
        Call::Adopt => client.adopt(v1::AdoptRequest {}).await.map(drop),
        Call::Disown => client.disown(v1::DisownRequest {}).await.map(drop),
    }
}

/// A refusal of ours has three parts; the transport's own are a deadline and what it cannot read.
fn is_clear(status: &Status) {
    if matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled | Code::InvalidArgument)
        && status.metadata().is_empty()
    {
        return;
    }
    assert!(!matches!(status.code(), Code::Internal | Code::Unknown), "{status:?}");
    let detail = detail(status);
    let shown = format!("{}{}{}", detail.what, detail.why, detail.next);
    assert!(!shown.contains('\u{1b}') && shown.len() < 4000, "{shown:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_method_answers_whatever_is_in_its_message(
        calls in prop::collection::vec(call(), 1..16)
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut scene = Scene::new().await;
            scene.create("lab").await;
            for call in calls {
                let shown = format!("{call:?}");
                // An exec waits for its sandbox as long as its own deadline; no test waits so long.
                let waits = matches!(call, Call::Exec(..));
                let patience = if waits { Duration::from_millis(200) } else { PATIENCE };
                match tokio::time::timeout(patience, make(&mut scene, call)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(status)) => is_clear(&status),
                    Err(_) => assert!(waits, "no answer: {shown}"),
                }
            }
            scene.client.list(v1::ListRequest::default()).await.unwrap();
        });
    }
}
