//! A gateway in the background: started when a verb needs one, or by `gateway start`.
//!
//! The new process leads a session of its own, works in `/`, holds none of the caller's files, and
//! lives in its own systemd scope where systemd is, so it survives the terminal and the login it
//! was started from. Several starters at once are no trouble: the lock on the home lets one gateway
//! in, and every starter ends up connected to that one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::client::{self, Connector};
use crate::error::{Failure, exit};
use crate::home::Home;

/// A gateway serves within 300 ms; a machine that has just come up may take much longer.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// A gateway that found the home taken by another, which does not answer: it was about to, or it
/// hangs.
const OTHER_DEADLINE: Duration = Duration::from_secs(5);
/// Exit code of a gateway that found the home taken.
const HOME_TAKEN: i32 = 4;
/// A log this long makes room for the next.
pub(crate) const LOG_BYTES: u64 = 8 << 20;
/// As much of the log's end is searched for an error.
const LOG_TAIL_BYTES: u64 = 64 << 10;

/// Whether a verb may start a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Autostart {
    /// Yes.
    Allowed,
    /// No: `SANDKEEP_NO_AUTOSTART` is set, or the verb makes no sense without a running one.
    Forbidden,
}

/// Why a gateway runs in the background, as written on its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Background {
    /// A verb needed one; verbs may start it again when it is lost.
    Auto,
    /// `gateway start` was asked for.
    Start,
}

impl Background {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Start => "start",
        }
    }
}

/// Starts a gateway for a verb, unless that is forbidden. Returns a connection to whichever gateway
/// answers first.
pub(crate) async fn start_if_allowed(connector: &Connector) -> Result<UnixStream, Failure> {
    if connector.autostart == Autostart::Forbidden {
        return Err(Failure::new(
            exit::UNREACHABLE,
            "the gateway was not reached",
            format!("none is running at {}", connector.home.socket().display()),
            "start one: sandkeep gateway start",
        ));
    }
    start(&connector.home, Background::Auto, &[]).await
}

/// Starts `sandkeep gateway run ARGUMENTS` in the background and waits until a gateway answers.
pub(crate) async fn start(
    home: &Home,
    why: Background,
    arguments: &[String],
) -> Result<UnixStream, Failure> {
    make_home(home)?;
    let log = open_log(home)?;
    let from = log.metadata().map(|meta| meta.len()).unwrap_or(0);
    let mut direct = gateway_command(home, why, arguments)?;
    let deadline = Instant::now() + START_DEADLINE;
    // Without systemd-run, or a bus to talk to, the plain way is tried.
    let scoped = in_own_scope(&direct).and_then(|mut scoped| spawn(&mut scoped, &log).ok());
    if let Some(child) = scoped {
        match wait_until_it_answers(home, child, deadline, from).await {
            Err(NotStarted::Exited { said_why: false, .. }) => {}
            other => return other.map_err(|not| not.into_failure(home)),
        }
    }
    let child = spawn(&mut direct, &log).map_err(|error| not_spawned(home, &error))?;
    wait_until_it_answers(home, child, deadline, from).await.map_err(|not| not.into_failure(home))
}

/// Why no gateway answered.
enum NotStarted {
    /// The new process ended.
    Exited {
        /// It wrote an error in our form.
        said_why: bool,
        failure: Box<Failure>,
    },
    /// Nothing answered in time.
    Late,
    /// The socket cannot be used.
    Socket(std::io::Error),
}

impl NotStarted {
    fn into_failure(self, home: &Home) -> Failure {
        match self {
            Self::Exited { failure, .. } => *failure,
            Self::Late => Failure::new(
                exit::UNREACHABLE,
                "the gateway was started and does not answer",
                format!("nothing listened within {} s", START_DEADLINE.as_secs()),
                format!("see its log: {}", home.log().display()),
            ),
            Self::Socket(error) => client::unreachable(home, &error),
        }
    }
}

async fn wait_until_it_answers(
    home: &Home,
    mut child: Child,
    mut deadline: Instant,
    log_from: u64,
) -> Result<UnixStream, NotStarted> {
    let mut pause = Duration::from_millis(2);
    let mut exited = None;
    loop {
        match client::dial(home).await {
            Ok(stream) => return Ok(stream),
            Err(error) if client::nobody_listens(&error) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(NotStarted::Socket(error)),
        }
        // Looked at after the socket: a gateway that listened and ended is no success.
        if exited.is_none() {
            exited = child.try_wait().ok().flatten();
            if exited.is_some() {
                deadline = deadline.min(Instant::now() + OTHER_DEADLINE);
            }
        }
        // When the home is taken, the other gateway is about to listen: go on dialling.
        if exited.is_some_and(|status| status.code() != Some(HOME_TAKEN)) {
            let said = last_error(&home.log(), log_from);
            return Err(NotStarted::Exited {
                said_why: said.is_some(),
                failure: Box::new(said.unwrap_or_else(|| died_silently(home))),
            });
        }
        if Instant::now() >= deadline {
            let said = exited.and_then(|_| last_error(&home.log(), log_from));
            return Err(said.map_or(NotStarted::Late, |failure| NotStarted::Exited {
                said_why: true,
                failure: Box::new(failure),
            }));
        }
        sleep(pause).await;
        pause = (pause * 3 / 2).min(Duration::from_millis(50));
    }
}

