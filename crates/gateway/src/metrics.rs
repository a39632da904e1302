//! What the gateway counts about itself: plain atomic numbers, incremented where things happen.
//!
//! Turned into Prometheus text by the HTTP side, which adds what can be read off the registry
//! (sandboxes by phase, drivers). Counting never blocks and never fails.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// It is this now.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// One more.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; never below zero.
    pub fn decrement(&self) {
        let less = |value: u64| Some(value.saturating_sub(1));
        let _before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters told apart by one word out of a small fixed set (never by a user's word: the number
/// of series must stay bounded).
#[derive(Debug, Default)]
pub struct Family(Mutex<BTreeMap<&'static str, u64>>);

impl Family {
    /// One more of this kind.
    pub fn increment(&self, kind: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    /// All kinds counted so far, by name.
    pub fn get(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Everything counted in one gateway process.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Passes of the reconciler over one sandbox: observe, decide, execute, report.
    pub reconcile_passes: Counter,
    /// Passes that ended in an error, by kind (`Unavailable`, `Invalid` …).
    pub reconcile_errors: Family,
    /// Actions carried out on backends, by kind (`create`, `start` …).
    pub actions: Family,
    /// Sandboxes that wait for a pass now.
    pub queue_depth: Gauge,
    /// Batches made durable.
    pub store_commits: Counter,
    /// Batches that the store refused, by kind (`DiskFull`, `Conflict` …).
    pub store_errors: Family,
    /// Lines of the timeline dropped because the disk was full.
    pub events_dropped: Counter,
    /// API calls, by method.
    pub api_calls: Family,
    /// API calls that were refused, by reason.
    pub api_refusals: Family,
    /// How the sandboxes were found when the gateway started.
    pub startup: Startup,
}

/// The summary of a gateway's start: set once every record was looked at.
#[derive(Debug, Default)]
pub struct Startup {
    /// As intended, nothing had to be done.
    pub resumed: Gauge,
    /// Not as intended, and mended.
    pub recovered: Gauge,
    /// Still waiting for time or for something outside.
    pub waiting: Gauge,
    /// Waiting for a user.
    pub failed: Gauge,
    /// Milliseconds from the start of the process until the API answered.
    pub serving_after_ms: Gauge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_never_falls_below_zero() {
        let gauge = Gauge::default();
        gauge.decrement();
        assert_eq!(gauge.get(), 0);
        gauge.increment();
        gauge.increment();
        gauge.decrement();
        assert_eq!(gauge.get(), 1);
    }

    #[test]
    fn a_family_counts_each_kind_by_itself() {
        let family = Family::default();
        family.increment("start");
        family.increment("stop");
        family.increment("start");
        assert_eq!(family.get(), BTreeMap::from([("start", 2), ("stop", 1)]));
    }
}
