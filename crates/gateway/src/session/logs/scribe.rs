//! The thread that writes all logs: takes what sessions bring, writes it at once, makes it durable
//! in batches, and then acknowledges it.
//!
//! A session never waits for a disk: it puts into a bounded queue, and what has no room is dropped
//! (its place in the log is a gap). The thread sleeps while there is nothing to do.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use sandkeep_core::SandboxId;
use sandkeep_frames::message::{LogAck, LogData, LogOffer};
use tokio::sync::oneshot;

use super::news::News;
use super::shelf::{self, Shelf};
use crate::clock::Clock;
use crate::session::link::Link;
use crate::session::lock;

/// Bytes that may wait for one sandbox, or all: a supervisor has a window of each log under way, so
/// this much waits only behind a disk that stands still.
const SANDBOX_QUEUE_BYTES: usize = 16 * 1024 * 1024;
const QUEUE_BYTES: usize = 128 * 1024 * 1024;

/// What a queued job costs besides its bytes, so that empty ones are bounded too.
const JOB_BYTES: usize = 512;

/// Written bytes are made durable after this time …
const SYNC_AFTER: Duration = Duration::from_millis(100);

/// … or this much: half a window, so that a fast writer never waits for the time.
const SYNC_BYTES: u64 = sandkeep_frames::WINDOW_BYTES / 2;

/// Something for the thread to do.
pub(super) enum Job {
    /// A session begins.
    Offered {
        /// Whose.
        id: SandboxId,
        /// Of the supervisor.
        nonce: u64,
        /// Its offers.
        offers: Vec<LogOffer>,
        /// What is here already.
        have: oneshot::Sender<Vec<LogAck>>,
    },
    /// A stretch of a log.
    Append {
        /// Whose.
        id: SandboxId,
        /// The stretch.
        data: LogData,
        /// The session that is to hear that it is durable.
        link: Weak<Link>,
    },
    /// Everything of a sandbox goes.
    Forget {
        /// Whose.
        id: SandboxId,
        /// Told when it is gone.
        gone: oneshot::Sender<()>,
    },
}

/// The way to the thread.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    bytes: usize,
    of_sandbox: HashMap<SandboxId, usize>,
    closed: bool,
}

