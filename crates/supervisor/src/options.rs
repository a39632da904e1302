//! The command line: what the driver decides when it starts PID 1.
//!
//! ```text
//! sandkeep-supervisor init --socket PATH (--state DIR | --state-fd N)
//!     [--not-pid1] [--without-guard NAME]…
//! sandkeep-supervisor --version
//! ```
//! `--without-guard` leaves one guard out, so that a test can show what the guard is for. Only who
//! starts PID 1 can give it, and that is who could leave the supervisor out altogether.

use std::os::fd::RawFd;
use std::path::PathBuf;

/// In the environment: run although a guard could not be put up. It is named in `Hello` still.
pub const ALLOW_MISSING_GUARDS: &str = "SANDKEEP_ALLOW_MISSING_GUARDS";

/// Where results and logs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatePlace {
    /// A mount point; PID 1 opens it and detaches the mount.
    Directory(PathBuf),
    /// A directory that is open already.
    Descriptor(RawFd),
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The gateway's socket.
    pub socket: PathBuf,
    /// Results and logs.
    pub state: StatePlace,
    /// An ordinary process, for tests: no guards, no mounts touched, no network set up.
    pub not_pid1: bool,
    /// Guards to leave out.
    pub without_guards: Vec<String>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Be PID 1.
    Init(Options),
    /// Print the version.
    Version,
}

impl Task {
    /// Reads the arguments, without the program's name. The error is a sentence.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        match arguments.next().as_deref() {
            Some("--version") => Ok(Self::Version),
            Some("init") => read_init(arguments).map(Self::Init),
            Some(other) => Err(format!("unknown command {other}")),
            None => Err("a command is missing: init or --version".to_owned()),
        }
    }
}

fn read_init(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut socket, mut state) = (None, None);
    let (mut not_pid1, mut without_guards) = (false, Vec::new());
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--socket" => socket = Some(PathBuf::from(value()?)),
            "--state" => state = Some(StatePlace::Directory(PathBuf::from(value()?))),
            "--state-fd" => {
                let number =
                    value()?.parse().map_err(|_| "--state-fd needs a number".to_owned())?;
                state = Some(StatePlace::Descriptor(number));
            }
            "--not-pid1" => not_pid1 = true,
            "--without-guard" => without_guards.push(value()?),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(Options {
        socket: socket.ok_or("--socket is missing")?,
        state: state.ok_or("--state or --state-fd is missing")?,
        not_pid1,
        without_guards,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Task, String> {
        Task::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_full_command_line_is_understood() {
        let task = read("init --socket /s --state /d --not-pid1 --without-guard seccomp").unwrap();
        let expect = Options {
            socket: "/s".into(),
            state: StatePlace::Directory("/d".into()),
            not_pid1: true,
            without_guards: vec!["seccomp".to_owned()],
        };
        assert_eq!(task, Task::Init(expect));
        assert_eq!(read("--version"), Ok(Task::Version));
    }

    #[test]
    fn a_wrong_command_line_says_what_is_wrong() {
        let check = |line, expect: &str| assert_eq!(read(line), Err(expect.to_owned()));
        check("", "a command is missing: init or --version");
        check("run", "unknown command run");
        check("init --state /d", "--socket is missing");
        check("init --socket /s", "--state or --state-fd is missing");
        check("init --socket", "--socket needs a value");
        check("init --socket /s --state-fd x", "--state-fd needs a number");
        check("init --verbose", "unknown option --verbose");
    }
}
