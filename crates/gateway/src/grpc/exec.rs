//! One exec between a client's stream and a session's: bytes either way, both ways at once.
//!
//! Ends with the exec, with the client, with the session or with the gateway. In the last two
//! cases the client attaches again by exec id and offsets and misses nothing, so nothing is
//! repeated here.

use std::sync::Arc;
use std::time::Duration;

use sandkeep_frames::message::Channel;
use sandkeep_proto::v1;
use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::exec_out::Message as Out;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming};

use crate::gateway::Gateway;
use crate::grpc::reach::{Need, PATIENCE, reach};
use crate::grpc::{parse, status};
use crate::refusal::{Refusal, RefusalKind};
use crate::session::{ExecExit, ExecInput, ExecOutput, ExecRequest, ExecStream, SessionHub};
use crate::sessions::SessionError;
use crate::verbs::check::exec_command;

/// Chunks between session and client: with 256 KiB each, one window.
const QUEUE: usize = 4;

/// Between two tries to use a session that the registry still takes for alive.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What an exec needs of the gateway.
#[derive(Debug, Clone)]
pub(crate) struct Execs {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) hub: Arc<SessionHub>,
    pub(crate) stopping: CancellationToken,
}

impl Execs {
    /// Reads the first message, reaches the sandbox, and pumps from then on in a task of its own.
    pub(crate) async fn run(
        self,
        mut incoming: Streaming<v1::ExecIn>,
        deadline: Option<Instant>,
    ) -> Result<ReceiverStream<Result<v1::ExecOut, Status>>, Status> {
        let deadline = deadline.unwrap_or_else(|| Instant::now() + PATIENCE);
        let first = tokio::time::timeout_at(deadline, incoming.message())
            .await
            .map_err(|_elapsed| status::of(&nothing_asked()))??
            .and_then(|first| first.message);
        let stream = match first {
            Some(In::Open(open)) => self.open(open, deadline).await?,
            Some(In::Attach(attach)) => self.attach(&attach, deadline).await?,
            _other => return Err(status::of(&nothing_asked())),
        };
        let (to_client, output) = mpsc::channel(QUEUE);
        tokio::spawn(pump(stream, incoming, to_client, self.stopping));
        Ok(ReceiverStream::new(output))
    }

    async fn open(&self, open: v1::ExecOpen, deadline: Instant) -> Result<ExecStream, Status> {
        let refused = |refusal: Refusal| status::of(&refusal);
        let name = parse::name("the sandbox", &open.sandbox).map_err(refused)?.to_owned();
        let request = request(open).map_err(refused)?;
        self.connected(&name, Need::Session, deadline, |snapshot| {
            let record = &snapshot.record;
            self.hub.exec_open(&record.id, &record.intent.spec, request.clone())
        })
        .await
    }

    async fn attach(
        &self,
        attach: &v1::ExecAttach,
        deadline: Instant,
    ) -> Result<ExecStream, Status> {
        let refused = |refusal: Refusal| status::of(&refusal);
        let name = parse::name("the sandbox", &attach.sandbox).map_err(refused)?;
        let exec_id = parse::exec_id(&attach.exec_id).map_err(refused)?;
        let need = exec_id
            .strip_prefix("main-")
            .and_then(|run| run.parse().ok())
            .map_or(Need::Session, Need::Run);
        self.connected(name, need, deadline, |snapshot| {
            let (stdout, stderr) = (attach.stdout_offset, attach.stderr_offset);
            self.hub.exec_attach(&snapshot.record.id, &exec_id, stdout, stderr)
        })
        .await
    }

