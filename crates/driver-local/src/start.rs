//! Starting: never two PID 1 for one sandbox, however many gateways crash on the way.
//!
//! One helper at a time holds the sandbox's lock, and looks itself before it makes anything; so a
//! helper of a gateway that is gone and one of the next may meet, and one of them finds the other.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::sync::Arc;

use sandkeep_core::{BackingReport, SandboxId};
use sandkeep_driver::{DriverError, ErrorKind};

use crate::check::enforced;
use crate::config::{Guard, UID_COUNT};
use crate::failure::{conflict, invalid, io_failure, not_found};
use crate::helper::{Answer, Launch};
use crate::home::absent_is_done;
use crate::local::Local;
use crate::look::Life;
use crate::make::make_dirs;
use crate::process::Process;
use crate::record::Label;
use crate::template;
use crate::watch::ended;

const STAGE: &str = "start";

/// How often a start looks again after it met another helper.
const TRIES: u32 = 5;

/// Two of one id would share a control group, and whoever ended one would end both.
fn elsewhere(id: &SandboxId, pid: i32) -> DriverError {
    let message = format!(
        "{id} runs in another home, of which this one is a copy (process {pid}); it starts here as \
         soon as it is stopped there"
    );
    DriverError::new(ErrorKind::Conflict, STAGE, "RunsInAnotherHome", message)
}

impl Local {
    pub(crate) async fn start(
        self: &Arc<Self>,
        id: &SandboxId,
    ) -> Result<BackingReport, DriverError> {
        self.needs_root(STAGE)?;
        self.check_place(STAGE)?;
        let label =
            self.label(id)?.ok_or_else(|| not_found(STAGE, format!("{id} is not there")))?;
        let turn = self.house.turn(id);
        let _turn = turn.lock().await;
        // What a start relies on stays until it is done.
        let _starting = self.house.starts.read().await;
        let mut met = format!("what is left of an earlier start of {id} does not go");
        for _ in 0..TRIES {
            self.wait_for_helper(id).await?;
            match self.life(id)? {
                Life::Alive(..) => return self.report(id, &label),
                Life::Unborn => {
                    self.sweep_in_turn(id).await?;
                    continue;
                }
                Life::Elsewhere(pid) => return Err(elsewhere(id, pid)),
                Life::Never | Life::Ended(_) => {}
            }
            self.check_mark(&label)?;
            self.clear(id, false).await?;
            self.prepare(id)?;
            let launch = self.launch(id, &label)?;
            match self.ask_launch(id, launch).await? {
                Answer::Launched { .. } => {
                    self.empty_trash_aside(id);
                    return self.report(id, &label);
                }
                Answer::Busy { message } => met = message,
                Answer::Failed(failure) => {
                    self.clear(id, false).await?;
                    return Err(failure.into_error(STAGE));
                }
                Answer::Remounted | Answer::Cleared(_) => {
                    return Err(conflict(STAGE, "an answer to something else"));
                }
            }
        }
        Err(conflict(STAGE, met))
    }

    fn check_mark(&self, label: &Label) -> Result<(), DriverError> {
        self.check_workspace(&label.made_from.spec.workspace).map_err(|error| match error.kind {
            ErrorKind::NotFound => invalid("workspace", "WorkspaceMissing", error.message),
            _ => error,
        })
    }

    /// Rebuilds what a start expects: a new session directory with its socket listening.
    fn prepare(&self, id: &SandboxId) -> Result<(), DriverError> {
        let dir = self.home.sandbox(id);
        let failed = |error| io_failure(STAGE, format!("the directories of {id}"), &error);
        make_dirs(&dir, self.uid_base).map_err(failed)?;
        absent_is_done(fs::remove_file(dir.boot_log())).map_err(failed)?;
        self.remake_session_dir(id).map_err(failed)?;
        self.doors.rebind(id, &dir.session()).map_err(failed)
    }

    /// A session directory of which nobody holds anything yet.
    pub(crate) fn remake_session_dir(&self, id: &SandboxId) -> std::io::Result<()> {
        let session = self.home.sandbox(id).session();
        absent_is_done(fs::remove_dir_all(&session))?;
        fs::DirBuilder::new().mode(0o755).create(&session)?;
        fs::set_permissions(&session, fs::Permissions::from_mode(0o755))
    }

    fn launch(&self, id: &SandboxId, label: &Label) -> Result<Launch, DriverError> {
        let made_from = &label.made_from;
        let without = &self.knobs.without_guards;
        let default_pids = !without.contains(&Guard::DefaultPids);
        let template = template::ensure(&self.home.templates(), self.uid_base)
            .map_err(|error| io_failure(STAGE, "the template of root file systems", &error))?;
        self.note_uses(id, &template)
            .map_err(|error| io_failure(STAGE, format!("uses.json of {id}"), &error))?;
        Ok(Launch {
            id: id.to_string(),
            hostname: made_from.identity.hostname.clone(),
            sandbox_dir: self.home.sandbox(id).path,
            runtime_dir: self.home.runtime(),
            template,
            workspace_files: self.workspace_files(&made_from.spec.workspace),
            supervisor: self.supervisor.clone(),
            init_args: self.init_args(),
            image: made_from.spec.image.clone(),
            mounts: made_from.spec.mounts.clone(),
            tools: made_from.spec.tools.clone(),
            uid_base: self.uid_base,
            uid_count: UID_COUNT,
            cgroup: self.group_path(id),
            limits: enforced(&made_from.spec.limits, &self.hierarchies, default_pids),
            generation: made_from.generation,
            boot_id: self.boot_id.clone(),
            without_guards: without.clone(),
            dies_at: self.knobs.helper_dies_at,
        })
    }

    fn init_args(&self) -> Vec<String> {
        if let Some(args) = &self.knobs.init_args {
            return args.clone();
        }
        let fixed =
            ["init", "--socket", "/run/sandkeep/session/s", "--state", "/run/sandkeep/state"];
        let mut args: Vec<String> = fixed.map(str::to_owned).to_vec();
        for guard in &self.knobs.without_supervisor_guards {
            args.extend(["--without-guard".to_owned(), guard.clone()]);
        }
        args
    }

    /// A helper that is at work gets to its end; then there is something to look at.
    async fn wait_for_helper(&self, id: &SandboxId) -> Result<(), DriverError> {
        let helper = self.helper_at_work(id);
        match helper.map_err(|error| io_failure(STAGE, "its lock", &error))? {
            None => Ok(()),
            Some(Process { pidfd, .. }) => {
                ended(pidfd).await.map_err(|error| io_failure(STAGE, "its helper", &error))
            }
        }
    }

    /// Removes what earlier starts put aside, while the sandbox runs already.
    fn empty_trash_aside(self: &Arc<Self>, id: &SandboxId) {
        let (local, id) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            if let Err(error) = local.empty_trash(&id).await {
                tracing::debug!(%id, %error, "what was put aside is left for the next start");
            }
        });
    }
}
