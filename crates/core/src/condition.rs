//! Conditions and reasons: the words in which a sandbox's state is explained.
//!
//! docs/conditions has one page per reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConditionType {
    /// The workspace is there, marked and held by this sandbox.
    WorkspaceBound,
    /// The backing is there and is as asked for.
    Backed,
    /// A proved session with the supervisor of the current incarnation.
    Connected,
    /// A command can be run now.
    Ready,
    /// Every limit of the spec is enforced.
    LimitsEnforced,
    /// The supervisor has put up all of its guards.
    Guarded,
    /// Nothing outside can be reached.
    NetworkIsolated,
    /// The host's system changed under the root file system.
    HostChanged,
    /// The root file system is kept over stop and start.
    RootfsKept,
}

/// Kubernetes' three values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It could not be found out.
    Unknown,
}

/// One condition of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: Status,
    /// One CamelCase word: a [`Reason`], or a driver's own.
    pub reason: String,
    /// A sentence; may be empty when the reason says it all.
    pub message: String,
    /// Since when, as far as stored facts tell.
    pub since: Timestamp,
}

/// The core's own reasons. Drivers add words of their own through
/// [`ErrorNote::reason`](crate::ErrorNote).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Just asked for; nothing looked at or tried yet.
    Created,
    /// This gateway process has not looked at it yet.
    NotYetObserved,
    /// The engine does not answer.
    EngineUnreachable,
    /// Another engine answers than the one it was made on.
    OtherEngine,
    /// The engine's answer makes no sense.
    Unintelligible,
    /// The driver of the record is not configured in this gateway.
    DriverNotConfigured,
    /// The gateway is in hold and changes nothing on backends.
    GatewayOnHold,
    /// The workspace is being made or found.
    EnsuringWorkspace,
    /// Another sandbox still holds the workspace.
    WorkspaceHeld,
    /// The workspace was there once and is gone; never replaced by an empty one.
    WorkspaceMissing,
    /// The workspace is there.
    WorkspaceBound,
    /// Another workspace is in its place by now than the one that runs on.
    WorkspaceReplaced,
    /// The backing is being made.
    Creating,
    /// The backing is not there and will be made.
    BackingAbsent,
    /// The backing is there, holds no compute and will be started.
    BackingIdle,
    /// The backing ended without being told to and will be started again.
    BackingExited,
    /// The backing is being started.
    Starting,
    /// The backing runs; its supervisor has not reported yet.
    WaitingForSupervisor,
    /// The supervisor did not report before its deadline; killed and started again.
    SupervisorNeverConnected,
    /// The session was lost; reconnecting for ever, nothing is killed.
    SessionLost,
    /// Everything is as asked for and a command can be run now.
    Ready,
    /// As Ready; the command's run was lost and its policy says not to repeat it.
    RunLost,
    /// The main command ended with 0 and is not to run again.
    CommandCompleted,
    /// The main command ended with another code and is not to run again.
    CommandFailed,
    /// The main command ended and will be run again.
    CommandRestarting,
    /// The last try failed; another follows.
    BackingOff,
    /// The spec cannot be carried out until it is changed.
    InvalidSpec,
    /// The backing was still on its way up at its deadline; killed and started again.
    StartTimedOut,
    /// The backing is newer than the record: the store was rolled back. Nothing is done to it.
    StoreRolledBack,
    /// The engine reported an action as done, and nothing changed.
    NoEffect,
    /// The backing runs.
    BackingRunning,
    /// There is a proved session with the supervisor.
    Connected,
    /// A new run was asked for; the old backing is being stopped first.
    Restarting,
    /// It is being stopped.
    Stopping,
    /// It is stopped, as asked for.
    Stopped,
    /// It is frozen by its engine and will be thawed.
    Paused,
    /// It sleeps and wakes when used.
    Sleeping,
    /// The engine is removing the backing; it will be made again.
    BackingRemoving,
    /// It is being deleted.
    Deleting,
    /// Its run has a result and `--rm` was asked for.
    RemovingWhenDone,
    /// Limits of the spec are not enforced on this backend.
    LimitsNotEnforced,
    /// Every limit of the spec is enforced.
    LimitsEnforced,
    /// A session with the supervisor was refused, by it or by the gateway; tried again for ever.
    SessionRefused,
    /// All guards inside are up.
    GuardsUp,
    /// Some guards inside could not be put up.
    GuardsMissing,
}

impl Reason {
    /// The CamelCase word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::NotYetObserved => "NotYetObserved",
            Self::EngineUnreachable => "EngineUnreachable",
            Self::OtherEngine => "OtherEngine",
            Self::Unintelligible => "Unintelligible",
            Self::DriverNotConfigured => "DriverNotConfigured",
            Self::GatewayOnHold => "GatewayOnHold",
            Self::EnsuringWorkspace => "EnsuringWorkspace",
            Self::WorkspaceHeld => "WorkspaceHeld",
            Self::WorkspaceMissing => "WorkspaceMissing",
            Self::WorkspaceBound => "WorkspaceBound",
            Self::WorkspaceReplaced => "WorkspaceReplaced",
            Self::Creating => "Creating",
            Self::BackingAbsent => "BackingAbsent",
            Self::BackingIdle => "BackingIdle",
            Self::BackingExited => "BackingExited",
            Self::Starting => "Starting",
            Self::WaitingForSupervisor => "WaitingForSupervisor",
            Self::SupervisorNeverConnected => "SupervisorNeverConnected",
            Self::SessionLost => "SessionLost",
            Self::Ready => "Ready",
            Self::RunLost => "RunLost",
            Self::CommandCompleted => "CommandCompleted",
            Self::CommandFailed => "CommandFailed",
            Self::CommandRestarting => "CommandRestarting",
            Self::BackingOff => "BackingOff",
            Self::InvalidSpec => "InvalidSpec",
            Self::StartTimedOut => "StartTimedOut",
            Self::StoreRolledBack => "StoreRolledBack",
            Self::NoEffect => "NoEffect",
            Self::BackingRunning => "BackingRunning",
            Self::Connected => "Connected",
            Self::Restarting => "Restarting",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Paused => "Paused",
            Self::Sleeping => "Sleeping",
            Self::BackingRemoving => "BackingRemoving",
            Self::Deleting => "Deleting",
            Self::RemovingWhenDone => "RemovingWhenDone",
            Self::LimitsNotEnforced => "LimitsNotEnforced",
            Self::LimitsEnforced => "LimitsEnforced",
            Self::SessionRefused => "SessionRefused",
            Self::GuardsUp => "GuardsUp",
            Self::GuardsMissing => "GuardsMissing",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
