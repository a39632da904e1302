//! A gateway in this process, on a real Unix socket, that answers by script.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::Stream;
use prost::Message as _;
use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::exec_out::Message as Out;
use sandkeep_proto::v1::sandkeep_server::{Sandkeep, SandkeepServer};
use sandkeep_proto::v1::*;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream, WatchStream};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::process::PATIENCE;

/// One thing that happens on an exec stream, in order.
pub(crate) enum Step {
    /// The client says this next (acknowledgements and sizes are not looked at).
    Expect(In),
    /// The client sends stdin until this much has come in all, on this connection.
    ExpectStdin(&'static [u8]),
    /// The gateway says this.
    Say(Out),
    /// The client says anything.
    Hear,
    /// Nothing is said until the test lets it go on; what the client says is noted.
    Hold(Arc<tokio::sync::Notify>),
    /// The stream breaks with this.
    Break(Status),
    /// The client is told nothing more, and its messages are noted until it goes.
    Listen,
}

/// What the gateway does.
#[derive(Clone)]
pub(crate) struct Fake {
    /// Home with the socket.
    pub(crate) home: Arc<TempDir>,
    state: Arc<State>,
    /// The one sandbox as it is now; `gone` with or without one.
    pub(crate) sandbox: Arc<watch::Sender<WatchEvent>>,
}

#[derive(Default)]
struct State {
    /// A script for each Exec call.
    execs: Mutex<VecDeque<Vec<Step>>>,
    refusals: Mutex<VecDeque<Status>>,
    /// Everything that was asked, in words.
    asked: Mutex<Vec<String>>,
    creations: Mutex<Vec<CreateRequest>>,
    /// What came on exec streams besides stdin.
    heard: Mutex<Vec<In>>,
    stdin: Mutex<Vec<u8>>,
    /// Changes with each of them.
    changes: watch::Sender<u64>,
}

impl State {
    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Fake {
    /// Listens, with one sandbox that is Ready.
    pub(crate) fn start() -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let listener = UnixListener::bind(home.path().join("gateway.sock")).unwrap();
        let event = WatchEvent { sandbox: Some(ready()), gone: false };
        let (sandbox, _) = watch::channel(event);
        let fake = Self { home, state: Arc::default(), sandbox: Arc::new(sandbox) };
        let server = SandkeepServer::new(fake.clone());
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(server)
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        fake
    }

    /// The next Exec call goes like this.
    pub(crate) fn exec(&self, steps: Vec<Step>) {
        self.state.execs.lock().unwrap().push_back(steps);
    }

    /// The next call, whichever it is (a watch or an exec aside), is refused.
    pub(crate) fn refuse(&self, status: Status) {
        self.state.refusals.lock().unwrap().push_back(status);
    }

    /// The sandbox is now like this.
    pub(crate) fn becomes(&self, change: impl FnOnce(&mut Sandbox)) {
        self.sandbox.send_modify(|event| change(event.sandbox.as_mut().unwrap()));
    }

