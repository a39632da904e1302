//! What a verb does to the intent: pure, answered in every state, idempotent.

use crate::intent::{Intent, Want};
use crate::record::Record;
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
pub fn start(record: &Record, asked: &Asked) -> Result<Option<Intent>, VerbError> {
    let _unused = (record, asked, Want::Running);
    Ok(None)
}

/// The intent after `stop`; `Ok(None)`: it is asked for already.
pub fn stop(record: &Record, asked: &Asked) -> Result<Option<Intent>, VerbError> {
    let _unused = (record, asked);
    Ok(None)
}

/// The intent after `restart`: always a new one.
pub fn restart(record: &Record, asked: &Asked) -> Result<Intent, VerbError> {
    let _unused = asked;
    Ok(record.intent.clone())
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
    let _unused = (record, options, asked);
    None
}
