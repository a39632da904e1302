//! The simulated PID 1: waits for `go`, runs a command that only takes time, keeps its result.

use std::time::Duration;

use sandkeep_core::{MainStatus, RunResult, Spec};

/// What a simulated main command does. Read from the spec's command:
/// nothing = stays up; `forever`; `work MILLIS CODE`; `flaky TIMES MILLIS CODE` (so many executions
/// end like that, then one stays up); anything else cannot be started (127).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainCommand {
    /// There is none, or it never ends by itself.
    Forever,
    /// Ends after a time with a code.
    Work {
        /// How long it runs.
        lasts: Duration,
        /// Its exit code.
        code: i32,
    },
    /// There is no such program inside.
    Unstartable,
}

impl MainCommand {
    /// What `spec` asks for, at execution number `restart` of a run.
    pub fn of(spec: &Spec, restart: u32) -> Self {
        let words: Vec<&str> = spec.command.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] | ["forever"] => Self::Forever,
            ["flaky", times, ..] if times.parse().is_ok_and(|times: u32| restart >= times) => {
                Self::Forever
            }
            ["flaky", _, millis, code] | ["work", millis, code] => {
                match (millis.parse(), code.parse()) {
                    (Ok(millis), Ok(code)) => {
                        Self::Work { lasts: Duration::from_millis(millis), code }
                    }
                    _ => Self::Unstartable,
                }
            }
            _ => Self::Unstartable,
        }
    }
}

/// One execution of a main command: the run, and which time it is.
pub type Execution = (u64, u32);

/// The supervisor of one run of a backing; gone with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimSupervisor {
    /// Different in every run of every backing.
    pub boot: u64,
    /// It is up and will never report.
    pub mute: bool,
    /// It hears no polite signal any more (SIGSTOP).
    pub deaf: bool,
    /// Somebody holds its session's stream.
    pub held: bool,
    /// The highest execution that it had `go` for.
    pub go: Option<Execution>,
    /// What it says of the main command.
    pub main: MainStatus,
}

impl SimSupervisor {
    /// Just booted.
    pub const fn new(boot: u64, mute: bool) -> Self {
        Self { boot, mute, deaf: false, held: false, go: None, main: MainStatus::Waiting }
    }
}

/// What a session with it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupervisorView {
    /// Different in every run of every backing.
    pub boot: u64,
    /// It answers a round trip now (it is not frozen).
    pub answers: bool,
    /// What it says of the main command.
    pub main: MainStatus,
    /// How its newest execution has ended; before it had any, how the one on its disk has. Told in
    /// every session, whoever stored it.
    pub result: Option<RunResult>,
}

/// Why `go` was not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoUnheard {
    /// There is no such supervisor any more.
    Gone,
    /// It is frozen: nothing is answered.
    Frozen,
}
