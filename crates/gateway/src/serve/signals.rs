//! What the system tells a gateway, and what the gateway asks of it for its process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::refusal::{Refusal, RefusalKind};

/// The signals that stop a gateway.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they do not end the process by themselves.
    pub(super) fn install() -> Result<Self, Refusal> {
        let install = |kind| {
            signal(kind).map_err(|error| {
                Refusal::new(
                    RefusalKind::Failed,
                    "NotStarted",
                    "the gateway was not started",
                    format!("signals cannot be caught: {error}"),
                    "try again",
                )
            })
        };
        Ok(Self {
            terminate: install(SignalKind::terminate())?,
            interrupt: install(SignalKind::interrupt())?,
        })
    }

    /// The next one that comes, by name.
    pub(super) async fn first(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// As many open files as the system allows: a session, a client and a log are a file each, and
/// the usual soft limit of 1024 would end at a few hundred sandboxes.
pub(super) fn raise_file_limit() {
    let now = getrlimit(Resource::Nofile);
    if now.current == now.maximum {
        return;
    }
    let wanted = Rlimit { current: now.maximum, maximum: now.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, "the limit on open files stays as it is");
    }
}
