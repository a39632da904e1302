//! The connection to a gateway: dialling its Unix socket, calling it, dialling again when it broke.
//!
//! Every call of the interface may be repeated (creation carries a request id), so a call whose
//! connection broke is made once more over a new one: a gateway that restarts at that moment is
//! not noticed.

use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use sandkeep_proto::v1::sandkeep_client::SandkeepClient;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use tower::service_fn;

use crate::autostart::{self, Autostart};
use crate::error::{Failure, GATEWAY_STOPPING, exit};
use crate::home::Home;

/// Bytes of one stream under way: 1 MiB measured best (4 MiB was slower).
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of all streams of a connection under way.
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// One chunk of output fits into one frame.
const FRAME_BYTES: u32 = 256 << 10;
/// A list of 10,000 sandboxes has about 10 MB; far above that nothing sensible comes.
const MESSAGE_BYTES: usize = 256 << 20;
/// An open call is asked for a sign of life this often.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(5);
/// A gateway that gives none for so long hangs: its answers come from its connection's own task,
/// whatever a disk or a sandbox does.
const SIGN_OF_LIFE_WITHIN: Duration = Duration::from_secs(10);
/// A gateway that stops closes what it accepted last; it is gone within moments.
const CLOSING_DEADLINE: Duration = Duration::from_secs(10);
/// Between two attempts while it closes.
const CLOSING_PAUSE: Duration = Duration::from_millis(20);
/// Longest path that fits into a socket address.
const SOCKET_PATH_BYTES: usize = 107;

/// The generated client over this program's channel.
pub(crate) type Client = SandkeepClient<Channel>;

/// How to get at the gateway of a home.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    /// Whose gateway.
    pub(crate) home: Home,
    /// Whether one is started when there is none.
    pub(crate) autostart: Autostart,
}

/// A connected gateway.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    connector: Connector,
    client: Client,
    /// The process that listens, by the kernel's word; `None`: of another PID namespace.
    pub(crate) pid: Option<Pid>,
    /// It was started in the background by this program. Any other has somebody who starts it
    /// again (a terminal, systemd), and must not find its place taken.
    ours_to_start: bool,
    /// It was told to stop, so it is not to be started again.
    told_to_stop: bool,
}

impl Connector {
    /// Connects; starts a gateway first when there is none and that is allowed.
    pub(crate) async fn connect(&self) -> Result<Gateway, Failure> {
        match self.connect_if_running().await? {
            Some(gateway) => Ok(gateway),
            None => self.gateway(autostart::start_if_allowed(self).await?).await,
        }
    }

    /// Connects to a gateway that is there; `None`: nobody listens. One that closes the connection
    /// at once is stopping: what there is after it is what counts.
    pub(crate) async fn connect_if_running(&self) -> Result<Option<Gateway>, Failure> {
        let deadline = Instant::now() + CLOSING_DEADLINE;
        loop {
            let closed = match dial(&self.home).await {
                Ok(stream) => match self.gateway(stream).await {
                    Err(failure) if failure.transport => failure,
                    other => return other.map(Some),
                },
                Err(error) if nobody_listens(&error) => return Ok(None),
                Err(error) => return Err(unreachable(&self.home, &error)),
            };
            if Instant::now() >= deadline {
                return Err(closed);
            }
            sleep(CLOSING_PAUSE).await;
        }
    }

    async fn gateway(&self, stream: UnixStream) -> Result<Gateway, Failure> {
        let pid = check_peer(&self.home, &stream)?;
        let client = client_over(stream).await.map_err(|_| Failure {
            transport: true,
            ..Failure::new(
                exit::UNREACHABLE,
                "the gateway was not reached",
                "it closed the connection at once",
                "try again; to see how it is: sandkeep gateway status",
            )
        })?;
        let ours_to_start = pid.is_some_and(runs_in_background);
        Ok(Gateway { connector: self.clone(), client, pid, ours_to_start, told_to_stop: false })
    }
}

impl Gateway {
    /// The client, for streams; they handle broken connections by themselves.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// How this gateway was reached.
    pub(crate) const fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Dials again, after this failure. A gateway that was lost is started again if it was started
    /// in the background; one that was told to stop is not.
    pub(crate) async fn reconnect(&mut self, after: &Failure) -> Result<(), Failure> {
        self.told_to_stop |= after.reason == GATEWAY_STOPPING;
        let connector = self.connector.clone();
        if self.ours_to_start && !self.told_to_stop {
            *self = connector.connect().await?;
            return Ok(());
        }
        let forbidden = Connector { autostart: Autostart::Forbidden, ..connector.clone() };
        let again = forbidden.connect().await?;
        // One that is stopping still accepts connections for a moment.
        let told_to_stop = self.told_to_stop && again.pid == self.pid;
        *self = Self { connector, told_to_stop, ..again };
        Ok(())
    }