    /// Reaches the sandbox and asks; a session that was lost in between is waited for again.
    async fn connected(
        &self,
        name: &str,
        need: Need,
        deadline: Instant,
        ask: impl Fn(&crate::gateway::Snapshot) -> Result<ExecStream, SessionError>,
    ) -> Result<ExecStream, Status> {
        loop {
            let reached = tokio::select! {
                reached = reach(&self.gateway, name, need, deadline) => reached?,
                () = self.stopping.cancelled() => return Err(status::stopping()),
            };
            match ask(&reached) {
                Ok(stream) => return Ok(stream),
                Err(SessionError::NotConnected | SessionError::Lost)
                    if Instant::now() < deadline =>
                {
                    // The registry hears of the loss a moment after the hub: asked again then, its
                    // word decides, until the deadline.
                    tokio::time::sleep(ASK_AGAIN_AFTER).await;
                }
                Err(error) => return Err(session_status(&error)),
            }
        }
    }
}

fn request(open: v1::ExecOpen) -> Result<ExecRequest, Refusal> {
    let what = || "the command was not run".to_owned();
    exec_command(&open.argv, &open.env, &open.user, &open.workdir)
        .map_err(|refusal| Refusal { what: what(), ..refusal })?;
    if open.detached && (open.tty || open.stdin) {
        return Err(Refusal {
            what: what(),
            ..parse::refuse(
                "InvalidCommand",
                "a detached command has neither a terminal nor stdin",
                "leave out --tty and --stdin, or --detach",
            )
        });
    }
    Ok(ExecRequest {
        exec_id: parse::exec_id(&open.exec_id)?,
        argv: open.argv,
        env: open.env,
        workdir: Some(open.workdir).filter(|workdir| !workdir.is_empty()),
        user: Some(open.user).filter(|user| !user.is_empty()),
        tty: open.tty,
        stdin: open.stdin,
        rows: open.rows.min(TERMINAL_MAX),
        columns: open.columns.min(TERMINAL_MAX),
        detached: open.detached,
    })
}

/// A terminal's size is sixteen bits to the kernel.
const TERMINAL_MAX: u32 = 65_535;

type ToClient = mpsc::Sender<Result<v1::ExecOut, Status>>;

async fn pump(
    stream: ExecStream,
    incoming: Streaming<v1::ExecIn>,
    to_client: ToClient,
    stopping: CancellationToken,
) {
    let input = copy_input(&stream, incoming);
    let output = copy_output(&stream, &to_client);
    tokio::pin!(input, output);
    let mut input_ended = false;
    let end = loop {
        tokio::select! {
            end = &mut output => break end,
            end = &mut input, if !input_ended => match end {
                Ok(()) => input_ended = true,
                Err(status) => break Err(status),
            },
            () = stopping.cancelled() => break Err(status::stopping()),
            () = to_client.closed() => return,
        }
    };
    match end {
        Err(status) => {
            let _gone = to_client.send(Err(status)).await;
        }
        // The client still says that it has everything, or just goes.
        Ok(()) if !input_ended => {
            tokio::select! {
                _end = &mut input => {}
                () = to_client.closed() => {}
                () = stopping.cancelled() => {}
            }
        }
        Ok(()) => {}
    }
}

/// Ends with the client's half of the stream; an error is the client's own mistake.
async fn copy_input(
    stream: &ExecStream,
    mut incoming: Streaming<v1::ExecIn>,
) -> Result<(), Status> {
    // A client whose connection broke is gone, not wrong: that shows on the other half.
    while let Ok(Some(message)) = incoming.message().await {
        let Some(message) = message.message else { continue };
        let input = input(message)?;
        let last = matches!(input, ExecInput::Forget);
        match stream.send(input) {
            // That the session is lost is told by the other half, after all output before it.
            Ok(()) | Err(SessionError::Lost | SessionError::NotConnected) => {}
            Err(error @ SessionError::Refused { .. }) => return Err(session_status(&error)),
        }
        if last {
            break;
        }
    }
    Ok(())
}

