//! The record of one sandbox: the four facts side by side, and who it is.

use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::attempt::Attempt;
use crate::id::{Name, SandboxId};
use crate::intent::Intent;
use crate::observation::{BackingReport, Observation, RunResult};
use crate::time::Timestamp;

/// What makes a sandbox the same one for life; made once, never again by a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Host name inside.
    pub hostname: String,
    /// 32 random bytes in hexadecimal, for sessions over transports that do not prove the peer.
    pub session_key: String,
}

/// Everything that is durable about one sandbox. Facts of sessions and probes are in
/// [`crate::Live`] and in memory only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// For life.
    pub id: SandboxId,
    /// What the user calls it. Free again at the moment of `delete`.
    pub name: Name,
    /// The driver that backs it.
    pub driver: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Made once.
    pub identity: Identity,
    /// Written by verbs.
    pub intent: Intent,
    /// Written by the reconciler from what was seen.
    pub observed: Observation,
    /// Written by the reconciler before it acts.
    pub attempt: Attempt,
    /// Written by the activity tracker.
    #[serde(default)]
    pub activity: Activity,
    /// Store revision, for compare-and-set.
    #[serde(default)]
    pub revision: u64,
}

impl Record {
    /// The observation after a driver's answer: [`Observation::merge`], and one more healed loss
    /// when a backing came up that no verb asked for.
    #[must_use]
    pub fn observe(&self, report: &BackingReport, now: Timestamp) -> Observation {
        let mut next = self.observed.merge(report, now);
        let came_up = next.incarnation > self.observed.incarnation;
        let of_this_try = self.attempt.from_incarnation == self.observed.incarnation;
        if came_up && of_this_try && self.attempt.heals_loss {
            next.restarts = self.observed.restarts.saturating_add(1);
        }
        next
    }

    /// The observation after a supervisor's word that a run ended. A word on an execution that
    /// was never ordered changes nothing: a supervisor is not trusted to count.
    #[must_use]
    pub fn hear(&self, result: RunResult, now: Timestamp) -> Observation {
        let ordered = self.attempt.go.map(|go| (go.run, go.restart));
        if Some((result.run, result.restart)) > ordered {
            return self.observed.clone();
        }
        self.observed.with_result(result, now)
    }

    /// Put to sleep, and not asked for since: every verb that changes the intent wakes it.
    pub fn asleep(&self) -> bool {
        self.activity.asleep_since.is_some_and(|since| since > self.intent.at)
    }
}
