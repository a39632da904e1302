//! What a verb does to the intent: pure, answered in every state, idempotent.
//!
//! Every change raises the generation, which also ends the wait of a try that failed: a person who
//! mended the cause says `start` again and it is tried at once.

use crate::intent::{Intent, Want};
use crate::observation::{Backing, WorkspaceSeen};
use crate::record::Record;
use crate::run::RunState;
use crate::time::Timestamp;

/// Why a verb cannot change the intent. There is one reason only: deletion is final.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    /// It is being deleted.
    #[error("sandbox \"{name}\" is being deleted")]
    Deleting {
        /// Its name.
        name: String,
        /// The workspace that stays, by name; `None`: it goes too.
        kept_workspace: Option<String>,
    },
}

/// Who asks, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// As in [`Intent::by`].
    pub by: String,
    /// Now.
    pub at: Timestamp,
}

/// The intent after `start`; `Ok(None)`: it is asked for already.
///
/// After `stop` it asks for a new run (unless the old one never began), in a backing newer than
/// the one that was to be stopped: a stop that was overtaken half-way cannot take the new run
/// down. While Running is asked for already it asks for a new run only when the current one is
/// over.
pub fn start(record: &Record, asked: &Asked) -> Result<Option<Intent>, VerbError> {
    refuse_if_deleting(record)?;
    let run = RunState::of(record);
    if record.intent.want == Want::Stopped {
        let mut next = changed(record, Want::Running, asked);
        next.run = next.run.saturating_add(u64::from(run != RunState::NotGiven));
        next.fresh_after = record.observed.incarnation;
        return Ok(Some(next));
    }
    let over = matches!(run, RunState::Ended(_)) || run.is_over(&record.intent.spec);
    if over {
        let mut next = changed(record, Want::Running, asked);
        next.run = next.run.saturating_add(1);
        return Ok(Some(next));
    }
    let up = record.observed.backing == Backing::Running;
    let stuck = record.observed.workspace == WorkspaceSeen::Missing || waits_to_try_again(record);
    let again = record.asleep() || (!up && tried_for_this_intent(record) && stuck);
    Ok(again.then(|| changed(record, Want::Running, asked)))
}

/// The intent after `stop`; `Ok(None)`: it is asked for already.
pub fn stop(record: &Record, asked: &Asked) -> Result<Option<Intent>, VerbError> {
    refuse_if_deleting(record)?;
    let live = record.observed.backing.is_live();
    let stuck = live && tried_for_this_intent(record) && waits_to_try_again(record);
    let again = record.intent.want != Want::Stopped || stuck;
    Ok(again.then(|| changed(record, Want::Stopped, asked)))
}

/// The intent after `restart`: always a new run, in a backing newer than any seen so far.
pub fn restart(record: &Record, asked: &Asked) -> Result<Intent, VerbError> {
    refuse_if_deleting(record)?;
    let mut next = changed(record, Want::Running, asked);
    next.run = next.run.saturating_add(1);
    next.fresh_after = record.observed.incarnation;
    Ok(next)
}

/// How a deletion is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeleteOptions {
    /// The workspace goes too.
    pub discard_workspace: bool,
    /// The engine is gone: the record goes without its word.
    pub forget: bool,
}

/// The intent after `delete`; `None`: it is asked for already, with these options or more.
/// Accepted in every state; options are only ever added.
pub fn delete(record: &Record, options: DeleteOptions, asked: &Asked) -> Option<Intent> {
    let intent = &record.intent;
    let already = intent.want == Want::Deleted;
    // Before the first deletion the options mean nothing yet.
    let before = DeleteOptions {
        discard_workspace: already && intent.discard_workspace,
        forget: already && intent.forget,
    };
    let discard_workspace = before.discard_workspace || options.discard_workspace;
    let forget = before.forget || options.forget;
    let more = DeleteOptions { discard_workspace, forget } != before;
    let stuck = tried_for_this_intent(record) && waits_to_try_again(record);
    let again = !already || more || stuck;
    again.then(|| Intent { discard_workspace, forget, ..changed(record, Want::Deleted, asked) })
}

fn refuse_if_deleting(record: &Record) -> Result<(), VerbError> {
    let intent = &record.intent;
    if intent.want != Want::Deleted {
        return Ok(());
    }
    let name = intent.spec.workspace_name.to_string();
    Err(VerbError::Deleting {
        name: record.name.to_string(),
        kept_workspace: (!intent.discard_workspace).then_some(name),
    })
}

fn changed(record: &Record, want: Want, asked: &Asked) -> Intent {
    // Sleep is told by the times alone: a verb wakes also when the clock was turned back.
    let asleep_since = record.activity.asleep_since.unwrap_or(Timestamp::EPOCH);
    Intent {
        want,
        generation: record.intent.generation.saturating_add(1),
        by: asked.by.clone(),
        at: asked.at.max(asleep_since),
        ..record.intent.clone()
    }
}

fn tried_for_this_intent(record: &Record) -> bool {
    record.attempt.generation == record.intent.generation
}

const fn waits_to_try_again(record: &Record) -> bool {
    record.attempt.failure.is_some() || record.attempt.next_try_at.is_some()
}
