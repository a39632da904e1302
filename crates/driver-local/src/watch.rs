//! Watching running sandboxes: the kernel tells when a process ends, whoever's child it is.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::stream::BoxStream;
use sandkeep_core::SandboxId;
use sandkeep_driver::WatchEvent;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use crate::process::{Birth, Process};
use crate::sys::readable;

/// Hints that may wait for a slow reader; more and it is told to look at everything.
const PENDING: usize = 1024;

/// Every running backing that was seen, each watched once.
#[derive(Debug)]
pub(crate) struct Watch {
    events: broadcast::Sender<WatchEvent>,
    watched: Arc<Mutex<HashMap<SandboxId, String>>>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { events: broadcast::channel(PENDING).0, watched: Arc::default() }
    }

    pub(crate) fn stream(&self) -> BoxStream<'static, WatchEvent> {
        let events = BroadcastStream::new(self.events.subscribe());
        let events = events.map(|event| match event {
            Ok(event) => event,
            Err(BroadcastStreamRecvError::Lagged(_)) => WatchEvent::Resync,
        });
        // A driver that is dropped sends nothing more; its stream does not end either.
        events.chain(futures::stream::pending()).boxed()
    }

    /// Tells when this helper, of a gateway that is gone, has come to its end: whatever it was making
    /// is there or is not then.
    pub(crate) fn add_helper(&self, id: &SandboxId, helper: Process) {
        self.tell_at_end(id, format!("helper {}", helper.pid), helper);
    }

    /// Tells when this run ends. Watching what is watched already costs nothing.
    pub(crate) fn add(&self, id: &SandboxId, birth: &Birth, process: Process) {
        self.tell_at_end(id, birth.name(), process);
    }

    fn tell_at_end(&self, id: &SandboxId, run: String, process: Process) {
        let known = {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.insert(id.clone(), run.clone()).is_some_and(|before| before == run)
        };
        if known {
            return;
        }
        let (id, events, watched) = (id.clone(), self.events.clone(), Arc::clone(&self.watched));
        tokio::spawn(async move {
            if let Err(error) = ended(process.pidfd).await {
                tracing::warn!(%id, %error, "its end cannot be watched");
            }
            {
                let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if watched.get(&id).is_some_and(|now| *now == run) {
                    watched.remove(&id);
                }
            }
            // Nobody may be listening.
            events.send(WatchEvent::Look(id)).ok();
        });
    }
}

/// Waits until the process behind `pidfd` has ended.
pub(crate) async fn ended(pidfd: OwnedFd) -> std::io::Result<()> {
    let pidfd = readable(pidfd)?;
    pidfd.readable().await?.retain_ready();
    Ok(())
}
