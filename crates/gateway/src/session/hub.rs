//! The hub: all sessions of a gateway, as the reconciler and the API see them.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sandkeep_core::{RunResult, SandboxId, Session, SessionNotes, Spec};
use sandkeep_frames::message::{ExecAttach, ExecOpen, Go};
use sandkeep_frames::{Encoded, Kind};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock::Clock;
use crate::session::dispatch::tell_stored;
use crate::session::exec::{ExecRequest, ExecStream};
use crate::session::facts::Facts;
use crate::session::inbox::Inbox;
use crate::session::keeper::Keeper;
use crate::session::link::{Link, invalid};
use crate::session::lock;
use crate::session::logs::LogStore;
use crate::session::process::{exec_process, is_exec_id, main_process};
use crate::sessions::{GoOrder, SessionError, SessionTarget, Sessions};

/// Called with a sandbox whose session facts changed. Must not block.
pub type Wake = Arc<dyn Fn(&SandboxId) + Send + Sync>;

/// All sessions of a gateway. Dropping it ends them; supervisors and their work go on.
pub struct SessionHub {
    logs: Arc<LogStore>,
    clock: Arc<dyn Clock>,
    wake: Wake,
    sandboxes: Mutex<HashMap<SandboxId, Kept>>,
}

/// One sandbox: what is known, and the task that keeps its session, if one is wanted.
struct Kept {
    facts: Arc<Facts>,
    wanted: Option<Wanted>,
    /// The newest task, running or ending; it waits for the one before.
    task: Option<JoinHandle<()>>,
}

struct Wanted {
    backing_run: String,
    incarnation: u64,
    /// Dropped: the task ends.
    _until: DropGuard,
}

impl fmt::Debug for SessionHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sandboxes = lock(&self.sandboxes).len();
        f.debug_struct("SessionHub").field("sandboxes", &sandboxes).finish_non_exhaustive()
    }
}

impl SessionHub {
    /// No sessions yet. `logs` is the directory of the home that keeps logs. Must be used inside a
    /// tokio runtime.
    pub fn new(logs: PathBuf, clock: Arc<dyn Clock>, wake: Wake) -> Arc<Self> {
        let logs = LogStore::new(logs, Arc::clone(&clock));
        Arc::new(Self { logs, clock, wake, sandboxes: Mutex::default() })
    }

    /// The logs.
    pub fn logs(&self) -> &Arc<LogStore> {
        &self.logs
    }

    /// Starts a process inside and attaches to it. `spec` is the sandbox's: env, user and workdir
    /// are its unless the request says otherwise. Whether the supervisor could do it comes from
    /// [`ExecStream::next`].
    pub fn exec_open(
        &self,
        id: &SandboxId,
        spec: &Spec,
        request: ExecRequest,
    ) -> Result<ExecStream, SessionError> {
        check_exec_id(&request.exec_id)?;
        let process = exec_process(spec, &request).map_err(|why| invalid(&why))?;
        let detached = request.detached;
        let exec_id = request.exec_id;
        let opening = ExecOpen { exec_id: exec_id.clone(), process: Some(process), detached };
        let inbox = Inbox::new(detached, 0, 0);
        self.connected(id)?.open(Kind::ExecOpen, &opening, &exec_id, inbox)
    }

    /// Attaches to a known exec, or to `main-RUN`. The client has stdout and stderr up to these
    /// offsets.
    pub fn exec_attach(
        &self,
        id: &SandboxId,
        exec_id: &str,
        stdout_offset: u64,
        stderr_offset: u64,
    ) -> Result<ExecStream, SessionError> {
        check_exec_id(exec_id)?;
        let opening = ExecAttach { exec_id: exec_id.to_owned(), stdout_offset, stderr_offset };
        let inbox = Inbox::new(false, stdout_offset, stderr_offset);
        self.connected(id)?.open(Kind::ExecAttach, &opening, exec_id, inbox)
    }

    fn connected(&self, id: &SandboxId) -> Result<Arc<Link>, SessionError> {
        self.facts(id).and_then(|facts| facts.link()).ok_or(SessionError::NotConnected)
    }

    fn facts(&self, id: &SandboxId) -> Option<Arc<Facts>> {
        lock(&self.sandboxes).get(id).map(|kept| Arc::clone(&kept.facts))
    }

    fn new_facts(&self, id: &SandboxId) -> Arc<Facts> {
        Arc::new(Facts::new(id.clone(), Arc::clone(&self.clock), Arc::clone(&self.wake)))
    }
}

#[async_trait]
impl Sessions for SessionHub {
    fn want(&self, target: SessionTarget) {
        let mut sandboxes = lock(&self.sandboxes);
        let kept = sandboxes.entry(target.id.clone()).or_insert_with(|| Kept {
            facts: self.new_facts(&target.id),
            wanted: None,
            task: None,
        });
        if kept.wanted.as_ref().is_some_and(|wanted| wanted.is(&target)) {
            return;
        }
        let cancel = CancellationToken::new();
        kept.wanted = Some(Wanted {
            backing_run: target.backing_run.clone(),
            incarnation: target.incarnation,
            _until: cancel.clone().drop_guard(),
        });
        let keeper = Keeper {
            epoch: kept.facts.new_epoch(),
            facts: Arc::clone(&kept.facts),
            logs: Arc::clone(&self.logs),
            clock: Arc::clone(&self.clock),
            target,
        };
        kept.task = Some(tokio::spawn(keeper.run(cancel, kept.task.take())));
    }

    fn release(&self, id: &SandboxId) {
        if let Some(kept) = lock(&self.sandboxes).get_mut(id) {
            kept.wanted = None;
            kept.facts.new_epoch();
        }
    }

    fn session(&self, id: &SandboxId) -> Session {
        self.facts(id).map(|facts| facts.session()).unwrap_or_default()
    }

    fn notes(&self, id: &SandboxId) -> SessionNotes {
        self.facts(id).map(|facts| facts.notes()).unwrap_or_default()
    }

    fn result(&self, id: &SandboxId) -> Option<RunResult> {
        self.facts(id)?.result()
    }

    fn result_stored(&self, id: &SandboxId, run: u64, restart: u32) {
        let link = self.facts(id).and_then(|facts| facts.result_stored(run, restart));
        if let Some(link) = link {
            tell_stored(&link, run, restart);
        }
    }

    async fn go(&self, id: &SandboxId, order: GoOrder) -> Result<(), SessionError> {
        let link = self.connected(id)?;
        if link.incarnation != order.go.incarnation {
            return Err(SessionError::NotConnected);
        }
        let go = Go {
            run: order.go.run,
            incarnation: order.go.incarnation,
            process: Some(main_process(&order.spec)),
            restart: order.go.restart,
        };
        let frame = Encoded::message(Kind::Go, 0, &go).map_err(|error| invalid(&error))?;
        link.write(frame).await
    }

    async fn forget(&self, id: &SandboxId) {
        let gone = lock(&self.sandboxes).remove(id);
        if let Some(kept) = gone {
            kept.facts.new_epoch();
            drop(kept.wanted);
            if let Some(task) = kept.task {
                // Only then is nothing more written for it. A task that panicked writes no more.
                let _ended = task.await;
            }
        }
        self.logs.forget(id).await;
    }
}

impl Wanted {
    fn is(&self, target: &SessionTarget) -> bool {
        self.incarnation == target.incarnation && self.backing_run == target.backing_run
    }
}

fn check_exec_id(id: &str) -> Result<(), SessionError> {
    if is_exec_id(id) {
        return Ok(());
    }
    Err(invalid(&"an exec id is 1 to 63 characters of a-z, 0-9 and -"))
}
