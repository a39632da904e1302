//! Who follows a log learns here that there is more to read.

use std::collections::HashMap;
use std::sync::Mutex;

use sandkeep_core::SandboxId;
use tokio::sync::watch;

use crate::session::lock;

/// A counter for each sandbox whose logs somebody follows.
#[derive(Debug, Default)]
pub(super) struct News {
    followed: Mutex<HashMap<SandboxId, watch::Sender<u64>>>,
}

impl News {
    /// Changes at each write from now on; closed when the sandbox is forgotten.
    pub(super) fn follow(&self, id: &SandboxId) -> watch::Receiver<u64> {
        let mut followed = lock(&self.followed);
        // Those whom nobody follows any more go when somebody comes.
        followed.retain(|_, told| told.receiver_count() > 0);
        followed.entry(id.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// There is more to read.
    pub(super) fn tell(&self, id: &SandboxId) {
        if let Some(told) = lock(&self.followed).get(id) {
            told.send_modify(|count| *count += 1);
        }
    }

    /// There will never be more.
    pub(super) fn end(&self, id: &SandboxId) {
        lock(&self.followed).remove(id);
    }
}
