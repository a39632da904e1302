//! What Sandkeep knows about a sandbox, and the pure functions that decide what happens next.
//!
//! Four kinds of fact are kept apart, each with one writer: [`Intent`] (verbs), [`Observation`]
//! (what a driver or the supervisor answered), [`Attempt`] (what the reconciler is trying) and
//! [`Activity`] (when it was last used). [`decide`] turns a [`Record`] and the [`Live`] facts into
//! one [`Decision`]; [`project`] turns the same facts into the [`View`] that people see. A phase is
//! never stored and never gates a verb.
//!
//! Deliberately absent: input and output, async, threads, clocks, randomness. Time is an argument.

pub mod activity;
pub mod attempt;
pub mod backoff;
pub mod check;
pub mod condition;
pub mod decide;
pub mod explain;
pub mod id;
pub mod intent;
pub mod live;
pub mod observation;
pub mod project;
pub mod record;
pub mod run;
pub mod spec;
pub mod time;
pub mod verb;
pub mod workspace;

pub use activity::Activity;
pub use attempt::{Attempt, ErrorNote, FailureKind, Go, Operation};
pub use condition::{Condition, ConditionType, Reason, Status};
pub use decide::{Action, Decision, decide};
pub use explain::{Explanation, explain};
pub use id::{GatewayId, InvalidName, Name, SandboxId, WorkspaceId};
pub use intent::{Intent, Want};
pub use live::{Live, MainStatus, Session, SessionNotes, SessionRefused, WorkspaceFacts};
pub use observation::{Backing, BackingReport, Observation, RunResult, UnknownWhy, WorkspaceSeen};
pub use project::{Phase, View, WaitsFor, project};
pub use record::{Identity, Record};
pub use run::RunState;
pub use spec::{Image, Limits, Mount, Privilege, RestartPolicy, Spec};
pub use time::Timestamp;
pub use workspace::Workspace;
