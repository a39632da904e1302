//! The gateway's own copy of what commands wrote: bounded, durable before it is acknowledged, and
//! readable in every phase of a sandbox.
//!
//! ```text
//!  session --append--> queue --> one thread: write, sync, acknowledge --> files
//!  client  <--read---- files, woken by news
//! ```
//! Per source two segments of 8 MiB are kept, per sandbox 64 MiB; the oldest go first. All that has
//! to be known after a restart is in the names and lengths of the files.

mod follower;
mod name;
mod news;
mod prospects;
mod queue;
mod reading;
mod scribe;
mod select;
mod shelf;
mod source;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use sandkeep_core::{SandboxId, Timestamp};
use sandkeep_frames::log_entry::LogEntry;
use sandkeep_frames::message::{LogAck, LogData, LogOffer};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use self::follower::{Listening, Reading};
use self::news::News;
use self::prospects::Outlook;
pub use self::prospects::Prospects;
use self::queue::{Job, Queue};
use self::reading::{More, Reader};
use self::scribe::Scribe;
use self::select::{Lines, Selection};
use crate::clock::Clock;
use crate::session::link::Link;
use crate::session::lock;
use crate::session::process::is_exec_id;

/// Stretches below this are copied while they wait.
const SMALL_BYTES: usize = 32 * 1024;

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
}

/// Entries, oldest first. A place where output was dropped is an entry with `FD_GAP`.
pub type LogStream = BoxStream<'static, Result<LogEntry, LogError>>;

/// All logs of a gateway's home.
pub struct LogStore {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    queue: Arc<Queue>,
    news: Arc<News>,
    /// The thread is there. It is made for the first job, so a gateway without any has none.
    started: Mutex<bool>,
}