    /// Its record is gone.
    pub(crate) fn goes(&self) {
        self.sandbox.send_modify(|event| event.gone = true);
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Every creation that was asked for.
    pub(crate) fn creations(&self) -> Vec<CreateRequest> {
        self.state.creations.lock().unwrap().clone()
    }

    /// What came on exec streams besides stdin.
    pub(crate) fn heard(&self) -> Vec<In> {
        self.state.heard.lock().unwrap().clone()
    }

    /// Waits until something holds of what was asked, or of what came.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let mut changes = self.state.changes.subscribe();
        let waiting = async {
            while !holds() {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    /// All stdin that came, in order, each byte once.
    pub(crate) fn stdin(&self) -> Vec<u8> {
        self.state.stdin.lock().unwrap().clone()
    }

    fn note(&self, words: String) -> Result<(), Status> {
        self.state.asked.lock().unwrap().push(words);
        self.state.changed();
        self.state.refusals.lock().unwrap().pop_front().map_or(Ok(()), Err)
    }

    fn now(&self) -> Result<Sandbox, Status> {
        let event = self.sandbox.borrow();
        match (&event.sandbox, event.gone) {
            (Some(sandbox), false) => Ok(sandbox.clone()),
            _ => Err(refusal(Code::NotFound, "NotFound", 3)),
        }
    }

    fn named(&self, name: &str) -> Result<Sandbox, Status> {
        let sandbox = self.now()?;
        if name == sandbox.name || name == sandbox.id {
            Ok(sandbox)
        } else {
            Err(refusal(Code::NotFound, "NotFound", 3))
        }
    }

    async fn follow(
        &self,
        steps: Vec<Step>,
        mut incoming: Streaming<ExecIn>,
        out: mpsc::Sender<Result<ExecOut, Status>>,
    ) {
        let mut received = Vec::new();
        for step in steps {
            match step {
                Step::Say(message) => {
                    let message = ExecOut { message: Some(message) };
                    if out.send(Ok(message)).await.is_err() {
                        return;
                    }
                }
                Step::Break(status) => {
                    let _gone = out.send(Err(status)).await;
                    return;
                }
                Step::Hear => {
                    let heard = self.hear(&mut incoming, &mut received).await;
                    assert!(heard.is_some(), "the client went away");
                }
                Step::Hold(until) => loop {
                    tokio::select! {
                        () = until.notified() => break,
                        heard = self.hear(&mut incoming, &mut received) => {
                            assert!(heard.is_some(), "the client went away");
                        }
                    }
                },
                Step::Expect(expected) => loop {
                    match self.hear(&mut incoming, &mut received).await {
                        None => panic!("the client went away before {expected:?}"),
                        Some(message) if same_kind(&message, &expected) => {
                            assert_eq!(message, expected);
                            break;
                        }
                        Some(_other) => {}
                    }
                },
                Step::ExpectStdin(expected) => {
                    while received.len() < expected.len() {
                        let heard = self.hear(&mut incoming, &mut received).await;
                        assert!(heard.is_some(), "the client went away, {received:?} came");
                    }
                    assert_eq!(received, expected);
                }
                Step::Listen => while self.hear(&mut incoming, &mut received).await.is_some() {},
            }
        }
        while self.hear(&mut incoming, &mut received).await.is_some() {}
    }

    async fn hear(&self, incoming: &mut Streaming<ExecIn>, received: &mut Vec<u8>) -> Option<In> {
        let message = incoming.message().await.ok()??.message?;
        if let In::Stdin(data) = &message {
            received.extend_from_slice(&data.data);
            let mut stdin = self.state.stdin.lock().unwrap();
            let from = usize::try_from(data.offset).unwrap();
            assert!(from <= stdin.len(), "stdin has a gap at {}", stdin.len());
            stdin.truncate(from);
            stdin.extend_from_slice(&data.data);
        } else {
            self.state.heard.lock().unwrap().push(message.clone());
        }
        self.state.changed();
        Some(message)
    }
}

fn same_kind(a: &In, b: &In) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// A refusal in the gateway's words.
pub(crate) fn refusal(code: Code, reason: &str, exit_code: i32) -> Status {
    let detail = ErrorDetail {
        what: "it was refused".into(),
        why: "the script says so".into(),
        next: "ask the test".into(),
        reason: reason.into(),
        exit_code,
    };
    let mut metadata = MetadataMap::new();
    let bytes = MetadataValue::from_bytes(&detail.encode_to_vec());
    metadata.insert_bin("sandkeep-error-bin", bytes);
    Status::with_metadata(code, "raw words", metadata)
}

/// A sandbox that is Ready.
pub(crate) fn ready() -> Sandbox {
    Sandbox {
        id: "abcdefghijkl".into(),
        name: "lab".into(),
        phase: "Ready".into(),
        want: "Running".into(),
        run: 1,
        generation: 1,
        incarnation: 1,
        driver: "local".into(),
        spec: Some(Spec::default()),
        workspace: Some(Workspace { name: "lab".into(), ..Workspace::default() }),
        ..Sandbox::default()
    }
}

/// Attached at these offsets.
pub(crate) fn attached(stdin: u64, stdout: u64) -> Step {
    Step::Say(Out::Attached(ExecAttached {
        stdin_offset: stdin,
        stdout_offset: stdout,
        stderr_offset: 0,
        pid: 7,
    }))
}

/// Output.
pub(crate) fn stdout(offset: u64, data: &'static [u8]) -> Step {
    Step::Say(Out::Stdout(StreamData { offset, data: data.into() }))
}

/// The end.
pub(crate) fn exited(code: i32) -> Step {
    Step::Say(Out::Exited(Exit { code, run: 1, ..Exit::default() }))
}

type Answer<T> = Result<Response<T>, Status>;
type Stream_<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Sandkeep for Fake {
    async fn create(&self, request: Request<CreateRequest>) -> Answer<Sandbox> {
        let request = request.into_inner();
        self.state.creations.lock().unwrap().push(request.clone());
        self.note(format!("create {}", request.name))?;
        let mut sandbox = self.now()?;
        sandbox.spec = request.spec;
        Ok(Response::new(sandbox))
    }

    async fn get(&self, request: Request<SandboxRef>) -> Answer<Sandbox> {
        let name = request.into_inner().name;
        self.note(format!("get {name}"))?;
        self.named(&name).map(Response::new)
    }

    async fn list(&self, _: Request<ListRequest>) -> Answer<ListResponse> {
        self.note("list".into())?;
        Ok(Response::new(ListResponse { sandboxes: self.now().into_iter().collect() }))
    }

    async fn set_intent(&self, request: Request<SetIntentRequest>) -> Answer<Sandbox> {
        let SetIntentRequest { name, verb } = request.into_inner();
        self.note(format!("{verb} {name}"))?;
        self.named(&name).map(Response::new)
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Answer<Sandbox> {
        let name = request.into_inner().name;
        self.note(format!("delete {name}"))?;
        self.named(&name).map(Response::new)
    }

    type WatchStream = Stream_<WatchEvent>;
    async fn watch(&self, request: Request<SandboxRef>) -> Answer<Self::WatchStream> {
        let name = request.into_inner().name;
        self.state.asked.lock().unwrap().push(format!("watch {name}"));
        self.state.changed();
        let events = WatchStream::new(self.sandbox.subscribe());
        Ok(Response::new(Box::pin(futures::StreamExt::map(events, Ok))))
    }

    async fn explain(&self, _: Request<SandboxRef>) -> Answer<Explanation> {
        self.note("explain".into())?;
        Ok(Response::new(Explanation { asked: "running".into(), ..Explanation::default() }))
    }

    type EventsStream = Stream_<Event>;
    async fn events(&self, _: Request<EventsRequest>) -> Answer<Self::EventsStream> {
        self.note("events".into())?;
        let event = Event { sequence: 1, at_ms: 1, reason: "Ready".into(), ..Event::default() };
        Ok(Response::new(Box::pin(tokio_stream::iter([Ok(event)]))))
    }

    type ExecStream = ReceiverStream<Result<ExecOut, Status>>;
    async fn exec(&self, request: Request<Streaming<ExecIn>>) -> Answer<Self::ExecStream> {
        self.state.asked.lock().unwrap().push("exec".into());
        self.state.changed();
        let steps = self.state.execs.lock().unwrap().pop_front();
        let steps = steps.ok_or_else(|| refusal(Code::NotFound, "ExecNotFound", 3))?;
        let (sender, receiver) = mpsc::channel(1);
        let (fake, incoming) = (self.clone(), request.into_inner());
        tokio::spawn(async move { fake.follow(steps, incoming, sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type LogsStream = Stream_<LogChunk>;
    async fn logs(&self, _: Request<LogsRequest>) -> Answer<Self::LogsStream> {
        self.note("logs".into())?;
        let chunk = |fd, data: &'static [u8]| Ok(LogChunk { at_ms: 1, fd, data: data.into() });
        let chunks = [chunk(1, b"out\n"), chunk(2, b"err\n"), chunk(255, b"")];
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }

    async fn list_workspaces(
        &self,
        _: Request<ListWorkspacesRequest>,
    ) -> Answer<ListWorkspacesResponse> {
        self.note("list workspaces".into())?;
        Ok(Response::new(ListWorkspacesResponse::default()))
    }

    async fn get_workspace(&self, request: Request<WorkspaceRef>) -> Answer<Workspace> {
        self.note("get workspace".into())?;
        Ok(Response::new(Workspace { name: request.into_inner().name, ..Workspace::default() }))
    }

    async fn delete_workspace(&self, request: Request<WorkspaceRef>) -> Answer<Workspace> {
        self.note("delete workspace".into())?;
        Ok(Response::new(Workspace { name: request.into_inner().name, ..Workspace::default() }))
    }

    async fn gateway_status(
        &self,
        _: Request<GatewayStatusRequest>,
    ) -> Answer<GatewayStatusResponse> {
        self.note("status".into())?;
        let pid = std::process::id();
        Ok(Response::new(GatewayStatusResponse { pid, ..GatewayStatusResponse::default() }))
    }

    async fn adopt(&self, _: Request<AdoptRequest>) -> Answer<AdoptResponse> {
        self.note("adopt".into())?;
        Ok(Response::new(AdoptResponse { adopted: vec!["lab".into()] }))
    }

    async fn disown(&self, _: Request<DisownRequest>) -> Answer<DisownResponse> {
        self.note("disown".into())?;
        Ok(Response::new(DisownResponse::default()))
    }
}