fn died_silently(home: &Home) -> Failure {
    Failure::new(
        exit::UNREACHABLE,
        "the gateway was not started",
        "its process ended at once, without a word",
        format!("see its log: {}", home.log().display()),
    )
}

/// The home, readable by its owner alone.
fn make_home(home: &Home) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(home.path()).map_err(|error| {
        Failure::new(
            exit::FAILED,
            format!("the gateway's home {} was not made", home.path().display()),
            client::plain_os_words(&error),
            "name another: --home DIR, or SANDKEEP_HOME",
        )
    })
}

/// The log, with the last one moved out of the way when it is long.
fn open_log(home: &Home) -> Result<File, Failure> {
    let path = home.log();
    rotate_if_long(&path);
    append_to(&path).map_err(|error| {
        Failure::new(
            exit::FAILED,
            format!("the gateway's log {} was not opened", path.display()),
            client::plain_os_words(&error),
            "make room or rights there, or name another home: --home DIR",
        )
    })
}

/// Opens a log for appending, readable by its owner alone.
pub(crate) fn append_to(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Keeps one old log beside the new one.
pub(crate) fn rotate_if_long(path: &Path) {
    let long = std::fs::metadata(path).is_ok_and(|meta| meta.len() >= LOG_BYTES);
    if long {
        // A log that cannot be moved only grows a little more.
        let _kept = std::fs::rename(path, path.with_extension("log.1"));
    }
}

fn gateway_command(home: &Home, why: Background, arguments: &[String]) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(
            exit::FAILED,
            "the gateway was not started",
            format!("this program cannot find itself: {}", client::plain_os_words(&error)),
            "start it by hand: sandkeep gateway run",
        )
    })?;
    let mut command = Command::new(program);
    command.arg("--home").arg(home.path());
    command.args(["gateway", "run", "--background", why.as_str()]).args(arguments);
    Ok(command)
}

/// The same command, run by systemd in a scope of its own; `None`: systemd is not here.
fn in_own_scope(direct: &Command) -> Option<Command> {
    Path::new("/run/systemd/system").is_dir().then_some(())?;
    let mut scoped = Command::new("systemd-run");
    if !rustix::process::geteuid().is_root() {
        scoped.arg("--user");
    }
    scoped.args(["--scope", "--quiet", "--collect", "--description=Sandkeep gateway"]);
    scoped.args(["--property=Delegate=yes", "--property=KillMode=process", "--"]);
    scoped.arg(direct.get_program()).args(direct.get_args());
    Some(scoped)
}

fn spawn(command: &mut Command, log: &File) -> std::io::Result<Child> {
    let (out, err) = (log.try_clone()?, log.try_clone()?);
    command.current_dir("/").stdin(Stdio::null()).stdout(out).stderr(err).spawn()
}

fn not_spawned(home: &Home, error: &std::io::Error) -> Failure {
    Failure::new(
        exit::FAILED,
        format!("the gateway of {} was not started", home.path().display()),
        client::plain_os_words(error),
        "start it by hand: sandkeep gateway run",
    )
}

/// The last error in our three-part form that was logged after `from`.
fn last_error(log: &Path, from: u64) -> Option<Failure> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    let start = from.min(length).max(length.saturating_sub(LOG_TAIL_BYTES));
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    error_in(&String::from_utf8_lossy(&bytes))
}

/// The last `error: … / why: … / next: …` in a text.
fn error_in(text: &str) -> Option<Failure> {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().rposition(|line| line.starts_with("error: "))?;
    let part = |name: &str| {
        let found = lines[at + 1..].iter().take(2).find_map(|line| line.trim().strip_prefix(name));
        found.unwrap_or_default().to_owned()
    };
    let what = lines[at].trim_start_matches("error: ");
    Some(Failure::new(exit::UNREACHABLE, what, part("why: "), part("next: ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_of_the_log_is_told_in_its_three_parts() {
        let text = "INFO up\nerror: old\n  why: a\nINFO x\nerror: the home is taken\n  why: process 7 \
                    holds it\n  next: stop it\n";
        let failure = error_in(text).unwrap();
        assert_eq!(failure.what, "the home is taken");
        assert_eq!(failure.why, "process 7 holds it");
        assert_eq!(failure.next, "stop it");
    }

    #[test]
    fn a_log_without_an_error_tells_none() {
        assert_eq!(error_in("INFO up\n  why: no\n"), None);
    }

    #[test]
    fn what_was_logged_by_an_earlier_gateway_is_not_told_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.log");
        let old = "error: old\n  why: a\n  next: b\n";
        std::fs::write(&path, old).unwrap();
        assert_eq!(last_error(&path, old.len() as u64), None);
        assert_eq!(last_error(&path, 0).unwrap().what, "old");
    }

    #[test]
    fn a_long_log_makes_room_and_one_old_one_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.log");
        File::create(&path).unwrap().set_len(LOG_BYTES).unwrap();
        rotate_if_long(&path);
        assert!(!path.exists() && directory.path().join("gateway.log.1").exists());
    }
}
