//! The arguments of `decide` side by side, and the few questions that every branch asks of them.

use std::time::Duration;

use super::{Action, Decision};
use crate::attempt::{Attempt, FailureKind, Operation};
use crate::backoff;
use crate::condition::Reason;
use crate::live::{Live, MainStatus, Session};
use crate::observation::{Backing, WorkspaceSeen};
use crate::project::WaitsFor;
use crate::record::Record;
use crate::time::Timestamp;

/// How much longer than its grace a stop may take before it is ended by force: the driver that was
/// to do so at the end of the grace is gone with its gateway then.
pub(super) const STOP_MARGIN: Duration = Duration::from_secs(5);

/// Everything that is known, for one decision.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub record: &'a Record,
    pub live: &'a Live,
    pub now: Timestamp,
}

/// The try in hand: the stored attempt when it is for this operation and generation, else a new
/// one that has not failed.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub operation: Operation,
    /// It is the stored one.
    pub stored: bool,
    pub number: u32,
    pub next_try_at: Option<Timestamp>,
    pub failure: Option<FailureKind>,
    pub from_incarnation: u64,
    pub removed: bool,
}

impl Progress {
    pub(super) fn read(attempt: &Attempt, operation: Operation) -> Self {
        Self {
            operation,
            stored: true,
            number: attempt.number,
            next_try_at: attempt.next_try_at,
            failure: attempt.failure,
            from_incarnation: attempt.from_incarnation,
            removed: attempt.removed,
        }
    }

    /// A milder way was tried and did not work. An engine that was away says nothing about that.
    pub(super) fn milder_way_failed(&self) -> bool {
        self.failure.is_some_and(|kind| kind != FailureKind::Outside)
    }
}

impl<'a> Facts<'a> {
    pub(super) fn progress(&self, operation: Operation) -> Progress {
        let attempt = &self.record.attempt;
        if attempt.operation == Some(operation)
            && attempt.generation == self.record.intent.generation
        {
            return Progress::read(attempt, operation);
        }
        Progress {
            operation,
            stored: false,
            number: 0,
            next_try_at: None,
            failure: None,
            from_incarnation: self.record.observed.incarnation,
            removed: false,
        }
    }

    /// The attempt of this progress, to be changed and stored: the stored one, or the first of a
    /// new operation, which keeps the errors (until Ready again), the order last given and what
    /// was reached.
    pub(super) fn attempt(&self, progress: Progress) -> Attempt {
        let stored = self.record.attempt.clone();
        if progress.stored {
            return stored;
        }
        Attempt {
            operation: Some(progress.operation),
            generation: self.record.intent.generation,
            number: 0,
            started_at: self.now,
            next_try_at: None,
            failure: None,
            from_incarnation: progress.from_incarnation,
            heals_loss: false,
            seeks_workspace: self.record.observed.workspace == WorkspaceSeen::Missing,
            removed: false,
            ..stored
        }
    }

    /// The action, unless the try in hand has to wait.
    pub(super) fn step(&self, progress: Progress, action: Action, reason: Reason) -> Decision {
        if let Some(wait) = self.wait_to_try(progress, reason) {
            return wait;
        }
        let attempt = (!progress.stored).then(|| self.attempt(progress));
        Decision::act(action, reason, attempt)
    }

    /// The decision to wait until the next try, if it is not due. `reason` is for a wait that no
    /// error caused.
    pub(super) fn wait_to_try(&self, progress: Progress, reason: Reason) -> Option<Decision> {
        // Only making and starting can be hopeless, and only while nothing is up after all: what
        // is there can always be stopped and removed, so that is tried for ever.
        let backing = &self.record.observed.backing;
        let hopeless = progress.operation == Operation::BringUp
            && progress.failure == Some(FailureKind::Invalid)
            && (backing.is_down() || *backing == Backing::Absent);
        if hopeless {
            return Some(Decision::wait(Reason::InvalidSpec, WaitsFor::User, None));
        }
        let at = progress.next_try_at?;
        if backoff::is_due(at, backoff::LONGEST, self.now) {
            return None;
        }
        Some(match progress.failure {
            None => Decision::wait(reason, WaitsFor::Time, Some(at)),
            Some(FailureKind::Outside) => {
                Decision::wait(Reason::BackingOff, WaitsFor::Outside, Some(at))
            }
            Some(_) => Decision::wait(Reason::BackingOff, WaitsFor::Time, Some(at)),
        })
    }

    /// Something outside is waited for, and looked at again now and then.
    pub(super) fn wait_outside(&self, reason: Reason) -> Decision {
        Decision::wait(reason, WaitsFor::Outside, Some(self.now + backoff::OUTSIDE_AGAIN))
    }

    /// A stop is under way: it is waited for until its deadline, then ended by force.
    pub(super) fn going_down(&self, operation: Operation, reason: Reason) -> Decision {
        let patience = self.record.intent.spec.stop_grace().saturating_add(STOP_MARGIN);
        let deadline = self.record.observed.since + patience;
        if !backoff::is_due(deadline, patience, self.now) {
            return Decision::wait(reason, WaitsFor::Time, Some(deadline));
        }
        self.step(self.progress(operation), Action::Kill, reason)
    }

    /// What the supervisor says of the main command over a proved and probed session with the
    /// current incarnation; `None`: there is no such session.
    pub(super) fn connected(&self) -> Option<MainStatus> {
        match self.live.session {
            Session::Connected { incarnation, probed_at: Some(_), main, .. }
                if incarnation == self.record.observed.incarnation =>
            {
                Some(main)
            }
            _ => None,
        }
    }

    /// The current incarnation had `go`, or was reached and needed none: it may have work in it.
    pub(super) fn may_have_work(&self) -> bool {
        let incarnation = self.record.observed.incarnation;
        let attempt = &self.record.attempt;
        attempt.go.is_some_and(|go| go.incarnation == incarnation) || attempt.reached == incarnation
    }
}
