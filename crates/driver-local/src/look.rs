//! Looking at one sandbox: what its label says, and whether a PID 1 of it lives.
//!
//! ```text
//! label?  run on record?  that process alive?  something in its control group?
//!   no                                                       absent
//!   yes        no                                no          idle
//!   yes        yes               yes                         running (paused, when frozen)
//!   yes        any               no              PID 1       running: the record was lost
//!   yes        any               no              not let go  starting, or a crash's remains
//!   yes        yes               no              no          exited; another boot: lost
//!   yes        any               no              of another  idle or exited: see `tenant`
//!                                                home
//! ```

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use sandkeep_core::{Backing, BackingReport, SandboxId};
use sandkeep_driver::{DriverError, FoundBacking};

use crate::check::unenforced;
use crate::failure::io_failure;
use crate::home::{paths_in, read_json};
use crate::local::Local;
use crate::process::{Birth, Process, innermost_pid, is_unborn};
use crate::record::{Label, RunRecord};
use crate::sys;

/// What is alive of a sandbox.
#[derive(Debug)]
pub(crate) enum Life {
    /// Nothing, and no run is on record.
    Never,
    /// Something that was not let go yet.
    Unborn,
    /// Its PID 1.
    Alive(Birth, Process),
    /// Nothing; the newest run on record.
    Ended(RunRecord),
    /// Nothing of this home: this process, of another home, has its control group.
    Elsewhere(i32),
}

impl Local {
    /// Looks whether anything of it is alive.
    pub(crate) fn life(&self, id: &SandboxId) -> Result<Life, DriverError> {
        let failed = |what| move |error| io_failure("inspect", format!("{what} of {id}"), &error);
        let record = self.run_record(id);
        if let Some(record) = &record
            && let Some(process) = record.birth.find(&self.boot_id)
            && (record.sandbox_dir.is_some() || self.is_at_home(id, &process))
        {
            return Ok(self.named(record.birth.clone(), process));
        }
        let pids = self.group(id).pids().map_err(failed("the control group"))?;
        let held = pids.iter().filter(|pid| innermost_pid(**pid) == Some(1));
        for process in held.filter_map(|pid| Process::open(*pid)) {
            if is_unborn(process.pid) {
                continue;
            }
            if !self.is_at_home(id, &process) && process.is_alive() {
                return Ok(Life::Elsewhere(process.pid));
            }
            if let Some(birth) = process.birth(&self.boot_id) {
                return Ok(self.named(birth, process));
            }
        }
        let pids = self.group(id).pids().map_err(failed("the control group"))?;
        let helpers = self.helper_group(id).pids().map_err(failed("the control group"))?;
        if let Some(pid) = pids.iter().chain(&helpers).next()
            && !self.began_here(id)
        {
            return Ok(Life::Elsewhere(*pid));
        }
        if !pids.is_empty() {
            return Ok(Life::Unborn);
        }
        Ok(record.map_or(Life::Never, Life::Ended))
    }

    fn named(&self, birth: Birth, process: Process) -> Life {
        if is_unborn(process.pid) { Life::Unborn } else { Life::Alive(birth, process) }
    }

    /// The newest run on record. One that cannot be read is as good as none: the control group
    /// tells what is alive. One that was copied here along with its directory is none.
    pub(crate) fn run_record(&self, id: &SandboxId) -> Option<RunRecord> {
        let file = self.home.sandbox(id).runtime_file();
        match read_json::<RunRecord>(&file) {
            Ok(record) => record.filter(|record| self.was_written_here(id, record)),
            Err(error) => {
                tracing::warn!(%id, %error, "the record of its newest run cannot be read");
                None
            }
        }
    }

    /// After a reboot a device may have another number, the directory has the same.
    fn was_written_here(&self, id: &SandboxId, record: &RunRecord) -> bool {
        let Some(then) = record.sandbox_dir else { return true };
        let rebooted = record.birth.boot_id != self.boot_id;
        self.directory(id)
            .is_some_and(|now| now.inode == then.inode && (now.device == then.device || rebooted))
    }

    /// The helper that is at work for it, of this gateway or of one that is gone.
    pub(crate) fn helper_at_work(&self, id: &SandboxId) -> io::Result<Option<Process>> {
        let lock = match File::open(self.home.sandbox(id).lock()) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(pid) = sys::lock_holder(lock.as_fd())? else { return Ok(None) };
        Ok(Process::open(pid.as_raw_nonzero().get()))
    }

