//! The world of the model: two sandboxes, one workspace, one engine, all of it in small numbers,
//! and the way from there to the core's own types and back.
//!
//! Time has two values for everything stored: now, or long ago. What is stored as now has not
//! come to its deadline; letting time pass turns it into long ago.

use sandkeep_core::intent::Want;
use sandkeep_core::{
    Action, Attempt, Backing, BackingReport, ErrorNote, FailureKind, Go, Intent, Live, MainStatus,
    Observation, Operation, Record, RunResult, SandboxId, Session, SessionNotes, Timestamp,
    WorkspaceFacts, WorkspaceSeen,
};

pub(crate) const NOW: Timestamp = Timestamp::from_millis(10_000_000_000);
pub(crate) const LONG_AGO: Timestamp = Timestamp::from_millis(9_000_000_000);
const SOON: Timestamp = Timestamp::from_millis(10_000_001_000);

/// What the engine has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Kind {
    #[default]
    Absent,
    Idle,
    Starting,
    Running,
    Paused,
    Stopping,
    Exited,
}

impl Kind {
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Paused | Self::Stopping)
    }

    fn backing(self) -> Backing {
        match self {
            Self::Absent => Backing::Absent,
            Self::Idle => Backing::Idle,
            Self::Starting => Backing::Starting,
            Self::Running => Backing::Running,
            Self::Paused => Backing::Paused,
            Self::Stopping => Backing::Stopping,
            Self::Exited => Backing::Exited { code: Some(143), oom: false, finished_at: None },
        }
    }

    fn of(backing: &Backing) -> Self {
        match backing {
            Backing::Absent => Self::Absent,
            Backing::Idle => Self::Idle,
            Backing::Starting => Self::Starting,
            Backing::Running => Self::Running,
            Backing::Paused => Self::Paused,
            Backing::Stopping => Self::Stopping,
            Backing::Exited { .. } => Self::Exited,
            other => panic!("the model never shows {other:?}"),
        }
    }
}

/// One execution of the command: run, restart.
pub(crate) type Execution = (u8, u8);

/// A backing and the supervisor in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Real {
    pub(crate) kind: Kind,
    /// Numbers its runs; a name for the driver's report.
    pub(crate) run: u8,
    pub(crate) generation: u8,
    /// What its supervisor was told to run; dies with it.
    pub(crate) heard: Option<Execution>,
    /// That has ended.
    pub(crate) ended: bool,
    /// On disk, outside the workspace: the newest result, with code 0 or not.
    pub(crate) result: Option<(Execution, u8, bool)>,
    /// The newest execution that any supervisor of it ever began.
    pub(crate) executed: Execution,
}

/// What is stored of the attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Tries {
    pub(crate) operation: u8,
    pub(crate) generation: u8,
    pub(crate) number: u8,
    pub(crate) waiting: bool,
    pub(crate) failure: u8,
    pub(crate) error: bool,
    pub(crate) from_incarnation: u8,
    pub(crate) heals_loss: bool,
    pub(crate) reached: u8,
    pub(crate) removed: bool,
    pub(crate) seeks_workspace: bool,
    pub(crate) go: Option<(Execution, u8)>,
    pub(crate) go_old: bool,
}

/// What is stored of the observation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) old: bool,
    pub(crate) run: u8,
    pub(crate) previous_run: u8,
    pub(crate) incarnation: u8,
    pub(crate) incarnation_old: bool,
    pub(crate) generation: Option<u8>,
    pub(crate) workspace: u8,
    pub(crate) result: Option<(Execution, u8, bool)>,
    pub(crate) result_old: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Link {
    #[default]
    None,
    Lost,
    Up {
        incarnation: u8,
        /// As the gateway heard it last; `true`: ended.
        main: Option<(Execution, bool)>,
    },
}

/// One sandbox: its record, its worker in the gateway, and what is really there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sandbox {
    pub(crate) want: u8,
    pub(crate) generation: u8,
    pub(crate) run: u8,
    pub(crate) fresh_after: u8,
    pub(crate) discard: bool,
    pub(crate) forget: bool,
    pub(crate) seen: Seen,
    pub(crate) tries: Tries,
    pub(crate) gone: bool,

    pub(crate) looked: u8,
    pub(crate) look_failed: bool,
    pub(crate) link: Link,
    pub(crate) pending: Option<Pending>,

    pub(crate) real: Real,
}

/// An action that is stored and not carried out yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Pending {
    EnsureWorkspace,
    Create { generation: u8 },
    Start,
    Go { execution: Execution, incarnation: u8 },
    Stop,
    Kill,
    Thaw,
    Remove,
    Discard,
    Forget,
    RequestDelete { discard: bool },
}

