//! Logs of commands, kept in the state directory until the gateway has them durable. Bounded: per
//! log, in number and together; what is over the bound goes, oldest first, and the gateway sees
//! from the offsets that it is gone.
//!
//! Nothing here is synced: a log may lose its newest lines with the machine, never with PID 1.

mod log;
mod name;

use std::collections::BTreeMap;
use std::io;

use sandkeep_frames::message::{LogAck, LogData, LogOffer};

use crate::state_dir::StateDir;
use log::Log;

/// Bytes that all logs together may hold.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// Logs, each of at least one file.
const MOST_LOGS: usize = 600;

/// All logs.
#[derive(Debug, Default)]
pub struct Spool {
    logs: BTreeMap<String, Log>,
    /// There is a session.
    live: bool,
    /// The log that was shipped last; the next one begins.
    last_turn: String,
}

impl Spool {
    /// What an earlier PID 1 left: nobody writes it now. The main command's goes on when it is
    /// executed again.
    pub fn load(state: &StateDir) -> io::Result<Self> {
        let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for name in state.names()? {
            if let Some((source, start)) = name::read(&name) {
                found.entry(source.to_owned()).or_default().push(start);
            }
        }
        let mut spool = Self::default();
        for (source, mut starts) in found {
            starts.sort_unstable();
            let mut log = Log::load(state, &source, &starts);
            log.complete();
            spool.logs.insert(source, log);
        }
        Ok(spool)
    }

    /// Begins a log, or goes on with one of that name.
    pub fn open(&mut self, state: &StateDir, source: &str, now_ms: u64) {
        if let Some(log) = self.logs.get_mut(source) {
            return log.go_on(now_ms);
        }
        while self.logs.len() >= MOST_LOGS {
            let oldest = self
                .logs
                .iter()
                .find(|(_, log)| log.is_complete())
                .or_else(|| self.logs.first_key_value());
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                break;
            };
            self.remove(state, &name);
        }
        let mut log = Log::new(source);
        log.go_on(now_ms);
        self.logs.insert(source.to_owned(), log);
    }

    /// Output is about to be appended: the gateway's patience begins when there is news.
    pub fn news_at(&mut self, source: &str, now_ms: u64) {
        if let Some(log) = self.logs.get_mut(source) {
            log.news_at(now_ms);
        }
    }

    /// Appends output. What the disk does not take is counted, and marked as a gap.
    pub fn append(&mut self, state: &StateDir, source: &str, fd: u8, time_ms: u64, bytes: &[u8]) {
        if let Some(log) = self.logs.get_mut(source) {
            log.append(state, fd, time_ms, bytes);
            self.shed(state, source);
        }
    }

    /// Nothing more will be written to it.
    pub fn complete(&mut self, source: &str) {
        if let Some(log) = self.logs.get_mut(source) {
            log.complete();
        }
    }

    /// The main command of this run goes on; logs of other runs are complete.
    pub fn complete_other_runs(&mut self, source: &str) {
        let others = self.logs.iter_mut().filter(|(name, _)| is_main(name) && *name != source);
        others.for_each(|(_, log)| log.complete());
    }

    /// All main commands have ended for good.
    pub fn complete_all(&mut self) {
        self.logs.values_mut().for_each(Log::complete);
    }

    /// For `Hello`. Also a log without new bytes, so that the gateway goes on with it.
    pub fn offers(&self) -> Vec<LogOffer> {
        self.logs.iter().map(|(source, log)| log.offer(source)).collect()
    }

    /// A session begins: what was under way is sent again, except what the gateway has.
    pub fn begin_session(&mut self, state: &StateDir, have: &[LogAck], now_ms: u64) {
        self.live = true;
        self.logs.values_mut().for_each(|log| log.begin_session(now_ms));
        for ack in have {
            self.acknowledge(state, ack, now_ms);
        }
    }

    /// The session is lost: nobody is waited for.
    pub fn end_session(&mut self) {
        self.live = false;
    }

    /// The writer of this log should wait, so that nothing is lost that a gateway would take.
    pub fn holds_back(&self, source: &str, now_ms: u64) -> bool {
        let until = self.logs.get(source).and_then(Log::holds_back_until);
        self.live && until.is_some_and(|until| now_ms < until)
    }

    /// When a writer that waits need not wait any longer.
    pub fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        let until = self.logs.values().filter_map(Log::holds_back_until);
        until.filter(|until| self.live && *until > now_ms).min()
    }

    /// The gateway has this durable.
    pub fn acknowledge(&mut self, state: &StateDir, ack: &LogAck, now_ms: u64) {
        let Some(log) = self.logs.get_mut(&ack.source) else {
            return;
        };
        log.acknowledge(state, ack.offset, now_ms);
        if log.is_done() && !self.is_newest_main(&ack.source) {
            self.remove(state, &ack.source);
        }
    }

    /// The log of the newest run stays: its next execution goes on with it.
    fn is_newest_main(&self, source: &str) -> bool {
        let run = main_run(source);
        run.is_some() && self.logs.keys().all(|other| main_run(other) <= run)
    }

    /// The next stretch to ship, each log in its turn.
    pub fn next(&mut self, state: &StateDir) -> Option<LogData> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = (Excluded(self.last_turn.clone()), Unbounded);
        let later = self.logs.range::<String, _>(after).find(|(_, log)| log.has_news());
        let next = later.or_else(|| self.logs.iter().find(|(_, log)| log.has_news()))?;
        let source = next.0.clone();
        let data = self.logs.get_mut(&source)?.next(state);
        self.last_turn = source;
        Some(data)
    }

    /// Something could be shipped now.
    pub fn has_news(&self) -> bool {
        self.logs.values().any(Log::has_news)
    }

    /// The gateway has everything.
    pub fn is_shipped(&self) -> bool {
        self.logs.values().all(Log::is_shipped)
    }

    /// Gives up some of a log for what matters more. False: there is nothing to give up.
    pub fn make_room(&mut self, state: &StateDir) -> bool {
        let fullest = self.logs.values_mut().max_by_key(|log| log.bytes());
        let Some(log) = fullest.filter(|log| log.bytes() > 0) else {
            return false;
        };
        log.drop_oldest(state);
        true
    }

    /// Keeps the sum within its bound: the fullest log loses its oldest segment.
    fn shed(&mut self, state: &StateDir, current: &str) {
        while self.logs.values().map(Log::bytes).sum::<u64>() > MOST_BYTES {
            let fullest = self.logs.iter().max_by_key(|(_, log)| log.bytes());
            let Some(name) = fullest.map(|(name, _)| name.clone()) else {
                return;
            };
            let Some(log) = self.logs.get_mut(&name) else {
                return;
            };
            log.drop_oldest(state);
            if log.bytes() == 0 && log.is_complete() && name != current {
                self.remove(state, &name);
            }
        }
    }

    fn remove(&mut self, state: &StateDir, source: &str) {
        if let Some(mut log) = self.logs.remove(source) {
            log.remove_files(state);
        }
    }
}

fn is_main(source: &str) -> bool {
    source.starts_with("main-")
}

/// The run whose main command writes it; `None`: an exec's, or not a run of ours.
fn main_run(source: &str) -> Option<u64> {
    source.strip_prefix("main-")?.parse().ok()
}

#[cfg(test)]
mod tests;
