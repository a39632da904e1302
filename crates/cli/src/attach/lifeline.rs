//! What becomes of the sandbox while its main command is attached: the record's word on the run,
//! for when the streams cannot tell any more.

use std::time::Duration;

use sandkeep_proto::v1::{Exit, Sandbox, SandboxRef, WatchEvent};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::autostart::Autostart;
use crate::client::Gateway;
use crate::error::{Failure, exit};
use crate::render::phrases;
use crate::wait::Subject;

/// Between two attempts to watch again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// What has become of the run, by the record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fate {
    /// Nothing final is known.
    Alive,
    /// The command has ended, with this result.
    Ended(Exit),
    /// It will never end by itself: there will be no result.
    Lost(Failure),
}

/// Watches one sandbox in the background, as long as this lives.
#[derive(Debug)]
pub(crate) struct Lifeline {
    seen: watch::Receiver<Seen>,
    run: u64,
    name: String,
    task: tokio::task::JoinHandle<()>,
}

/// The newest state.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// `None`: not seen yet.
    sandbox: Option<Box<Sandbox>>,
    gone: bool,
}

impl Lifeline {
    /// Begins to watch.
    pub(crate) fn start(gateway: &Gateway, subject: Subject, run: u64) -> Self {
        let (sender, seen) = watch::channel(Seen::default());
        let gateway = gateway.clone();
        let Subject { reference, name } = subject;
        let task = tokio::spawn(async move { keep_watching(gateway, reference, &sender).await });
        Self { seen, run, name, task }
    }

    /// Waits for a change, and gives the fate after it. Loses nothing when dropped half-way.
    pub(crate) async fn changed(&mut self) -> Fate {
        if self.seen.changed().await.is_err() {
            // The watcher has seen the record go; nothing will change any more.
            std::future::pending::<()>().await;
        }
        self.fate()
    }

    /// The fate as known now.
    pub(super) fn fate(&self) -> Fate {
        let seen = self.seen.borrow();
        let Some(sandbox) = seen.sandbox.as_deref() else {
            return if seen.gone {
                self.lost("it was deleted", "see: sandkeep list")
            } else {
                Fate::Alive
            };
        };
        if let Some(exit) = sandbox.exit.as_ref().filter(|exit| exit.run == self.run) {
            return Fate::Ended(exit.clone());
        }
        let name = &self.name;
        if seen.gone || sandbox.want == "Deleted" {
            return self.lost("it was deleted", "its files: sandkeep workspace list");
        }
        if sandbox.run > self.run {
            return self.lost(
                "it was restarted, and its command runs anew",
                &format!("to attach to it: sandkeep run --reuse --name {name}"),
            );
        }
        if sandbox.reason == "RunLost" {
            return self.lost(
                &phrases::why(sandbox),
                &format!("to run it again: sandkeep restart {name}"),
            );
        }
        if sandbox.want == "Stopped" {
            return self.lost("it was stopped", &format!("to run it again: sandkeep start {name}"));
        }
        if sandbox.waits_for == "user" {
            return self.lost(
                &phrases::why(sandbox),
                &format!("see what you can do: sandkeep explain {name}"),
            );
        }
        Fate::Alive
    }

    fn lost(&self, why: &str, next: &str) -> Fate {
        let what = format!("the command in sandbox \"{}\" has no result", self.name);
        Fate::Lost(Failure::new(exit::SANDKEEP, what, why, next))
    }

    /// Waits until the fate is final; `None`: it was not within `patience`.
    pub(super) async fn final_fate(&mut self, patience: Duration) -> Option<Fate> {
        let settle = async {
            loop {
                match self.fate() {
                    Fate::Alive => {
                        self.changed().await;
                    }
                    settled => return settled,
                }
            }
        };
        tokio::time::timeout(patience, settle).await.ok()
    }

    /// The sandbox's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A run that is lost is begun again, by the sandbox's policy.
    pub(super) fn is_revived(&self) -> bool {
        let seen = self.seen.borrow();
        let spec = seen.sandbox.as_ref().and_then(|sandbox| sandbox.spec.as_ref());
        spec.is_some_and(|spec| matches!(spec.restart.as_str(), "on-failure" | "always"))
    }

    /// The state in words, for progress; `None`: not seen yet.
    pub(super) fn words(&self) -> Option<String> {
        self.seen.borrow().sandbox.as_deref().map(phrases::state)
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches until the record is gone. Never starts a gateway: that is the attachment's decision.
async fn keep_watching(gateway: Gateway, reference: String, seen: &watch::Sender<Seen>) {
    let mut connector = gateway.connector().clone();
    connector.autostart = Autostart::Forbidden;
    let mut gateway = gateway;
    loop {
        let request = SandboxRef { name: reference.clone() };
        match gateway.client().watch(request).await {
            Ok(response) => {
                let mut stream = response.into_inner();
                while let Ok(Some(event)) = stream.message().await {
                    let gone = event.gone;
                    note(seen, event);
                    if gone {
                        return;
                    }
                }
            }
            Err(status) if status.code() == tonic::Code::NotFound => {
                seen.send_modify(|seen| seen.gone = true);
                return;
            }
            Err(_broken) => {}
        }
        sleep(RETRY_PAUSE).await;
        if let Ok(again) = connector.connect().await {
            gateway = again;
        }
    }
}

fn note(seen: &watch::Sender<Seen>, event: WatchEvent) {
    seen.send_modify(|seen| {
        seen.gone = event.gone;
        if let Some(sandbox) = event.sandbox {
            seen.sandbox = Some(Box::new(sandbox));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fate_of(sandbox: Option<Sandbox>, gone: bool) -> Fate {
        let seen = Seen { sandbox: sandbox.map(Box::new), gone };
        let (_sender, seen) = watch::channel(seen);
        let task = tokio::spawn(async {});
        Lifeline { seen, run: 1, name: "lab".into(), task }.fate()
    }

    fn running() -> Sandbox {
        Sandbox { run: 1, want: "Running".into(), phase: "Ready".into(), ..Sandbox::default() }
    }

    #[tokio::test]
    async fn a_run_is_lost_when_nothing_will_end_it_any_more() {
        let lost = [
            (Some(Sandbox { reason: "RunLost".into(), ..running() }), false),
            (Some(Sandbox { want: "Stopped".into(), ..running() }), false),
            (Some(Sandbox { want: "Deleted".into(), ..running() }), false),
            (Some(Sandbox { run: 2, ..running() }), false),
            (Some(Sandbox { waits_for: "user".into(), ..running() }), false),
            (Some(running()), true),
            (None, true),
        ];
        for (sandbox, gone) in lost {
            let fate = fate_of(sandbox.clone(), gone).await;
            assert!(matches!(fate, Fate::Lost(failure) if failure.exit == 125), "{sandbox:?}");
        }
        assert_eq!(fate_of(Some(running()), false).await, Fate::Alive);
        assert_eq!(fate_of(None, false).await, Fate::Alive);
    }

    #[tokio::test]
    async fn a_result_counts_even_when_the_sandbox_is_gone_already() {
        let exit = Exit { code: 7, run: 1, ..Exit::default() };
        let sandbox = Sandbox { exit: Some(exit.clone()), want: "Deleted".into(), ..running() };
        assert_eq!(fate_of(Some(sandbox), true).await, Fate::Ended(exit));
    }

    #[tokio::test]
    async fn the_result_of_another_run_is_none() {
        let exit = Exit { code: 7, run: 0, ..Exit::default() };
        let sandbox = Sandbox { exit: Some(exit), ..running() };
        assert_eq!(fate_of(Some(sandbox), false).await, Fate::Alive);
    }
}
