//! Ending: politely, at once, and for good.
//!
//! A process is only ever signalled through a pidfd that was proved to be its own. libcontainer's
//! own kill and delete are not used: they trust bare pids, and give up on a control group that a
//! dying process still occupies.

use std::fs::{self, OpenOptions};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::Signal;
use sandkeep_core::SandboxId;
use sandkeep_driver::DriverError;

use crate::cgroup::Group;
use crate::failure::{internal, io_failure};
use crate::home::{Durable, absent_is_done, write_json};
use crate::local::Local;
use crate::look::Life;
use crate::process::Process;
use crate::sys;
use crate::watch::ended;

const STAGE: &str = "stop";

/// How long something that was sent SIGKILL may take to go; then the caller is told, and tries
/// again.
const DEATH: Duration = Duration::from_secs(10);

/// Between two looks at a control group that is emptying. The kernel has no event for it on
/// version 1.
const GROUP_LOOK: Duration = Duration::from_millis(1);

impl Local {
    /// Ends whatever of it is alive, after `grace` when there is one, and clears away what a run
    /// leaves. Nothing alive, or nothing there at all: done.
    pub(crate) async fn end(
        &self,
        id: &SandboxId,
        grace: Option<Duration>,
    ) -> Result<(), DriverError> {
        let turn = self.house.turn(id);
        let _turn = turn.lock().await;
        self.end_helper(id).await?;
        let was_alive = match self.life(id)? {
            Life::Alive(_, process) => {
                self.end_process(id, process, grace).await?;
                true
            }
            Life::Unborn => true,
            Life::Never | Life::Ended(_) | Life::Elsewhere(_) => false,
        };
        self.clear(id, was_alive).await?;
        self.remove_empty_groups(id);
        Ok(())
    }

    /// A start that is still under way is not to bring it up after the end.
    async fn end_helper(&self, id: &SandboxId) -> Result<(), DriverError> {
        let failed = |error| io_failure(STAGE, format!("the helper of {id}"), &error);
        if let Some(helper) = self.helper_at_work(id).map_err(failed)? {
            helper.signal(Signal::KILL).map_err(failed)?;
            ended(helper.pidfd).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn end_process(
        &self,
        id: &SandboxId,
        process: Process,
        grace: Option<Duration>,
    ) -> Result<(), DriverError> {
        let failed = |error| io_failure(STAGE, format!("PID 1 of {id}"), &error);
        let Process { pid, pidfd } = process;
        let again = pidfd.try_clone().map_err(failed)?;
        let process = Process { pid, pidfd };
        let end = ended(again);
        tokio::pin!(end);
        if let Some(grace) = grace {
            self.thaw_if_frozen(id);
            process.signal(Signal::TERM).map_err(failed)?;
            if let Ok(result) = tokio::time::timeout(grace, &mut end).await {
                return result.map_err(failed);
            }
        }
        process.signal(Signal::KILL).map_err(failed)?;
        // Version 1 keeps even a killed process frozen.
        self.thaw_if_frozen(id);
        match tokio::time::timeout(DEATH, &mut end).await {
            Ok(result) => result.map_err(failed),
            Err(_) => Err(internal(STAGE, format!("PID 1 of {id} does not die"))),
        }
    }

    fn thaw_if_frozen(&self, id: &SandboxId) {
        let group = self.group(id);
        if group.is_frozen()
            && let Err(error) = group.set_frozen(false)
        {
            tracing::warn!(%id, %error, "it could not be thawed to be ended");
        }
    }

    /// Clears away what nobody will use any more: the remains of a start that was cut off, the
    /// control groups of a run that has ended. Done when there is nothing to do, and when a start or
    /// an end is under way: that sees to it.
    pub(crate) async fn sweep(&self, id: &SandboxId) -> Result<(), DriverError> {
        let turn = self.house.turn(id);
        let Ok(_turn) = turn.try_lock() else { return Ok(()) };
        self.sweep_in_turn(id).await?;
        self.remove_empty_groups(id);
        Ok(())
    }

    /// The same for whoever has the turn. The lock is held meanwhile, so that a start of a gateway
    /// that is gone is not taken for the remains of one.
    pub(crate) async fn sweep_in_turn(&self, id: &SandboxId) -> Result<(), DriverError> {
        let failed = |error| io_failure(STAGE, format!("the lock of {id}"), &error);
        let lock = match OpenOptions::new().write(true).open(self.home.sandbox(id).lock()) {
            Ok(lock) => Some(lock),
            // Without one no helper is at work.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        if let Some(lock) = &lock
            && !sys::lock_while_open(lock.as_fd()).map_err(failed)?
        {
            return Ok(());
        }
        match self.life(id)? {
            Life::Unborn | Life::Never | Life::Ended(_) => self.clear(id, false).await,
            Life::Alive(..) | Life::Elsewhere(_) => Ok(()),
        }
    }

    /// Ends what is left in the control group, removes the group and libcontainer's state. `asked`:
    /// the run ended because we ended it, whatever happened in it before. What another home has in
    /// the group is left alone.
    pub(crate) async fn clear(&self, id: &SandboxId, asked: bool) -> Result<(), DriverError> {
        let failed = |what| move |error| io_failure(STAGE, format!("{what} of {id}"), &error);
        if let Life::Elsewhere(pid) = self.life(id)? {
            tracing::info!(%id, pid, "it runs in another home, and is left alone there");
            return Ok(());
        }
        // In this order: what a dead helper has forked moves from its group to the sandbox's.
        self.clear_group(id, &self.helper_group(id)).await?;
        let group = self.group(id);
        if group.exists() {
            // On a full disk it ends all the same.
            if let Err(error) = self.keep_oom(id, asked) {
                tracing::warn!(%id, %error, "that memory ran out is not kept");
            }
            self.clear_group(id, &group).await?;
        }
        match fs::remove_dir_all(self.home.runtime().join(id.as_str())) {
            // In a home that has become read-only it is over all the same; a start clears again.
            Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            result => absent_is_done(result).map_err(failed("the runtime state")),
        }
    }

    /// Kills what is in a group until it can be removed.
    async fn clear_group(&self, id: &SandboxId, group: &Group) -> Result<(), DriverError> {
        let failed = |error| io_failure(STAGE, format!("the control group of {id}"), &error);
        let limit = tokio::time::Instant::now() + DEATH;
        while group.exists() {
            group.kill_once().map_err(failed)?;
            if group.remove().map_err(failed)? {
                break;
            }
            if tokio::time::Instant::now() > limit {
                return Err(internal(STAGE, format!("something of {id} does not die")));
            }
            tokio::time::sleep(GROUP_LOOK).await;
        }
        Ok(())
    }

    /// The group knows whether memory ran out; it goes, so the record keeps it.
    fn keep_oom(&self, id: &SandboxId, asked: bool) -> std::io::Result<()> {
        let out_of_memory = !asked && self.group(id).oom_kills().is_some_and(|kills| kills > 0);
        match self.run_record(id) {
            Some(mut record) if out_of_memory && !record.oom => {
                record.oom = true;
                write_json(&self.home.sandbox(id).runtime_file(), &record, Durable::No)
            }
            _ => Ok(()),
        }
    }
}
