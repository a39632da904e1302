//! The one thread that has the database: it gathers what waits, writes it as one transaction, and
//! answers after COMMIT.
//!
//! ```text
//!   commit ─┐                    BEGIN
//!   commit ─┼─ channel ─ gather ─ SAVEPOINT batch, RELEASE or ROLLBACK TO ─ … ─ COMMIT ─ answers
//!   events ─┘                    reads after that
//! ```
//!
//! One sync of the disk serves everybody who waits, which makes 200 concurrent creates five to ten
//! times faster than a transaction each. A batch that conflicts is rolled back alone.

use rusqlite::Connection;
use sandkeep_core::SandboxId;
use tokio::sync::{mpsc, oneshot};

use super::failure::from_sqlite;
use super::opening::Opened;
use super::room::written_back;
use super::{apply, read};
use crate::change::{Change, Contents, Event, Priority};
use crate::error::StoreError;

/// Batches in one transaction at most. It bounds what one transaction adds to the log, which must
/// stay within its allocated size.
const GROUP_MAX: usize = 256;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the thread is asked to do.
pub(super) enum Job {
    Commit(Batch),
    Load(Answer<Contents>),
    Events { sandbox: Option<SandboxId>, after: u64, limit: usize, answer: Answer<Vec<Event>> },
}

/// One caller's changes.
pub(super) struct Batch {
    pub(super) priority: Priority,
    pub(super) changes: Vec<Change>,
    pub(super) answer: Answer<()>,
}

/// What a committed group leaves to be counted.
#[derive(Default)]
struct Appended {
    events: Vec<Option<String>>,
    dropped_now: u64,
    dropped_told: bool,
}

pub(super) struct Writer {
    opened: Opened,
}

impl Writer {
    pub(super) const fn new(opened: Opened) -> Self {
        Self { opened }
    }

    /// Until every sender is gone.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.blocking_recv() {
            let mut batches = Vec::new();
            let mut reads = Vec::new();
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Commit(batch) => batches.push(batch),
                    read => reads.push(read),
                }
                next = if batches.len() < GROUP_MAX { jobs.try_recv().ok() } else { None };
            }
            if !batches.is_empty() {
                self.commit(batches);
            }
            for job in reads {
                self.read(job);
            }
        }
        self.close();
    }

    fn commit(&mut self, batches: Vec<Batch>) {
        let whole = match self.opened.room.make_whole(&self.opened.connection) {
            Ok(whole) => whole,
            Err(error) => {
                // Whatever it is, the write meets it too and says it better.
                tracing::warn!(%error, "the reserve cannot be looked at");
                true
            }
        };
        let outcomes = self.write_all(&batches, whole);
        for (batch, outcome) in batches.into_iter().zip(outcomes) {
            // A caller that went away does not undo its commit.
            let _gone = batch.answer.send(outcome);
        }
        if let Err(error) = self.opened.timeline.trim(&mut self.opened.connection) {
            tracing::warn!(%error, "old events could not be removed");
        }
    }

    /// Writes the group; if that fails as a whole, each batch alone, so that a batch fails only for
    /// reasons of its own.
    fn write_all(&mut self, batches: &[Batch], whole: bool) -> Vec<Result<(), StoreError>> {
        match self.write(batches, whole) {
            Ok(outcomes) => outcomes,
            Err(StoreError::DiskFull) if whole => self.write_all(batches, false),
            Err(error) if batches.len() == 1 => vec![Err(error)],
            Err(_) => batches
                .iter()
                .flat_map(|batch| self.write_all(std::slice::from_ref(batch), whole))
                .collect(),
        }
    }

    /// One transaction. `Err`: nothing of it was written.
    fn write(
        &mut self,
        batches: &[Batch],
        whole: bool,
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let connection = &self.opened.connection;
        let mut counted = Appended::default();
        // Nothing is open here unless an earlier rollback failed.
        roll_back(connection);
        connection.execute_batch("BEGIN IMMEDIATE").map_err(from_sqlite)?;
        let dropped = self.opened.timeline.dropped;
        let written = batches
            .iter()
            .map(|batch| write_batch(connection, batch, whole, dropped, &mut counted))
            .collect::<Result<Vec<_>, StoreError>>()
            .and_then(|outcomes| {
                connection.execute_batch("COMMIT").map_err(from_sqlite).map(|()| outcomes)
            });
        if written.is_err() {
            roll_back(connection);
            return written;
        }
        let timeline = &mut self.opened.timeline;
        timeline.note(&counted.events);
        if counted.dropped_told {
            timeline.dropped = 0;
        }
        timeline.dropped += counted.dropped_now;
        written
    }

    fn read(&self, job: Job) {
        let connection = &self.opened.connection;
        match job {
            Job::Load(answer) => {
                let _gone = answer.send(read::contents(connection));
            }
            Job::Events { sandbox, after, limit, answer } => {
                let _gone = answer.send(read::events(connection, sandbox.as_ref(), after, limit));
            }
            Job::Commit(_) => {}
        }
    }

    /// Writes the log back, so that the database file alone is a whole copy while nobody has it
    /// open. The lock is given up last.
    fn close(self) {
        let Opened { connection, timeline: _, room, lock } = self.opened;
        let whole = written_back(&connection).unwrap_or(false);
        match connection.close() {
            Ok(()) if whole => {
                if let Err(error) = room.void_log() {
                    tracing::warn!(%error, "the log of the store could not be voided");
                }
            }
            Ok(()) => {}
            Err((_, error)) => tracing::warn!(%error, "the store could not be closed"),
        }
        drop(room);
        drop(lock);
    }
}

/// One batch under a savepoint of its own. The outer error spoils the whole transaction, the inner
/// one this batch alone.
fn write_batch(
    connection: &Connection,
    batch: &Batch,
    whole: bool,
    dropped: u64,
    counted: &mut Appended,
) -> Result<Result<(), StoreError>, StoreError> {
    if !whole && batch.priority == Priority::Normal {
        return Ok(Err(StoreError::DiskFull));
    }
    let without_events;
    let (changes, dropped_now) = if whole {
        (batch.changes.as_slice(), 0)
    } else {
        without_events = drop_events(&batch.changes);
        (without_events.as_slice(), (batch.changes.len() - without_events.len()) as u64)
    };
    connection.execute_batch("SAVEPOINT batch").map_err(from_sqlite)?;
    let to_tell = if counted.dropped_told { 0 } else { dropped };
    match apply::batch(connection, changes, to_tell) {
        Ok(events) => {
            connection.execute_batch("RELEASE batch").map_err(from_sqlite)?;
            counted.dropped_told |= !events.is_empty();
            counted.dropped_now += dropped_now;
            counted.events.extend(events);
            Ok(Ok(()))
        }
        Err(conflict @ StoreError::Conflict { .. }) => {
            connection.execute_batch("ROLLBACK TO batch; RELEASE batch").map_err(from_sqlite)?;
            Ok(Err(conflict))
        }
        Err(other) => Err(other),
    }
}

fn drop_events(changes: &[Change]) -> Vec<Change> {
    changes.iter().filter(|change| !matches!(change, Change::AppendEvent(_))).cloned().collect()
}

/// SQLite may have rolled back by itself already (a full disk does that).
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "a failed transaction could not be rolled back");
    }
}