    /// Makes a call, once more over a new connection when this one broke. `what` names the attempt
    /// as a failure: `sandbox "lab" was not started`.
    pub(crate) async fn call<T, F, R>(&mut self, what: &str, request: F) -> Result<T, Failure>
    where
        F: Fn(Client) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let asked_at = Instant::now();
        let failure = match request(self.client()).await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => Failure::of_status(what, &status),
        };
        if !failure.transport {
            return Err(failure);
        }
        if asked_at.elapsed() >= SIGN_OF_LIFE_WITHIN {
            return Err(self.hangs(what));
        }
        self.reconnect(&failure).await?;
        let response = request(self.client()).await;
        response.map(Response::into_inner).map_err(|status| Failure::of_status(what, &status))
    }

    /// The failure of a gateway that holds its socket and says nothing.
    fn hangs(&self, what: &str) -> Failure {
        let pid = self.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        let given = (SIGN_OF_LIFE_EVERY + SIGN_OF_LIFE_WITHIN).as_secs();
        Failure::new(
            exit::UNREACHABLE,
            what,
            format!("the gateway{pid} gave no sign of life for {given} s: it hangs, or is stopped"),
            "let it go on, or end it (sandboxes go on): sandkeep gateway restart --force",
        )
    }
}

/// Connects to the socket, also when its path is too long for a socket address.
pub(crate) async fn dial(home: &Home) -> io::Result<UnixStream> {
    let path = home.socket();
    if path.as_os_str().len() <= SOCKET_PATH_BYTES {
        return UnixStream::connect(path).await;
    }
    let directory = rustix::fs::open(
        home.path(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let name = path.file_name().map_or_else(PathBuf::new, PathBuf::from);
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    UnixStream::connect(short).await
}

/// No gateway is there, as opposed to one that cannot be talked to.
pub(crate) fn nobody_listens(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The failure of a socket that is there and cannot be used.
pub(crate) fn unreachable(home: &Home, error: &io::Error) -> Failure {
    let socket = home.socket();
    let what = format!("the gateway at {} was not reached", socket.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::new(
            exit::NOT_PERMITTED,
            what,
            "the socket belongs to another user",
            "use a home of your own: SANDKEEP_HOME=DIR",
        ),
        io::ErrorKind::WouldBlock => Failure::new(
            exit::UNREACHABLE,
            what,
            "it has too many clients waiting",
            "try again; to see its log: sandkeep gateway status",
        ),
        io::ErrorKind::NotADirectory => Failure::new(
            exit::FAILED,
            what,
            "the home is not a directory",
            "name another: --home DIR",
        ),
        _ if nobody_listens(error) => Failure::new(
            exit::UNREACHABLE,
            what,
            "no gateway is running there",
            "start one: sandkeep gateway start",
        ),
        _ => Failure::new(
            exit::UNREACHABLE,
            what,
            plain_os_words(error),
            "look at the home's file system, or name another: --home DIR",
        ),
    }
}

/// The system's words without the number behind them.
pub(crate) fn plain_os_words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Whoever listens must be this user or root: nobody else may read what we send.
#[cfg(target_os = "linux")]
fn check_peer(home: &Home, stream: &UnixStream) -> Result<Option<Pid>, Failure> {
    let peer = rustix::net::sockopt::socket_peercred(stream)
        .map_err(|error| unreachable(home, &error.into()))?;
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        return Err(Failure::new(
            exit::NOT_PERMITTED,
            format!("the gateway at {} is not used", home.socket().display()),
            format!("user {} listens there, neither you nor root", peer.uid.as_raw()),
            "use a home of your own: SANDKEEP_HOME=DIR",
        ));
    }
    Ok(Some(peer.pid).filter(|pid| pid.as_raw_nonzero().get() > 0))
}

/// A gateway that this program started in the background says so on its command line. One that is
/// dying has none any more, and leaves open whose it was: then this program may start the next, as
/// it would have a moment later.
fn runs_in_background(pid: Pid) -> bool {
    let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
    let line = std::fs::read(path).unwrap_or_default();
    line.is_empty() || line.split(|byte| *byte == 0).any(|argument| argument == b"--background")
}

/// Elsewhere the mode of the socket and of its home has to do.
#[cfg(not(target_os = "linux"))]
fn check_peer(_home: &Home, _stream: &UnixStream) -> Result<Option<Pid>, Failure> {
    Ok(None)
}

/// A client over one connected socket. The channel cannot dial again by itself: who uses it
/// decides that.
async fn client_over(stream: UnixStream) -> Result<Client, tonic::transport::Error> {
    let mut stream = Some(stream);
    let connector = service_fn(move |_| {
        let stream = stream.take().map(TokioIo::new);
        async move { stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)) }
    });
    let channel = Endpoint::from_static("http://sandkeep.local")
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .http2_keep_alive_interval(SIGN_OF_LIFE_EVERY)
        .keep_alive_timeout(SIGN_OF_LIFE_WITHIN)
        .connect_with_connector(connector)
        .await?;
    Ok(SandkeepClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES))
}