impl fmt::Debug for LogStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogStore").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl LogStore {
    /// Logs below this directory, which need not exist yet.
    pub fn new(directory: PathBuf, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            directory,
            clock,
            queue: Arc::default(),
            news: Arc::default(),
            started: Mutex::new(false),
        })
    }

    /// What the supervisor of a new session has to offer; gives what is durable here already.
    pub(crate) async fn offered(
        &self,
        id: &SandboxId,
        boot_nonce: u64,
        offers: &[LogOffer],
    ) -> Vec<LogAck> {
        let (have, answer) = oneshot::channel();
        let offers = offers.to_vec();
        let nothing_offered = offers.is_empty();
        self.put(id, Job::Offered { nonce: boot_nonce, offers, have });
        // A sandbox that has just come up does not wait for a disk.
        if nothing_offered { Vec::new() } else { answer.await.unwrap_or_default() }
    }

    /// Takes a stretch of a log; acknowledged through `link` once durable. Never waits: what has
    /// no room, because a disk stands still, becomes a gap.
    pub(crate) fn append(&self, id: &SandboxId, mut data: LogData, link: &Arc<Link>) {
        if !is_exec_id(&data.source) {
            return;
        }
        if data.entries.len() < SMALL_BYTES {
            // A small piece would keep a whole read buffer alive while it waits.
            data.entries = Bytes::copy_from_slice(&data.entries);
        }
        let gap = LogData {
            source: data.source.clone(),
            offset: data.offset.saturating_add(data.entries.len() as u64),
            entries: Bytes::new(),
            complete: data.complete,
        };
        let append = |data| Job::Append { data, link: Arc::downgrade(link) };
        if !self.put(id, append(data)) && !self.put(id, append(gap)) {
            tracing::warn!(sandbox = %id, "log dropped: the disk stands still");
        }
    }

    /// Reads what there is of a log. No main command yet: an empty stream.
    pub async fn read(&self, id: &SandboxId, query: LogQuery) -> Result<LogStream, LogError> {
        let directory = self.directory.join(id.as_str());
        match find_source(directory, query.source.clone()).await? {
            Some(source) => self.stream(id, source, &query, None).await,
            None => Ok(stream::empty().boxed()),
        }
    }

    /// Reads a log and goes on as it grows, until nothing can come any more. Where no source is
    /// named, the newest run's is waited for.
    ///
    /// `coming` begins with how the sandbox is now and has an item for each change; its end is the
    /// end of the sandbox.
    pub async fn follow(
        self: &Arc<Self>,
        id: &SandboxId,
        query: LogQuery,
        coming: BoxStream<'static, Prospects>,
    ) -> Result<LogStream, LogError> {
        // From before the first look, so that nothing is missed between.
        let news = self.news.follow(id);
        let (now, store) = (Prospects::default(), Arc::downgrade(self));
        let mut listening = Listening { id: id.clone(), news, coming, now, store };
        listening.begin().await;
        loop {
            let newest = listening.now.newest();
            let outlook = listening.outlook(query.source.as_deref().unwrap_or(&newest)).await;
            let directory = self.directory.join(id.as_str());
            let named = query.source.is_some();
            let found = find_source(directory, query.source.clone()).await?;
            let meant = |source: &String| named || listening.now.is_newest(source);
            if let Some(source) = found.filter(meant) {
                return self.stream(id, source, &query, Some(listening)).await;
            }
            if outlook == Outlook::Over || !listening.changed().await {
                return Ok(stream::empty().boxed());
            }
        }
    }

    async fn stream(
        &self,
        id: &SandboxId,
        source: String,
        query: &LogQuery,
        listening: Option<Listening>,
    ) -> Result<LogStream, LogError> {
        let directory = self.directory.join(id.as_str());
        let mut selection = Selection { since: query.since, skip_lines: 0 };
        if let Some(lines) = query.tail_lines {
            let counted = Reader::new(directory.clone(), source.clone());
            let total = blocking(move || count_lines(counted, selection)).await?;
            selection.skip_lines = total.saturating_sub(lines);
        }
        let reader = Reader::new(directory, source.clone());
        let reading = Reading::new(reader, &source, selection, listening);
        Ok(stream::unfold(reading, Reading::next).boxed())
    }

    /// Names of the sources there are, sorted.
    pub async fn sources(&self, id: &SandboxId) -> Result<Vec<String>, LogError> {
        let directory = self.directory.join(id.as_str());
        Ok(blocking(move || reading::sources(&directory)).await?)
    }

    /// Removes everything kept for this sandbox; who follows it comes to an end.
    pub async fn forget(&self, id: &SandboxId) {
        let (gone, is_gone) = oneshot::channel();
        self.put(id, Job::Forget { gone });
        // A thread that could not be made has written nothing either.
        let _told = is_gone.await;
        self.news.end(id);
    }

    /// Comes back once everything is written that was taken before.
    async fn written(&self, id: &SandboxId) {
        // A thread that was not needed yet has nothing to write.
        if *lock(&self.started) {
            let (done, is_done) = oneshot::channel();
            self.put(id, Job::Written { done });
            // One that has ended wrote everything first.
            let _told = is_done.await;
        }
    }

    fn put(&self, id: &SandboxId, job: Job) -> bool {
        let mut started = lock(&self.started);
        if !*started {
            let scribe = Scribe::new(
                self.directory.clone(),
                Arc::clone(&self.clock),
                Arc::clone(&self.queue),
                Arc::clone(&self.news),
            );
            let thread = std::thread::Builder::new().name("logs".to_owned());
            if let Err(error) = thread.spawn(move || scribe.run()) {
                tracing::warn!(%error, "logs cannot be written");
                return false;
            }
            *started = true;
        }
        drop(started);
        self.queue.put(id, job)
    }
}

/// The source to read; `None`: no main command has a log yet.
async fn find_source(
    directory: PathBuf,
    asked: Option<String>,
) -> Result<Option<String>, LogError> {
    let Some(name) = asked else {
        return Ok(blocking(move || reading::newest_main(&directory)).await?);
    };
    let known = blocking(move || reading::sources(&directory)).await?;
    if known.contains(&name) { Ok(Some(name)) } else { Err(LogError::NotFound(name)) }
}

fn count_lines(mut reader: Reader, selection: Selection) -> std::io::Result<u64> {
    let mut lines = Lines::default();
    let mut entries = VecDeque::new();
    while reader.read(&mut entries)? == More::Entries {
        entries.drain(..).for_each(|entry| lines.count(&selection, &entry));
    }
    Ok(lines.total())
}

/// Runs what waits for a disk where waiting holds up nobody.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<R> + Send + 'static,
) -> std::io::Result<R> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}
