//! The thread that writes all logs: takes what sessions bring, writes it at once, makes it durable
//! in batches, and then acknowledges it.
//!
//! A session never waits for a disk: what has no room in the queue is dropped, and its place in the
//! log is a gap. The thread sleeps while there is nothing to do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sandkeep_core::SandboxId;

use super::news::News;
use super::queue::{Job, Queue, Turn};
use super::shelf::{self, Shelf};
use crate::clock::Clock;
use crate::session::link::Link;

/// Written bytes are made durable after this time …
const SYNC_AFTER: Duration = Duration::from_millis(100);

/// … or this much: half a window, so that a fast writer never waits for the time.
const SYNC_BYTES: u64 = sandkeep_frames::WINDOW_BYTES / 2;

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
    /// Whose logs are dropped now.
    troubled: BTreeSet<SandboxId>,
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
            troubled: BTreeSet::new(),
        }
    }

    /// The thread's whole life.
    pub(super) fn run(mut self) {
        loop {
            match self.queue.take(self.until_sync()) {
                Turn::Jobs(id, jobs) => {
                    for job in jobs {
                        self.carry_out(&id, job);
                    }
                    self.news.tell(&id);
                }
                Turn::Nothing => {}
                Turn::Closed => break,
            }
            let due = self.until_sync().is_some_and(|left| left.is_zero());
            if due || self.dirty_bytes >= SYNC_BYTES {
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

    fn carry_out(&mut self, id: &SandboxId, job: Job) {
        match job {
            Job::Offered { nonce, offers, have } => {
                let Some(shelf) = self.shelf(id) else { return };
                // A session that has gone meanwhile asks again.
                let _told = have.send(shelf.offered(nonce, &offers));
                let ended = shelf.unmarked();
                if !ended.is_empty() {
                    self.soil(id, ended, 0, Weak::new());
                }
            }
            Job::Append { data, link } => {
                let Some(shelf) = self.shelf(id) else { return };
                let appended = shelf.append(&data);
                let bytes = appended.as_ref().map_or(0, |appended| appended.bytes);
                self.tell_trouble(id, appended.err());
                self.soil(id, [data.source], bytes, link);
            }
            Job::Written { done } => {
                // A follower that has gone meanwhile does not care.
                let _told = done.send(());
            }
            Job::Forget { gone } => {
                self.shelves.remove(id);
                self.dirty.remove(id);
                self.troubled.remove(id);
                if let Err(error) = shelf::discard(&self.directory.join(id.as_str())) {
                    tracing::warn!(sandbox = %id, %error, "logs cannot be removed");
                }
                // The caller may have given up waiting.
                let _told = gone.send(());
            }
        }
    }

    /// A full disk is told once, and once that it is over: not for each stretch.
    fn tell_trouble(&mut self, id: &SandboxId, error: Option<std::io::Error>) {
        match error {
            Some(error) if self.troubled.insert(id.clone()) => {
                tracing::warn!(sandbox = %id, %error, "logs are dropped");
            }
            None if self.troubled.remove(id) => {
                tracing::info!(sandbox = %id, "logs are kept again");
            }
            _ => {}
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
