//! One connection of an attachment: what comes is written out, what is typed goes in, until the
//! process ends, the user leaves, or the connection breaks.

use std::time::Duration;

use sandkeep_proto::v1::exec_in::Message as In;
use sandkeep_proto::v1::{ExecIn, ExecOut};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::input::Input;
use super::lifeline::{Fate, Lifeline};
use super::state::State;
use super::{Broken, Ending};
use crate::client::Gateway;
use crate::error::{Failure, exit};

/// A run that is lost by the record may still have output on its way to us.
const LOST_GRACE: Duration = Duration::from_secs(5);
/// The gateway hears that we have everything; it is no harm if it does not.
const FAREWELL: Duration = Duration::from_millis(500);

/// One connection.
pub(super) struct Session<'a> {
    pub(super) state: &'a mut State,
    pub(super) lifeline: Option<&'a mut Lifeline>,
    pub(super) what: &'a str,
}

/// Where the streams of a connection are.
struct Connection {
    to_gateway: mpsc::Sender<ExecIn>,
    from_gateway: Streaming<ExecOut>,
}

impl Session<'_> {
    /// Attaches and stays until one of the ends.
    pub(super) async fn run(mut self, gateway: &Gateway, first: ExecIn) -> Broken {
        self.state.begin_connection();
        let mut connection = match self.open(gateway, first).await {
            Ok(connection) => connection,
            Err(broken) => return broken,
        };
        let broken = self.pump(&mut connection).await;
        if let Broken::Ended(Ending::Exited(_)) = &broken {
            say_farewell(connection).await;
        }
        broken
    }

    /// Waits until the gateway has reached the process; it answers only then.
    async fn open(&mut self, gateway: &Gateway, first: ExecIn) -> Result<Connection, Broken> {
        // Two windows of chunks would only hold memory.
        let (to_gateway, messages) = mpsc::channel(4);
        let _has_room = to_gateway.try_send(first);
        let mut client = gateway.client();
        let opening = client.exec(ReceiverStream::new(messages));
        tokio::pin!(opening);
        loop {
            tokio::select! {
                response = &mut opening => {
                    let response = response.map_err(|status| self.failed(&status))?;
                    let from_gateway = response.into_inner();
                    return Ok(Connection { to_gateway, from_gateway });
                }
                event = self.state.signals.next() => {
                    if let Some(ending) = self.state.on_signal(event) {
                        return Err(Broken::Ended(ending));
                    }
                }
                fate = change_of(&mut self.lifeline) => match fate {
                    // Nothing is attached, so nothing is on its way.
                    Fate::Lost(failure) => return Err(Broken::Lost(failure)),
                    Fate::Alive | Fate::Ended(_) => self.show_state(),
                },
                () = self.state.progress.due() => self.state.progress.flush(),
                () = at(self.state.start_by), if !self.state.attached => {
                    return Err(Broken::Lost(self.not_in_time()));
                }
            }
        }
    }

    fn not_in_time(&self) -> Failure {
        let state = self.lifeline.as_ref().and_then(|lifeline| lifeline.words());
        Failure::new(
            exit::SANDKEEP,
            format!("{} has not started in time", self.what),
            state.unwrap_or_else(|| "nothing was heard of it".to_owned()),
            "the work goes on; see: sandkeep list",
        )
    }

    async fn pump(&mut self, connection: &mut Connection) -> Broken {
        let Connection { to_gateway, from_gateway } = connection;
        let mut lost = None;
        loop {
            if let Some(exit) = self.state.finished() {
                return Broken::Ended(Ending::Exited(exit));
            }
            let state = &mut *self.state;
            // What is to be said first, then more of stdin: its window is not its own queue.
            let stdin = state.input.as_mut().filter(|input| {
                state.outbox.is_empty() && state.exited.is_none() && input.wants_more()
            });
            tokio::select! {
                message = from_gateway.message(), if state.exited.is_none() => match message {
                    Ok(Some(ExecOut { message: Some(message) })) => {
                        state.on_output(message);
                    }
                    Ok(Some(_of_a_newer_version)) => {}
                    Ok(None) => return self.failed(&Status::unavailable("the stream ended")),
                    Err(status) => return self.failed(&status),
                },
                permit = to_gateway.reserve(), if !state.outbox.is_empty() => {
                    // A closed channel shows as the end of the other direction.
                    if let (Ok(permit), Some(message)) = (permit, state.outbox.pop_front()) {
                        permit.send(ExecIn { message: Some(message) });
                    }
                }
                Some(report) = state.reports.recv() => state.on_report(report),
                message = next_of(stdin) => state.on_stdin(message),
                event = state.signals.next() => {
                    if let Some(ending) = state.on_signal(event) {
                        return Broken::Ended(ending);
                    }
                }
                fate = change_of(&mut self.lifeline) => lost = grace_for(&fate, lost),
                () = after(lost.as_ref()) => return give_up(lost),
                () = at(state.ack_at) => state.acknowledge(),
                () = at(state.leave_at) => return Broken::Ended(Ending::Detached),
            }
        }
    }

    fn show_state(&mut self) {
        let words = self.lifeline.as_ref().and_then(|lifeline| lifeline.words());
        if let Some(words) = words.filter(|_| !self.state.attached) {
            self.state.progress.show(&words);
        }
    }

    fn failed(&self, status: &Status) -> Broken {
        let what = format!("the connection to {} broke", self.what);
        Broken::Failed(Failure::of_status(&what, status))
    }
}

/// A run lost by the record, and until when its streams may still end by themselves.
type LostUntil = Option<(Failure, Instant)>;

fn grace_for(fate: &Fate, before: LostUntil) -> LostUntil {
    match (fate, before) {
        (Fate::Lost(failure), None) => Some((failure.clone(), Instant::now() + LOST_GRACE)),
        (Fate::Lost(failure), Some((_, until))) => Some((failure.clone(), until)),
        (Fate::Alive | Fate::Ended(_), _) => None,
    }
}

fn give_up(lost: LostUntil) -> Broken {
    let unknown = || Failure::new(exit::SANDKEEP, "the command was lost", "", "");
    Broken::Lost(lost.map_or_else(unknown, |(failure, _)| failure))
}

async fn after(lost: Option<&(Failure, Instant)>) {
    at(lost.map(|(_, until)| *until)).await;
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn change_of(lifeline: &mut Option<&mut Lifeline>) -> Fate {
    match lifeline {
        Some(lifeline) => lifeline.changed().await,
        None => std::future::pending().await,
    }
}

async fn next_of(input: Option<&mut Input>) -> In {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}

/// Tells the gateway that everything has arrived, so that it keeps nothing for us, and waits for
/// its end of the stream: that it was heard.
async fn say_farewell(connection: Connection) {
    let Connection { to_gateway, mut from_gateway } = connection;
    let forget = ExecIn { message: Some(In::Forget(true)) };
    let heard = async {
        if to_gateway.send(forget).await.is_ok() {
            drop(to_gateway);
            while let Ok(Some(_late)) = from_gateway.message().await {}
        }
    };
    let _in_time = timeout(FAREWELL, heard).await;
}
