//! How often the discard of each workspace was tried in vain: waits grow as all others do.
//!
//! Kept in memory: a gateway that starts anew tries once at once, which nobody minds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandkeep_core::{WorkspaceId, backoff};

/// Counts of tries.
#[derive(Debug, Default)]
pub(crate) struct DiscardTries {
    tries: Mutex<HashMap<WorkspaceId, u32>>,
}

impl DiscardTries {
    /// One more was in vain: how long to wait before the next.
    pub(crate) fn in_vain(&self, id: &WorkspaceId) -> Duration {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let number = tries.entry(id.clone()).or_default();
        *number = number.saturating_add(1);
        backoff::wait_of(id.as_str(), *number)
    }

    /// It is not to be tried again.
    pub(crate) fn over(&self, id: &WorkspaceId) {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew_after_the_end() {
        let (tries, id) = (DiscardTries::default(), WorkspaceId::from_random([3; 8]));
        let waits: Vec<_> = (0..10).map(|_| tries.in_vain(&id)).collect();
        assert!(waits[0] <= Duration::from_millis(1200), "{waits:?}");
        assert!(waits.windows(2).take(5).all(|two| two[1] > two[0]), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= backoff::LONGEST), "{waits:?}");
        assert!(waits[9] >= backoff::LONGEST * 4 / 5, "{waits:?}");
        tries.over(&id);
        assert_eq!(tries.in_vain(&id), waits[0]);
    }
}
