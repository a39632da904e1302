//! Facts that live in memory only: gone with the gateway process, looked for again by the next.

use crate::id::SandboxId;
use crate::time::Timestamp;

/// The session with a sandbox's supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Session {
    /// None, since then (`EPOCH`: this process never had one).
    #[default]
    None,
    /// There was one in this process; it ended.
    Lost {
        /// When.
        since: Timestamp,
    },
    /// There is one.
    Connected {
        /// Incarnation whose PID 1 it was proved to come from.
        incarnation: u64,
        /// Since when.
        since: Timestamp,
        /// The newest answered round trip; `None`: not answered yet. Ready needs one.
        probed_at: Option<Timestamp>,
        /// What the supervisor says of the main command.
        main: MainStatus,
    },
}

/// What the supervisor says of the main command, of its own life only: a PID 1 that has just been
/// started says [`MainStatus::Waiting`], whatever an earlier one left on disk (a result found
/// there is stored with [`Record::hear`](crate::Record::hear)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MainStatus {
    /// It has had no `go` in this incarnation.
    #[default]
    Waiting,
    /// It had `go` for this run; the command runs, or there is none to run.
    Running {
        /// Which run.
        run: u64,
        /// Which execution of it, as in [`Go::restart`](crate::Go::restart).
        restart: u32,
    },
    /// The command of this run has ended; the result is on its way or stored.
    Ended {
        /// Which run.
        run: u64,
        /// Which execution of it, as in [`Go::restart`](crate::Go::restart).
        restart: u32,
    },
}

/// What the supervisor, and the sessions that were tried with it, told besides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionNotes {
    /// The newest session was refused, by either side; `None`: not since the last one that stood.
    pub refused: Option<SessionRefused>,
    /// Guards that the supervisor could not put up, by name (`seccomp`, `landlock` …); empty: all
    /// are up. `None`: it has not told in this process.
    pub missing_guards: Option<Vec<String>>,
}

/// A session that one side did not want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRefused {
    /// Why, a clause.
    pub message: String,
    /// When it was first refused so.
    pub since: Timestamp,
}

/// What the registry knows about the sandbox's workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceFacts {
    /// Another sandbox that holds it and whose backing is not proved gone.
    pub held_by: Option<SandboxId>,
    /// It was ensured and marked once.
    pub marked: bool,
    /// Other sandboxes refer to it too, so it is not discarded with this one.
    pub shared: bool,
    /// There is no record of it any more.
    pub forgotten: bool,
}

/// Everything `decide` and `project` need besides the record and the time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// This process has looked at the backing, at or after the current generation. Before that the
    /// stored observation is history, and nothing is decided on it.
    pub looked: bool,
    /// This process has looked at the backing before, under an older intent: what is asked for now
    /// is known to be under way, though no view is new enough to act on.
    pub looked_before: bool,
    /// Why the latest look failed, if it did: the engine's words.
    pub look_error: Option<String>,
    /// The session with the supervisor.
    pub session: Session,
    /// What else was told by it.
    pub told: SessionNotes,
    /// Since when this process has been ready to take a session of this sandbox; `EPOCH`: not
    /// known. A supervisor's deadline to report never begins before that, so a gateway that comes
    /// back after a long time kills nothing that only waits for it.
    pub listening_since: Timestamp,
    /// The supervisor told of a result that is not stored yet. Until it is, a run is not called
    /// lost: its result may be that one.
    pub result_waiting: bool,
    /// The workspace, as the registry has it.
    pub workspace: WorkspaceFacts,
    /// The gateway is in hold: it observes and answers, and changes nothing on backends.
    pub gateway_hold: bool,
    /// The driver that the record names is not configured in this gateway.
    pub driver_missing: bool,
    /// A backend call is under way right now: what it is for.
    pub acting: Option<&'static str>,
}