async fn copy_output(stream: &ExecStream, to_client: &ToClient) -> Result<(), Status> {
    loop {
        match stream.next().await {
            Ok(Some(output)) => {
                let message = v1::ExecOut { message: Some(self::output(output)) };
                if to_client.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => return Err(session_status(&error)),
        }
    }
}

fn input(message: In) -> Result<ExecInput, Status> {
    let wrong = |why: String| {
        status::of(&parse::refuse("InvalidStream", why, "use a client of this version"))
    };
    match message {
        In::Open(_) | In::Attach(_) => {
            Err(wrong("a stream carries one exec, and another was asked for".to_owned()))
        }
        In::Stdin(data) => Ok(ExecInput::Stdin { offset: data.offset, bytes: data.data }),
        In::StdinEnd(end) => Ok(ExecInput::StdinEnd { offset: end.offset }),
        In::Resize(size) => Ok(ExecInput::Resize {
            rows: size.rows.min(TERMINAL_MAX),
            columns: size.columns.min(TERMINAL_MAX),
        }),
        In::Signal(signal) if (1..=64).contains(&signal) => Ok(ExecInput::Signal(signal)),
        In::Signal(signal) => Err(wrong(format!("{signal} is not a signal"))),
        In::Ack(ack) => match Channel::from_raw(ack.channel) {
            Some(channel @ (Channel::Stdout | Channel::Stderr)) => {
                Ok(ExecInput::Ack { channel, offset: ack.offset })
            }
            _ => Err(wrong(format!("output has no channel {}", ack.channel))),
        },
        In::Forget(_) => Ok(ExecInput::Forget),
    }
}

fn output(output: ExecOutput) -> Out {
    match output {
        ExecOutput::Attached { stdin_offset, stdout_offset, stderr_offset, pid } => {
            Out::Attached(v1::ExecAttached { stdin_offset, stdout_offset, stderr_offset, pid })
        }
        ExecOutput::Stdout { offset, bytes } => Out::Stdout(v1::StreamData { offset, data: bytes }),
        ExecOutput::Stderr { offset, bytes } => Out::Stderr(v1::StreamData { offset, data: bytes }),
        ExecOutput::StdoutEnd { offset } => Out::StdoutEnd(v1::StreamEnd { offset }),
        ExecOutput::StderrEnd { offset } => Out::StderrEnd(v1::StreamEnd { offset }),
        ExecOutput::StdinAck { offset } => {
            Out::StdinAck(v1::StreamAck { channel: Channel::Stdin as u32, offset })
        }
        ExecOutput::Exited(exit) => Out::Exited(exited(exit)),
    }
}

fn exited(exit: ExecExit) -> v1::Exit {
    v1::Exit {
        code: exit.code,
        signal: exit.signal.unwrap_or(0),
        oom: exit.oom,
        finished_at_ms: exit.finished_at.as_millis(),
        run: 0,
        spawn_error: exit.spawn_error.unwrap_or_default(),
    }
}

fn nothing_asked() -> Refusal {
    parse::refuse(
        "InvalidStream",
        "the first message of an exec has to open or attach one",
        "use a client of this version",
    )
}

fn session_status(error: &SessionError) -> Status {
    let what = "the connection to the command was ended";
    match error {
        SessionError::NotConnected | SessionError::Lost => status::of(&Refusal::new(
            RefusalKind::Unreachable,
            "SessionLost",
            what,
            error.to_string(),
            "the command goes on where its sandbox does; attach to it again",
        )),
        SessionError::Refused { reason, message } => {
            let refusal =
                |kind, reason, next: &str| Refusal::new(kind, reason, what, message, next);
            match reason.as_str() {
                "NotFound" => status::of(&refusal(
                    RefusalKind::NotFound,
                    "ExecNotFound",
                    "it has ended and was forgotten; what it printed is in sandkeep logs",
                )),
                "FellBehind" => status::of(&Refusal::new(
                    RefusalKind::Unreachable,
                    "FellBehind",
                    what,
                    message,
                    "attach to it again once its output can be taken; what was missed is in its log",
                )),
                "Exhausted" => status::with_code(
                    Code::ResourceExhausted,
                    &refusal(
                        RefusalKind::Failed,
                        "Exhausted",
                        "run it again once the sandbox is Ready: sandkeep wait NAME --for ready",
                    ),
                ),
                _ => status::of(&refusal(
                    RefusalKind::Invalid,
                    "InvalidArgument",
                    "look at the command, its user and its working directory",
                )),
            }
        }
    }
}
