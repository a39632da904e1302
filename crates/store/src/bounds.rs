//! How much of the timeline is kept.

/// Bounds of the timeline. They are kept in batches: a store may hold up to a tenth more than a
/// bound before it drops the oldest events, so that not every insert pays for a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventBounds {
    /// Events kept of one sandbox (and, counted likewise, of the gateway itself).
    pub per_sandbox: usize,
    /// Events kept of all.
    pub total: usize,
}

impl EventBounds {
    /// The number of events above which a kind with bound `bound` is trimmed back to it.
    pub(crate) const fn trim_above(bound: usize) -> usize {
        bound + bound / 10
    }
}

impl Default for EventBounds {
    /// A sandbox that fails and retries for ever writes about one event a backoff step: a thousand
    /// cover weeks of it. At about 300 bytes each, all events stay near 30 MB.
    fn default() -> Self {
        Self { per_sandbox: 1_000, total: 100_000 }
    }
}
