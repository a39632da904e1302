//! The store of a gateway on one machine: one SQLite file in WAL mode, synced at every commit.
//!
//! ```text
//!   store.db            the database             store.db.lock      the holder's pid, locked
//!   store.db-wal        its write-ahead log      store.db.opened    number of the last opening
//!   store.db.schema-1   copy before a migration
//! ```
//!
//! A file that cannot be opened (damaged, newer, locked, read-only, foreign) is refused with its
//! reason and left as it is.

mod apply;
mod failure;
mod header;
mod life;
mod lock;
mod opening;
mod read;
mod room;
mod schema;
mod timeline;
mod writer;

pub use room::Reserve;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use async_trait::async_trait;
use sandkeep_core::SandboxId;
use tokio::sync::{mpsc, oneshot};

use crate::Store;
use crate::bounds::EventBounds;
use crate::change::{Change, Contents, Event, Priority};
use crate::error::StoreError;
use writer::{Batch, Job, Writer};

/// Jobs that may wait for the writer; beyond, callers wait to hand theirs over.
const QUEUE: usize = 1_024;

/// What can be set, mostly for tests; the defaults are right for a gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How much of the timeline is kept.
    pub bounds: EventBounds,
    /// How much is held for a full disk.
    pub reserve: Reserve,
}

/// A store in one SQLite file. Dropping it writes everything back and gives up the lock before it
/// returns.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    /// `None` only while being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the store at `path`, or makes it when nothing is there; its directory must exist.
    ///
    /// Errors leave everything as it was: `Locked`, `Newer`, `Damaged`, `ReadOnly`, `DiskFull`
    /// (a new one cannot be made or an older one migrated), `Unavailable`.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// As [`Self::open`].
    pub async fn open_with(
        path: impl Into<PathBuf>,
        options: SqliteOptions,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (opened, open_outcome) = oneshot::channel();
        let database = path.clone();
        let run = move || match opening::open(&database, options) {
            Ok(parts) => {
                if opened.send(Ok(())).is_ok() {
                    Writer::new(parts).run(queue);
                }
            }
            Err(error) => {
                let _gone = opened.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(run)
            .map_err(|error| failure::from_io("start the store's thread", &error))?;
        open_outcome.await.unwrap_or_else(|_| Err(ended()))?;
        Ok(Self { path, jobs: Some(jobs), thread: Some(thread) })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn ask<T>(
        &self,
        job: Job,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Some(jobs) = &self.jobs else { return Err(ended()) };
        jobs.send(job).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The channel closes, the thread finishes what is queued and ends: milliseconds.
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's thread panicked");
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn load(&self) -> Result<Contents, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.ask(Job::Load(answer), outcome).await
    }

    async fn commit(&self, priority: Priority, changes: Vec<Change>) -> Result<(), StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.ask(Job::Commit(Batch { priority, changes, answer }), outcome).await
    }

    async fn events(
        &self,
        sandbox: Option<&SandboxId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let job = Job::Events { sandbox: sandbox.cloned(), after, limit, answer };
        self.ask(job, outcome).await
    }
}

fn ended() -> StoreError {
    StoreError::Unavailable { message: "its thread has ended".to_owned() }
}

/// The file named like the database with `suffix` after it.
fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(suffix);
    PathBuf::from(name)
}

/// The database's directory; `.` for a bare file name.
fn directory(database: &Path) -> &Path {
    match database.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
