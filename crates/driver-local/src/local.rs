//! What the parts of the driver share.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::Stdio;

use sandkeep_core::{GatewayId, SandboxId};
use sandkeep_driver::DriverError;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::cgroup::{Group, Hierarchies};
use crate::config::{HelperCommand, Knobs, LocalConfig};
use crate::failure::{internal, io_failure};
use crate::helper::{Answer, Ask, Launch, helper_group};
use crate::home::{Durable, Home, make_private_dir, read_json, write_json};
use crate::house::House;
use crate::look::Life;
use crate::process::kernel_boot_id;
use crate::record::{Engine, Label};
use crate::session::Doors;
use crate::tenant::Directory;
use crate::watch::Watch;

/// The state of a driver: paths and settings, and what is only a memory of this process (open
/// session sockets, watched processes).
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) home: Home,
    /// The directory that `home` was when this process began.
    pub(crate) place: Directory,
    pub(crate) gateway: GatewayId,
    pub(crate) supervisor: PathBuf,
    pub(crate) helper: HelperCommand,
    pub(crate) uid_base: u32,
    pub(crate) knobs: Knobs,
    pub(crate) boot_id: String,
    pub(crate) hierarchies: Hierarchies,
    pub(crate) watch: Watch,
    pub(crate) doors: Doors,
    pub(crate) house: House,
}

impl Local {
    pub(crate) fn new(config: LocalConfig) -> Result<Self, DriverError> {
        let failed = |what: &'static str| move |error| io_failure("home", what, &error);
        let home = Home::new(config.home);
        for dir in [home.sandboxes(), home.workspaces(), home.runtime(), home.templates()] {
            make_private_dir(&dir).map_err(failed("the home could not be made"))?;
        }
        // Absolute, whatever the working directory becomes.
        let root = fs::canonicalize(home.root()).map_err(failed("the home is gone"))?;
        let place = Directory::at(&root).map_err(failed("the home is gone"))?;
        let boot_id = match &config.knobs.boot_id {
            Some(boot_id) => boot_id.clone(),
            None => kernel_boot_id().map_err(failed("the boot id"))?,
        };
        let hierarchies = Hierarchies::of_this_machine().map_err(failed("control groups"))?;
        Ok(Self {
            home: Home::new(root),
            place,
            gateway: config.gateway,
            supervisor: config.supervisor,
            helper: config.helper,
            uid_base: config.uid_base,
            knobs: config.knobs,
            boot_id,
            hierarchies,
            watch: Watch::new(),
            doors: Doors::default(),
            house: House::default(),
        })
    }

    /// Whoever makes sandboxes here is root, for now.
    pub(crate) fn needs_root(&self, stage: &'static str) -> Result<(), DriverError> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let message = "the local driver has to run as root; as an ordinary user it cannot make \
                       sandboxes yet";
        Err(DriverError::new(sandkeep_driver::ErrorKind::Invalid, stage, "NeedsRoot", message))
    }

    pub(crate) fn group(&self, id: &SandboxId) -> Group {
        self.hierarchies.group(self.group_path(id))
    }

    /// Where its helper is while it works, with whatever the helper forks until that joins the
    /// sandbox's own group.
    pub(crate) fn helper_group(&self, id: &SandboxId) -> Group {
        self.hierarchies.group(helper_group(&self.group_path(id)))
    }

    pub(crate) fn group_path(&self, id: &SandboxId) -> String {
        format!("sandkeep/{}/{id}", self.gateway)
    }

    /// The sandbox's label; `None`: there is no such backing. A new label is not flushed, so a crash
    /// of the machine may leave half of one: while nothing of the sandbox is alive, that is none.
    pub(crate) fn label(&self, id: &SandboxId) -> Result<Option<Label>, DriverError> {
        let error = match self.whole_label(id) {
            Ok(label) => return Ok(label),
            Err(error) => error,
        };
        let half = matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof);
        if half && matches!(self.life(id)?, Life::Never | Life::Ended(_) | Life::Elsewhere(_)) {
            tracing::warn!(%id, %error, "a label that cannot be read counts as none");
            return Ok(None);
        }
        Err(io_failure("inspect", format!("the label of {id}"), &error))
    }

    /// The label as it lies there.
    pub(crate) fn whole_label(&self, id: &SandboxId) -> io::Result<Option<Label>> {
        read_json(&self.home.sandbox(id).label())
    }

    /// This engine's own mark, made when missing.
    pub(crate) fn engine(&self) -> Result<String, DriverError> {
        let file = self.home.engine_file();
        let failed = |error| io_failure("identity", "engine.json", &error);
        if let Some(engine) = read_json::<Engine>(&file).map_err(failed)? {
            return Ok(engine.id);
        }
        self.check_place("identity")?;
        let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(failed)?;
        let engine = Engine { id: uuid.trim().to_owned() };
        write_json(&file, &engine, Durable::Yes).map_err(failed)?;
        Ok(engine.id)
    }

    /// Has a new helper launch PID 1. Dropping the future ends the helper; whatever it had made by
    /// then is found by looking.
    pub(crate) async fn ask_launch(
        &self,
        id: &SandboxId,
        launch: Launch,
    ) -> Result<Answer, DriverError> {
        let ask = Ask::Launch(Box::new(launch));
        let group = self.helper_group(id);
        group.make().map_err(|error| io_failure("start", "the helper's control group", &error))?;
        let answer = self.ask(&ask, "start", Some(group.clone())).await;
        // Empty by now, unless the helper was killed; then the next look finds it.
        if let Err(error) = group.remove() {
            tracing::debug!(%id, %error, "the helper's control group stays");
        }
        answer
    }

    /// Asks a new helper.
    pub(crate) async fn ask(
        &self,
        ask: &Ask,
        stage: &'static str,
        group: Option<Group>,
    ) -> Result<Answer, DriverError> {
        let failed = |what: &'static str| move |error| io_failure(stage, what, &error);
        let question =
            serde_json::to_vec(ask).map_err(|error| internal(stage, error.to_string()))?;
        let mut child = Command::new(&self.helper.program)
            .args(&self.helper.args)
            .current_dir("/")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed("the helper could not be started"))?;
        if let (Some(helper), Some(group)) = (child.id(), group) {
            join_early(helper, group);
        }
        let mut stdin = child.stdin.take();
        if let Some(stdin) = stdin.as_mut() {
            stdin.write_all(&question).await.map_err(failed("the helper does not listen"))?;
        }
        drop(stdin);
        let output = child.wait_with_output().await.map_err(failed("the helper was lost"))?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            internal(stage, format!("the helper ended without an answer ({})", output.status))
        })
    }
}

/// Joining a control group costs more than ten milliseconds, nearly all of it a wait in the kernel
/// that only the first of several joins in a row pays. Paid here for the helper, while it builds
/// the root file system, it is not paid by PID 1.
fn join_early(helper: u32, group: Group) {
    tokio::task::spawn_blocking(move || {
        // The helper joins by itself too, before it forks.
        if let Err(error) = group.enter(helper) {
            tracing::debug!(%error, "the helper was not helped into its group");
        }
    });
}
