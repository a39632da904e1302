//! The gateway's own copy of what commands wrote: bounded, durable before it is acknowledged, and
//! readable in every phase of a sandbox.

use std::path::PathBuf;
use std::sync::Arc;

use futures::stream::BoxStream;
use sandkeep_core::{SandboxId, Timestamp};
use sandkeep_frames::log_entry::LogEntry;
use sandkeep_frames::message::{LogAck, LogData, LogOffer};

use crate::clock::Clock;
use crate::session::link::Link;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No such source; the name as asked.
    #[error("there is no log of \"{0}\"")]
    NotFound(String),
    /// The disk.
    #[error("the log cannot be read")]
    Io(#[from] std::io::Error),
}

/// Which part of which log.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// `main-RUN` or an exec id; `None`: the main command's newest run.
    pub source: Option<String>,
    /// Only the last so many lines.
    pub tail_lines: Option<u64>,
    /// Only what was written at this time or later (by the supervisor's clock).
    pub since: Option<Timestamp>,
    /// Go on as new entries come, until the log is complete.
    pub follow: bool,
}

/// Entries, oldest first. A place where output was dropped is an entry with `FD_GAP`.
pub type LogStream = BoxStream<'static, Result<LogEntry, LogError>>;

/// All logs of a gateway's home.
#[derive(Debug)]
pub struct LogStore {}

impl LogStore {
    /// Logs below this directory, which need not exist yet.
    pub fn new(directory: PathBuf, clock: Arc<dyn Clock>) -> Arc<Self> {
        let _unused = (directory, clock);
        Arc::new(Self {})
    }

    /// What the supervisor of a new session has to offer; gives what is durable here already.
    pub(crate) async fn offered(
        &self,
        id: &SandboxId,
        boot_nonce: u64,
        offers: &[LogOffer],
    ) -> Vec<LogAck> {
        let _unused = (id, boot_nonce, offers);
        Vec::new()
    }

    /// Takes a stretch of a log; acknowledged through `link` once durable. Never waits.
    pub(crate) fn append(&self, id: &SandboxId, data: LogData, link: &Arc<Link>) {
        let _unused = (id, data, link);
    }

    /// Reads a log. No main command yet: an empty stream, or with `follow` one that waits.
    pub async fn read(&self, id: &SandboxId, query: LogQuery) -> Result<LogStream, LogError> {
        let _unused = (id, query);
        Ok(Box::pin(futures::stream::empty()))
    }

    /// Names of the sources there are, oldest first.
    pub async fn sources(&self, id: &SandboxId) -> Result<Vec<String>, LogError> {
        let _unused = id;
        Ok(Vec::new())
    }

    /// Removes everything kept for this sandbox.
    pub async fn forget(&self, id: &SandboxId) {
        let _unused = id;
    }
}
