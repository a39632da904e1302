//! What became of the run that the intent asks for, told from stored facts alone.

use crate::intent::Intent;
use crate::observation::{Backing, RunResult};
use crate::record::Record;
use crate::spec::{RestartPolicy, Spec};

/// The current run: the one that [`Intent::run`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState<'a> {
    /// It has had no `go`.
    NotGiven,
    /// It had `go` in the current incarnation, and nothing says that it ended.
    Alive,
    /// It had `go`, its incarnation is over, and no result tells how it ended.
    Lost,
    /// Its supervisor says that it ended.
    Ended(&'a RunResult),
}

impl<'a> RunState<'a> {
    /// Told from the record. Exit codes of backings play no part in it.
    pub fn of(record: &'a Record) -> Self {
        let Some(go) = record.attempt.go.filter(|go| go.run == record.intent.run) else {
            return Self::NotGiven;
        };
        let observed = &record.observed;
        let of_this = |result: &&RunResult| (result.run, result.restart) == (go.run, go.restart);
        if let Some(result) = observed.result.as_ref().filter(of_this) {
            return Self::Ended(result);
        }
        let over = observed.backing.is_down() || observed.backing == Backing::Absent;
        if over || go.incarnation != observed.incarnation { Self::Lost } else { Self::Alive }
    }

    /// Whether the run is over for good: it will not be run again by itself.
    pub fn is_over(&self, spec: &Spec) -> bool {
        match self {
            Self::NotGiven | Self::Alive => false,
            Self::Lost => !again_after_loss(spec),
            Self::Ended(result) => !again_after(spec, result),
        }
    }
}

/// Whether a lost run is run again. A sandbox without a command has nothing that could be run
/// twice, so it is simply up again under every policy.
pub fn again_after_loss(spec: &Spec) -> bool {
    spec.command.is_empty() || spec.restart != RestartPolicy::Never
}

/// Whether a run that ended so is run again.
pub fn again_after(spec: &Spec, result: &RunResult) -> bool {
    match spec.restart {
        RestartPolicy::Never => false,
        RestartPolicy::OnFailure => result.code != 0,
        RestartPolicy::Always => true,
    }
}

/// Whether the current run asks for a backing newer than the one seen.
pub const fn needs_fresh_backing(intent: &Intent, incarnation: u64) -> bool {
    intent.fresh_after > 0 && incarnation <= intent.fresh_after
}
