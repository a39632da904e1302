//! What people see: derived from the facts at the moment of looking, stored nowhere.

mod conditions;
mod phase;
mod since;
mod words;

use std::fmt;

pub(crate) use words::kind;

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::decide::decide;
use crate::live::Live;
use crate::record::Record;
use crate::time::Timestamp;

/// One word for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// On the way to its first Ready.
    Provisioning,
    /// On the way to Ready again.
    Starting,
    /// A command can be run now.
    Ready,
    /// Asleep; wakes when used.
    Sleeping,
    /// On the way down.
    Stopping,
    /// Down, as asked for.
    Stopped,
    /// The main command ended with 0 and is not to run again.
    Completed,
    /// Not as asked for, with the reason and what happens next.
    Error,
    /// On the way out.
    Deleting,
    /// It cannot be looked at; nothing is concluded from that.
    Unknown,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Who or what a sandbox waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// Something under way, or the next try.
    Time,
    /// Something outside Sandkeep (an engine, another holder), tried again by itself.
    Outside,
    /// Nothing is tried until the intent, the spec or the observed cause changes.
    User,
}

/// What people see of one sandbox at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// One word.
    pub phase: Phase,
    /// One CamelCase word: a [`Reason`] or a driver's own.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// `None` only when Ready.
    pub waits_for: Option<WaitsFor>,
    /// What happens next, as a sentence; empty when nothing does.
    pub next: String,
    /// When, if that is known.
    pub next_at: Option<Timestamp>,
    /// In a fixed order.
    pub conditions: Vec<Condition>,
}

/// Derives the view. Total and pure; what is waited for and what comes next are [`decide`]'s own
/// answer, so what is shown and what is done cannot differ.
pub fn project(record: &Record, live: &Live, now: Timestamp) -> View {
    let decision = decide(record, live, now);
    let phase = phase::of(record, &decision);
    let reason = words::reason(record, &decision);
    let since = since::of(record, live, decision.reason);
    View {
        phase,
        message: words::message(record, live, &decision),
        since,
        waits_for: decision.waits_for,
        next: words::next(record, live, &decision),
        next_at: decision.wake_at.filter(|_| decision.waits_for.is_some()),
        conditions: conditions::of(record, live, phase, reason, since),
        reason: reason.to_owned(),
    }
}