impl Pending {
    /// The action, where what follows it in the record depends on it.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::EnsureWorkspace => Action::EnsureWorkspace,
            Self::Remove => Action::Remove,
            _ => Action::Kill,
        }
    }

    pub(crate) fn stage(self) -> &'static str {
        match self {
            Self::EnsureWorkspace => "workspace",
            Self::Create { .. } => "create",
            Self::Start => "start",
            Self::Go { .. } => "session",
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Thaw => "thaw",
            Self::Remove => "remove",
            Self::Discard => "discard",
            Self::Forget => "forget",
            Self::RequestDelete { .. } => "delete",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) holder: Option<u8>,
    pub(crate) marked: bool,
    /// The bytes; another number is another, empty workspace.
    pub(crate) bytes: Option<u8>,
    pub(crate) workspace_forgotten: bool,
    pub(crate) engine_down: bool,
    /// Events that may still come.
    pub(crate) budget: u8,
    /// An invariant that a step broke.
    pub(crate) broken: Option<&'static str>,
}

fn wants(number: u8) -> Want {
    [Want::Running, Want::Stopped, Want::Deleted][usize::from(number)]
}

pub(crate) fn small(number: impl TryInto<u8>) -> u8 {
    number.try_into().unwrap_or_else(|_| panic!("a small world has small numbers"))
}

fn time(old: bool) -> Timestamp {
    if old { LONG_AGO } else { NOW }
}

fn run_name(run: u8) -> Option<String> {
    (run > 0).then(|| format!("r{run}"))
}

fn run_number(name: Option<&String>) -> u8 {
    name.map_or(0, |name| name[1..].parse().expect("a name that we gave"))
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self {
            want: 0,
            generation: 1,
            run: 1,
            fresh_after: 0,
            discard: false,
            forget: false,
            seen: Seen::default(),
            tries: Tries::default(),
            gone: false,
            looked: 0,
            look_failed: false,
            link: Link::None,
            pending: None,
            real: Real::default(),
        }
    }

    pub(crate) fn want(&self) -> Want {
        wants(self.want)
    }

    /// The record as the gateway has it; `prototype` gives what never changes.
    pub(crate) fn record(&self, prototype: &Record) -> Record {
        let intent = Intent {
            want: self.want(),
            generation: self.generation.into(),
            run: self.run.into(),
            fresh_after: self.fresh_after.into(),
            discard_workspace: self.discard,
            forget: self.forget,
            ..prototype.intent.clone()
        };
        // Field by field: this is called for every step of every world, and a prototype cloned
        // whole would bring a second intent along.
        Record {
            id: prototype.id.clone(),
            name: prototype.name.clone(),
            driver: prototype.driver.clone(),
            created_at: prototype.created_at,
            identity: prototype.identity.clone(),
            intent,
            observed: self.seen.observation(),
            attempt: self.tries.attempt(),
            activity: prototype.activity.clone(),
            revision: prototype.revision,
        }
    }

    pub(crate) fn absorb_intent(&mut self, intent: &Intent) {
        self.want = match intent.want {
            Want::Running => 0,
            Want::Stopped => 1,
            Want::Deleted => 2,
        };
        self.generation = small(intent.generation);
        self.run = small(intent.run);
        self.fresh_after = small(intent.fresh_after);
        self.discard = intent.discard_workspace;
        self.forget = intent.forget;
    }

    pub(crate) fn report(&self) -> BackingReport {
        BackingReport {
            backing: self.real.kind.backing(),
            // A backing that was made anew has had no run yet; one on its way has no name yet.
            backing_run: match self.real.kind {
                Kind::Absent | Kind::Idle | Kind::Starting => None,
                _ => run_name(self.real.run),
            },
            generation: (self.real.kind != Kind::Absent).then(|| self.real.generation.into()),
            engine: None,
            unenforced_limits: Vec::new(),
            workspace_replaced: false,
        }
    }
}

impl Seen {
    fn observation(&self) -> Observation {
        Observation {
            backing: self.kind.backing(),
            backing_run: run_name(self.run),
            previous_backing_run: run_name(self.previous_run),
            incarnation: self.incarnation.into(),
            incarnation_since: time(self.incarnation_old),
            since: time(self.old),
            generation: self.generation.map(u64::from),
            engine: None,
            workspace: [WorkspaceSeen::NotYet, WorkspaceSeen::Bound, WorkspaceSeen::Missing]
                [usize::from(self.workspace)],
            result: self.result.map(|((run, restart), incarnation, fine)| RunResult {
                run: run.into(),
                restart: restart.into(),
                incarnation: incarnation.into(),
                code: i32::from(!fine),
                signal: None,
                oom: false,
                finished_at: LONG_AGO,
                spawn_error: None,
            }),
            result_at: time(self.result_old),
            unenforced_limits: Vec::new(),
            workspace_replaced: false,
            restarts: 0,
        }
    }