    /// What is alive of a sandbox whose label somebody removed; `None`: nothing.
    pub(crate) fn report_unlabelled(
        &self,
        id: &SandboxId,
    ) -> Result<Option<BackingReport>, DriverError> {
        if matches!(self.life(id)?, Life::Never | Life::Ended(_) | Life::Elsewhere(_)) {
            return Ok(None);
        }
        let (backing, backing_run) = self.backing(id)?;
        let generation = self.run_record(id).map(|record| record.generation);
        Ok(Some(BackingReport {
            backing,
            backing_run,
            generation,
            engine: Some(self.engine()?),
            unenforced_limits: Vec::new(),
            workspace_replaced: false,
        }))
    }

    pub(crate) fn report(
        &self,
        id: &SandboxId,
        label: &Label,
    ) -> Result<BackingReport, DriverError> {
        let (backing, backing_run) = self.backing(id)?;
        let birth = backing_run.as_deref().filter(|_| backing.is_live()).and_then(Birth::parse);
        let pid_1 = birth.and_then(|birth| birth.find(&self.boot_id));
        let workspace = &label.made_from.spec.workspace;
        Ok(BackingReport {
            workspace_replaced: pid_1.is_some_and(|it| self.has_other_workspace(workspace, &it)),
            backing,
            backing_run,
            generation: Some(label.made_from.generation),
            engine: Some(self.engine()?),
            unenforced_limits: unenforced(&label.made_from.spec.limits, &self.hierarchies),
        })
    }

    fn backing(&self, id: &SandboxId) -> Result<(Backing, Option<String>), DriverError> {
        Ok(match self.life(id)? {
            Life::Never => (Backing::Idle, None),
            Life::Unborn => {
                let helper = self.helper_at_work(id);
                let helper = helper.map_err(|error| io_failure("inspect", "its lock", &error))?;
                match (helper, self.run_record(id)) {
                    (Some(helper), _) => {
                        self.watch.add_helper(id, helper);
                        (Backing::Starting, None)
                    }
                    // The remains of a start that was cut off: it never ran. See `sweep`.
                    (None, None) => (Backing::Idle, None),
                    (None, Some(record)) => self.ended(id, &record),
                }
            }
            Life::Alive(birth, process) => {
                let run = birth.name();
                self.watch.add(id, &birth, process);
                let frozen = self.group(id).is_frozen();
                (if frozen { Backing::Paused } else { Backing::Running }, Some(run))
            }
            Life::Ended(record) => self.ended(id, &record),
            Life::Elsewhere(_) => match self.run_record(id) {
                // One that an older build wrote, and that was copied: its process is the other's.
                Some(record) if record.birth.find(&self.boot_id).is_none() => {
                    self.ended(id, &record)
                }
                _ => (Backing::Idle, None),
            },
        })
    }

    fn ended(&self, id: &SandboxId, record: &RunRecord) -> (Backing, Option<String>) {
        // After a reboot the group is gone with the machine it was on.
        let here = record.birth.boot_id == self.boot_id;
        let oom = record.oom || here && self.group(id).oom_kills().is_some_and(|kills| kills > 0);
        let backing = Backing::Exited { code: None, oom, finished_at: None };
        (backing, Some(record.birth.name()))
    }

    /// Every backing in the home that is this gateway's.
    pub(crate) fn list(&self) -> Result<Vec<FoundBacking>, DriverError> {
        let failed = |error| io_failure("list", "the sandboxes", &error);
        let mut found = Vec::new();
        let sandboxes = self.home.sandboxes();
        if !sandboxes.exists() {
            // Without its identity this is no home either: a disk that is not mounted, say.
            self.home.engine_file().symlink_metadata().map_err(failed)?;
        }
        for path in paths_in(&sandboxes).map_err(failed)? {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(id) = name.and_then(|name| name.parse().ok()) else { continue };
            found.extend(self.found(&id)?);
        }
        found.retain(|backing| backing.gateway == self.gateway);
        Ok(found)
    }

    /// What lies in the home under this id.
    fn found(&self, id: &SandboxId) -> Result<Option<FoundBacking>, DriverError> {
        match self.whole_label(id) {
            Ok(None) => Ok(None),
            Ok(Some(label)) => Ok(Some(FoundBacking {
                id: id.clone(),
                gateway: label.gateway,
                backing: self.backing(id)?.0,
                made_from: Some(label.made_from),
            })),
            // A label that cannot be read lies in our home and has our name on it.
            Err(error) => {
                tracing::warn!(%id, %error, "its label cannot be read");
                Ok(Some(FoundBacking {
                    id: id.clone(),
                    gateway: self.gateway.clone(),
                    backing: self.backing(id)?.0,
                    made_from: None,
                }))
            }
        }
    }
}
