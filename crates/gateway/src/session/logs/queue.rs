//! What waits for the thread that writes logs: bounded, and fair between sandboxes.
//!
//! Each sandbox has its own queue, in order, and the sandboxes take turns: one that writes without
//! end, or makes a file of every byte, holds up its own logs and delays the others by one turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use sandkeep_core::SandboxId;
use sandkeep_frames::message::{LogAck, LogData, LogOffer};
use tokio::sync::oneshot;

use crate::session::link::Link;
use crate::session::lock;

/// Bytes that may wait for one sandbox: a supervisor has a window of each log under way, so this
/// much waits only behind a disk that stands still.
const SANDBOX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that may wait altogether.
const ALL_BYTES: usize = 128 * 1024 * 1024;

/// What a job costs besides its bytes, so that empty ones are bounded too.
const JOB_BYTES: usize = 512;

/// One turn ends after so many bytes …
const TURN_BYTES: usize = 1024 * 1024;

/// … or jobs, each of which may make a file.
const TURN_JOBS: usize = 64;

/// Something for the thread to do for one sandbox.
pub(super) enum Job {
    /// A session begins.
    Offered {
        /// Of the supervisor.
        nonce: u64,
        /// Its offers.
        offers: Vec<LogOffer>,
        /// What is here already.
        have: oneshot::Sender<Vec<LogAck>>,
    },
    /// A stretch of a log.
    Append {
        /// The stretch.
        data: LogData,
        /// The session that is to hear that it is durable.
        link: Weak<Link>,
    },
    /// Only to hear that everything before is written.
    Written {
        /// Told then.
        done: oneshot::Sender<()>,
    },
    /// Everything of the sandbox goes.
    Forget {
        /// Told when it is gone.
        gone: oneshot::Sender<()>,
    },
}

impl Job {
    /// `None`: it always has room; there is one for each session, follower or sandbox.
    fn cost(&self) -> Option<usize> {
        match self {
            Self::Append { data, .. } => Some(data.entries.len() + JOB_BYTES),
            Self::Offered { .. } | Self::Written { .. } | Self::Forget { .. } => None,
        }
    }
}

/// The way to the thread.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    sandboxes: HashMap<SandboxId, OfOne>,
    /// Exactly the keys of `sandboxes`.
    turns: VecDeque<SandboxId>,
    bytes: usize,
    closed: bool,
}

#[derive(Default)]
struct OfOne {
    jobs: VecDeque<Job>,
    bytes: usize,
}

/// What there is to do.
pub(super) enum Turn {
    /// These jobs of this sandbox, in order.
    Jobs(SandboxId, Vec<Job>),
    /// Nothing came in time.
    Nothing,
    /// Nothing more will ever come.
    Closed,
}

impl Queue {
    /// Puts a job. False: there is no room for its bytes, and it is dropped.
    pub(super) fn put(&self, id: &SandboxId, job: Job) -> bool {
        let mut waiting = lock(&self.state);
        let cost = job.cost();
        let of_one = waiting.sandboxes.get(id).map_or(0, |of_one| of_one.bytes);
        let fits = |cost| of_one + cost <= SANDBOX_BYTES && waiting.bytes + cost <= ALL_BYTES;
        if !cost.is_none_or(fits) {
            return false;
        }
        waiting.bytes += cost.unwrap_or(0);
        if !waiting.sandboxes.contains_key(id) {
            waiting.turns.push_back(id.clone());
        }
        let of_one = waiting.sandboxes.entry(id.clone()).or_default();
        of_one.bytes += cost.unwrap_or(0);
        of_one.jobs.push_back(job);
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// The thread ends once it has done what waits.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_one();
    }

    /// The next turn; waits for it at most `patience`, or for ever.
    pub(super) fn take(&self, patience: Option<Duration>) -> Turn {
        let mut waiting = lock(&self.state);
        while waiting.turns.is_empty() && !waiting.closed {
            let Some(patience) = patience else {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.changed.wait_timeout(waiting, patience);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            break;
        }
        match waiting.turn() {
            Some((id, jobs)) => Turn::Jobs(id, jobs),
            None if waiting.closed => Turn::Closed,
            None => Turn::Nothing,
        }
    }
}

impl Waiting {
    fn turn(&mut self) -> Option<(SandboxId, Vec<Job>)> {
        let id = self.turns.pop_front()?;
        let of_one = self.sandboxes.get_mut(&id)?;
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while bytes < TURN_BYTES
            && jobs.len() < TURN_JOBS
            && let Some(job) = of_one.jobs.pop_front()
        {
            bytes += job.cost().unwrap_or(0);
            jobs.push(job);
        }
        of_one.bytes -= bytes;
        self.bytes -= bytes;
        if of_one.jobs.is_empty() {
            self.sandboxes.remove(&id);
        } else {
            self.turns.push_back(id.clone());
        }
        Some((id, jobs))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn append(bytes: usize) -> Job {
        let entries = Bytes::from(vec![0; bytes]);
        let data = LogData { source: "e".to_owned(), entries, ..LogData::default() };
        Job::Append { data, link: Weak::new() }
    }

    fn taken(queue: &Queue) -> Option<(SandboxId, usize)> {
        match queue.take(Some(Duration::ZERO)) {
            Turn::Jobs(id, jobs) => Some((id, jobs.len())),
            Turn::Nothing | Turn::Closed => None,
        }
    }

    #[test]
    fn a_sandbox_that_floods_holds_up_its_own_logs_only() {
        let queue = Queue::default();
        let (loud, quiet) =
            (SandboxId::from_random(*b"loudloud"), SandboxId::from_random(*b"quietqui"));
        let mut put = 0;
        while queue.put(&loud, append(0)) {
            put += 1;
        }
        assert_eq!(put, SANDBOX_BYTES / JOB_BYTES);
        assert!(queue.put(&quiet, append(100)));
        assert_eq!(taken(&queue), Some((loud.clone(), TURN_JOBS)));
        assert_eq!(taken(&queue), Some((quiet, 1)));
        assert!(queue.put(&loud, append(0)), "there is room again");
        let mut left = put + 1 - TURN_JOBS;
        while let Some((id, jobs)) = taken(&queue) {
            assert_eq!(id, loud);
            left -= jobs;
        }
        let waiting = lock(&queue.state);
        assert_eq!((left, waiting.bytes, waiting.sandboxes.len()), (0, 0, 0));
    }

    #[test]
    fn all_together_are_bounded_and_a_close_lets_the_rest_be_done() {
        let queue = Queue::default();
        let id = |n: u8| SandboxId::from_random([n; 8]);
        let mut bytes = 0;
        for n in 0..20 {
            while queue.put(&id(n), append(4 * 1024 * 1024)) {
                bytes += 4 * 1024 * 1024;
            }
        }
        assert!(bytes <= ALL_BYTES && bytes > ALL_BYTES / 2, "{bytes}");
        queue.close();
        let mut done = 0;
        while let Turn::Jobs(_, jobs) = queue.take(None) {
            done += jobs.len();
        }
        assert_eq!(done * 4 * 1024 * 1024, bytes);
    }
}
