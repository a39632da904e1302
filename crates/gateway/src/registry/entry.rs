//! One sandbox in memory: its record, what was staged, and the facts that live in memory only.

use std::sync::Arc;

use sandkeep_core::{Record, Timestamp};
use sandkeep_store::Event;
use tokio::sync::watch;

/// One sandbox.
#[derive(Debug)]
pub(crate) struct Entry {
    /// As everyone sees it: the stored facts with staged observations on top.
    pub(crate) record: Arc<Record>,
    /// Something staged is not durable yet.
    pub(crate) dirty: bool,
    /// The engine is among it: it has to be durable before anything is done on that engine.
    pub(crate) engine_staged: bool,
    /// The engine on record was presumed when the sandbox was asked for, and nothing has been done
    /// for the sandbox since: another one may still take its place.
    pub(crate) engine_presumed: bool,
    /// Events to be stored with the next durable change, or a moment later without one.
    pub(crate) pending_events: Vec<Event>,
    /// The generation at or after which this process has looked; 0: never.
    pub(crate) looked_generation: u64,
    /// Why the latest look failed.
    pub(crate) look_error: Option<String>,
    /// The incarnation whose session this process waits for or has; 0: none.
    pub(crate) listening_for: u64,
    /// Since when.
    pub(crate) listening_since: Timestamp,
    /// The backend call under way.
    pub(crate) acting: Option<&'static str>,
    /// The next Ready is news for the timeline (there was a `go`, or it was lost before).
    pub(crate) announce_ready: bool,
    /// How this sandbox fared since the gateway started.
    pub(crate) standing: Standing,
    /// Rises with every change; watchers look again.
    pub(crate) version: watch::Sender<u64>,
    /// One durable change at a time.
    pub(crate) writing: Arc<tokio::sync::Mutex<()>>,
}

/// How a sandbox fared since the gateway started, for the start-up line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Made after the start: does not count.
    New,
    /// Loaded, not settled yet.
    Loaded,
    /// Loaded, was not as intended, is on its way.
    Acting,
    /// Counted.
    Settled,
}

/// How the engine on a new record is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineIs {
    /// Not at all, or seen with what the record was rebuilt from.
    Seen,
    /// The one that this process has compared: another one may answer when it is looked at.
    Presumed,
}

impl Entry {
    /// An entry for a stored record.
    pub(crate) fn new(record: Arc<Record>, standing: Standing) -> Self {
        Self {
            record,
            dirty: false,
            engine_staged: false,
            engine_presumed: false,
            pending_events: Vec::new(),
            looked_generation: 0,
            look_error: None,
            listening_for: 0,
            listening_since: Timestamp::EPOCH,
            acting: None,
            announce_ready: false,
            standing,
            version: watch::Sender::new(0),
            writing: Arc::new(tokio::sync::Mutex::new(())),
        }
    }

    /// Something about this sandbox has changed.
    pub(crate) fn touch(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}