    pub(crate) fn absorb(&mut self, observed: &Observation) {
        *self = Self {
            kind: Kind::of(&observed.backing),
            old: observed.since < NOW,
            run: run_number(observed.backing_run.as_ref()),
            previous_run: run_number(observed.previous_backing_run.as_ref()),
            incarnation: small(observed.incarnation),
            incarnation_old: observed.incarnation_since < NOW,
            generation: observed.generation.map(small),
            workspace: self.workspace,
            result: observed.result.as_ref().map(|result| {
                let execution = (small(result.run), small(result.restart));
                (execution, small(result.incarnation), result.code == 0)
            }),
            result_old: observed.result_at < NOW,
        };
    }
}

const OPERATIONS: [Option<Operation>; 4] =
    [None, Some(Operation::BringUp), Some(Operation::TakeDown), Some(Operation::Remove)];
const FAILURES: [Option<FailureKind>; 4] =
    [None, Some(FailureKind::Transient), Some(FailureKind::Outside), Some(FailureKind::Invalid)];

impl Tries {
    pub(crate) fn attempt(&self) -> Attempt {
        let note = self.error.then(|| ErrorNote {
            stage: "x".to_owned(),
            reason: "X".to_owned(),
            message: String::new(),
            at: LONG_AGO,
        });
        Attempt {
            operation: OPERATIONS[usize::from(self.operation)],
            generation: self.generation.into(),
            number: self.number.into(),
            started_at: LONG_AGO,
            next_try_at: self.waiting.then_some(SOON),
            first_error: note.clone(),
            latest_error: note,
            go: self.go.map(|((run, restart), incarnation)| Go {
                run: run.into(),
                restart: restart.into(),
                incarnation: incarnation.into(),
                at: time(self.go_old),
            }),
            failure: FAILURES[usize::from(self.failure)],
            from_incarnation: self.from_incarnation.into(),
            heals_loss: self.heals_loss,
            reached: self.reached.into(),
            removed: self.removed,
            seeks_workspace: self.seeks_workspace,
        }
    }

    pub(crate) fn absorb(&mut self, attempt: &Attempt) {
        let position = |found: Option<usize>| small(found.expect("one of them"));
        *self = Self {
            operation: position(OPERATIONS.iter().position(|one| *one == attempt.operation)),
            generation: small(attempt.generation),
            // Higher ones differ in their waits alone.
            number: small(attempt.number.min(3)),
            waiting: attempt.next_try_at.is_some_and(|at| at > NOW),
            failure: position(FAILURES.iter().position(|one| *one == attempt.failure)),
            error: attempt.latest_error.is_some(),
            from_incarnation: small(attempt.from_incarnation),
            heals_loss: attempt.heals_loss,
            reached: small(attempt.reached),
            removed: attempt.removed,
            seeks_workspace: attempt.seeks_workspace,
            go: attempt.go.map(|go| ((small(go.run), small(go.restart)), small(go.incarnation))),
            go_old: attempt.go.is_some_and(|go| go.at < NOW),
        };
    }
}

impl World {
    pub(crate) fn live(&self, index: usize, ids: &[SandboxId]) -> Live {
        let sandbox = &self.sandboxes[index];
        let others = self.sandboxes.iter().enumerate().filter(|(other, _)| *other != index);
        let main = |heard: Option<(Execution, bool)>| match heard {
            None => MainStatus::Waiting,
            Some(((run, restart), false)) => {
                MainStatus::Running { run: run.into(), restart: restart.into() }
            }
            Some(((run, restart), true)) => {
                MainStatus::Ended { run: run.into(), restart: restart.into() }
            }
        };
        Live {
            looked: sandbox.looked == sandbox.generation,
            looked_before: sandbox.looked > 0,
            look_error: sandbox.look_failed.then(|| "down".to_owned()),
            session: match sandbox.link {
                Link::None => Session::None,
                Link::Lost => Session::Lost { since: LONG_AGO },
                Link::Up { incarnation, main: heard } => Session::Connected {
                    incarnation: incarnation.into(),
                    since: LONG_AGO,
                    probed_at: Some(NOW),
                    main: main(heard),
                },
            },
            told: SessionNotes::default(),
            listening_since: LONG_AGO,
            result_waiting: false,
            workspace: WorkspaceFacts {
                held_by: self
                    .holder
                    .map(usize::from)
                    .filter(|holder| *holder != index)
                    .map(|holder| ids[holder].clone()),
                marked: self.marked,
                shared: others.clone().any(|(_, other)| !other.gone),
                forgotten: self.workspace_forgotten,
            },
            gateway_hold: false,
            driver_missing: false,
            acting: None,
        }
    }
}