impl Queue {
    /// Puts a job. False: there is no room for its bytes, and it is dropped.
    pub(super) fn put(&self, job: Job) -> bool {
        let mut waiting = lock(&self.state);
        if let Job::Append { id, data, .. } = &job {
            let cost = data.entries.len() + JOB_BYTES;
            let of_sandbox = waiting.of_sandbox.get(id).copied().unwrap_or_default();
            if of_sandbox + cost > SANDBOX_QUEUE_BYTES || waiting.bytes + cost > QUEUE_BYTES {
                return false;
            }
            waiting.bytes += cost;
            waiting.of_sandbox.insert(id.clone(), of_sandbox + cost);
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// The thread ends once it has done what waits.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_one();
    }

    /// All jobs that wait; waits for one, at most `patience`. `None`: closed, and nothing waits.
    fn take(&self, patience: Option<Duration>) -> Option<VecDeque<Job>> {
        let mut waiting = lock(&self.state);
        while waiting.jobs.is_empty() && !waiting.closed {
            match patience {
                None => {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
                Some(patience) => {
                    let waited = self.changed.wait_timeout(waiting, patience);
                    waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
                    break;
                }
            }
        }
        if waiting.jobs.is_empty() && waiting.closed {
            return None;
        }
        waiting.bytes = 0;
        waiting.of_sandbox.clear();
        Some(std::mem::take(&mut waiting.jobs))
    }
}

/// What the thread works with.
pub(super) struct Scribe {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    queue: Arc<Queue>,
    news: Arc<News>,
    shelves: HashMap<SandboxId, Shelf>,
    dirty: BTreeMap<SandboxId, Dirty>,
    dirty_bytes: u64,
    /// By the monotonic clock; `None`: nothing is dirty.
    dirty_since: Option<Duration>,
}

/// What is written and not durable, of one sandbox.
struct Dirty {
    sources: BTreeSet<String>,
    link: Weak<Link>,
}

impl Scribe {
    /// Works on these logs until the queue is closed.
    pub(super) fn new(
        directory: PathBuf,
        clock: Arc<dyn Clock>,
        queue: Arc<Queue>,
        news: Arc<News>,
    ) -> Self {
        Self {
            directory,
            clock,
            queue,
            news,
            shelves: HashMap::new(),
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            dirty_since: None,
        }
    }

    /// The thread's whole life.
    pub(super) fn run(mut self) {
        while let Some(jobs) = self.queue.take(self.until_sync()) {
            let mut touched = BTreeSet::new();
            for job in jobs {
                touched.extend(self.carry_out(job));
                // A long queue is not to hold up the acknowledgement of its beginning.
                if self.dirty_bytes >= SYNC_BYTES {
                    self.sync();
                }
            }
            for id in &touched {
                self.news.tell(id);
            }
            if self.until_sync().is_some_and(|left| left.is_zero()) {
                self.sync();
            }
        }
        self.sync();
    }

    /// Time until what is dirty has to be durable; `None`: nothing is.
    fn until_sync(&self) -> Option<Duration> {
        let since = self.dirty_since?;
        Some((since + SYNC_AFTER).saturating_sub(self.clock.monotonic()))
    }

    /// Gives the sandbox whose followers have something to read.
    fn carry_out(&mut self, job: Job) -> Option<SandboxId> {
        match job {
            Job::Offered { id, nonce, offers, have } => {
                let shelf = self.shelf(&id)?;
                // A session that has gone meanwhile asks again.
                let _told = have.send(shelf.offered(nonce, &offers));
                let ended = shelf.unmarked();
                (!ended.is_empty()).then(|| self.soil(&id, ended, 0, Weak::new()))?;
                Some(id)
            }
            Job::Append { id, data, link } => {
                let appended = self.shelf(&id)?.append(&data);
                let bytes = match appended {
                    Ok(appended) => appended.bytes,
                    Err(error) => {
                        tracing::warn!(sandbox = %id, source = data.source, %error, "log dropped");
                        0
                    }
                };
                self.soil(&id, [data.source], bytes, link);
                Some(id)
            }
            Job::Forget { id, gone } => {
                self.shelves.remove(&id);
                self.dirty.remove(&id);
                if let Err(error) = shelf::discard(&self.directory.join(id.as_str())) {
                    tracing::warn!(sandbox = %id, %error, "logs cannot be removed");
                }
                // The caller may have given up waiting.
                let _told = gone.send(());
                None
            }
        }
    }

    fn soil(
        &mut self,
        id: &SandboxId,
        sources: impl IntoIterator<Item = String>,
        bytes: u64,
        link: Weak<Link>,
    ) {
        let dirty = self
            .dirty
            .entry(id.clone())
            .or_insert_with(|| Dirty { sources: BTreeSet::new(), link: Weak::new() });
        dirty.sources.extend(sources);
        if link.strong_count() > 0 {
            dirty.link = link;
        }
        self.dirty_bytes += bytes;
        self.dirty_since.get_or_insert_with(|| self.clock.monotonic());
    }

    fn sync(&mut self) {
        self.dirty_bytes = 0;
        self.dirty_since = None;
        for (id, dirty) in std::mem::take(&mut self.dirty) {
            let Some(shelf) = self.shelves.get_mut(&id) else { continue };
            let acks = shelf.sync(dirty.sources.iter());
            if let Some(link) = dirty.link.upgrade() {
                link.post(|outbox| {
                    acks.iter().for_each(|ack| outbox.log_ack(&ack.source, ack.offset));
                });
            }
            self.news.tell(&id);
        }
    }

    fn shelf(&mut self, id: &SandboxId) -> Option<&mut Shelf> {
        if !self.shelves.contains_key(id) {
            match Shelf::load(self.directory.join(id.as_str())) {
                Ok(shelf) => drop(self.shelves.insert(id.clone(), shelf)),
                Err(error) => {
                    tracing::warn!(sandbox = %id, %error, "logs cannot be read");
                    return None;
                }
            }
        }
        self.shelves.get_mut(id)
    }
}
