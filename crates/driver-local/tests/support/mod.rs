//! A local driver on a home of its own, and hands that reach in from outside.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its world fails")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod footprint;
pub(crate) mod inside;
pub(crate) mod probed;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandkeep_core::{GatewayId, SandboxId, WorkspaceId};
use sandkeep_driver::Driver;
use sandkeep_driver::conformance::{Fixture, Footprint, Skip};
use sandkeep_driver_local::{
    DEFAULT_UID_BASE, Guard, HELPER_ARG, HelperCommand, Knobs, LocalConfig, LocalDriver,
};

/// The file in the root file system that tests write.
const IN_ROOT: &str = "opt/written-by-the-test";

/// The file in a workspace that tests write.
const IN_WORKSPACE: &str = "written-by-the-test";

pub(crate) struct LocalFixture {
    dir: tempfile::TempDir,
    home: PathBuf,
    gateway: GatewayId,
    driver: Arc<LocalDriver>,
    knobs: Knobs,
    held: Mutex<Vec<UnixStream>>,
}

/// Whether the local driver can run here; says so when not. With `CI` set a skipped suite fails.
pub(crate) fn can_run() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    eprintln!("skipped: the local driver runs as root only");
    assert!(std::env::var_os("CI").is_none(), "a suite was skipped with CI set");
    false
}

impl LocalFixture {
    pub(crate) fn new() -> Self {
        Self::with(Knobs::default(), "")
    }

    /// With knobs turned, its home `deeper` in a directory of its own.
    pub(crate) fn with(knobs: Knobs, deeper: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join(deeper).join("local");
        Self::at(dir, home, knobs)
    }

    /// With its home somewhere else; `dir` lives as long as the fixture.
    pub(crate) fn at(dir: tempfile::TempDir, home: PathBuf, knobs: Knobs) -> Self {
        let random = fs::read("/proc/sys/kernel/random/uuid").unwrap();
        let gateway = GatewayId::from_random(random[..8].try_into().unwrap());
        let driver = Arc::new(open(&home, &gateway, &knobs));
        Self { dir, home, gateway, driver, knobs, held: Mutex::default() }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn gateway(&self) -> &GatewayId {
        &self.gateway
    }

    pub(crate) fn local(&self) -> Arc<LocalDriver> {
        self.driver.clone()
    }

    /// Another driver of the same home, with other knobs.
    pub(crate) fn reopened_with(&self, knobs: &Knobs) -> LocalDriver {
        open(&self.home, &self.gateway, knobs)
    }

    /// A driver of the same gateway on another home.
    pub(crate) fn opened_at(&self, home: &Path) -> LocalDriver {
        open(home, &self.gateway, &self.knobs)
    }

    pub(crate) fn sandbox_dir(&self, id: &SandboxId) -> PathBuf {
        self.home.join("sandboxes").join(id.as_str())
    }

    /// A file of the sandbox's control group; `None`: this machine has no such file.
    pub(crate) fn group_file(
        &self,
        id: &SandboxId,
        controller: &str,
        file: &str,
    ) -> Option<String> {
        let below = format!("sandkeep/{}/{id}/{file}", self.gateway);
        let one = Path::new("/sys/fs/cgroup").join(controller).join(&below);
        let two = Path::new("/sys/fs/cgroup").join(&below);
        fs::read_to_string(one).or_else(|_| fs::read_to_string(two)).ok()
    }

    /// Where the sandbox itself sees the file; it runs.
    async fn root_file(&self, id: &SandboxId) -> PathBuf {
        let run = self.driver.inspect(id).await.unwrap().backing_run.unwrap();
        Path::new("/proc").join(pid_of(&run).to_string()).join("root").join(IN_ROOT)
    }

    /// Every process in a control group of this gateway.
    pub(crate) fn processes(&self) -> Vec<i32> {
        footprint::processes(self.gateway.as_str())
    }
}

impl Drop for LocalFixture {
    /// A failed test leaves nothing running either.
    fn drop(&mut self) {
        for pid in self.processes() {
            signal_and_wait(pid, Some(Signal::KILL));
        }
        footprint::remove_groups(self.gateway.as_str());
    }
}

fn open(home: &Path, gateway: &GatewayId, knobs: &Knobs) -> LocalDriver {
    let config = LocalConfig {
        home: home.to_owned(),
        gateway: gateway.clone(),
        supervisor: supervisor(home),
        helper: HelperCommand {
            program: PathBuf::from(env!("CARGO_BIN_EXE_sandkeep-local-helper")),
            args: vec![HELPER_ARG.to_owned()],
        },
        uid_base: uid_base(knobs),
        knobs: knobs.clone(),
    };
    LocalDriver::new(config).unwrap()
}

/// Without user namespaces root inside is root.
fn uid_base(knobs: &Knobs) -> u32 {
    if knobs.without_guards.contains(&Guard::UserNamespace) { 0 } else { DEFAULT_UID_BASE }
}

/// The one of this build, or the one that `SANDKEEP_TEST_SUPERVISOR` names (an older one, say).
fn supervisor(home: &Path) -> PathBuf {
    if let Some(path) = std::env::var_os("SANDKEEP_TEST_SUPERVISOR") {
        return path.into();
    }
    sandkeep_supervisor_image::unpack(&home.with_file_name("supervisors")).unwrap()
}

/// The pid in the name of a run.
pub(crate) fn pid_of(run: &str) -> i32 {
    run.rsplit(':').nth(1).unwrap().parse().unwrap()
}

/// Sends a signal and, unless it is one that only suspends, waits for the end.
pub(crate) fn signal_and_wait(pid: i32, signal: Option<Signal>) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if let Some(signal) = signal {
        pidfd_send_signal(&pidfd, signal).ok();
    }
    if signal != Some(Signal::STOP) {
        poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None).unwrap();
    }
}

#[async_trait]
impl Fixture for LocalFixture {
    fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    fn reopened(&self) -> Arc<dyn Driver> {
        Arc::new(self.reopened_with(&self.knobs))
    }

    fn stranger(&self) -> Result<Arc<dyn Driver>, Skip> {
        Ok(Arc::new(open(&self.home, &GatewayId::from_random([9; 8]), &self.knobs)))
    }

    fn say(&self, line: &str) {
        eprintln!("{line}");
    }

    async fn kill_pid_1(&self, _: &SandboxId, run: &str) -> Result<(), Skip> {
        signal_and_wait(pid_of(run), Some(Signal::KILL));
        Ok(())
    }

    async fn end_pid_1(&self, _: &SandboxId, run: &str) -> Result<(), Skip> {
        signal_and_wait(pid_of(run), Some(Signal::TERM));
        Ok(())
    }

    async fn suspend_pid_1(&self, _: &SandboxId, run: &str) -> Result<(), Skip> {
        signal_and_wait(pid_of(run), Some(Signal::STOP));
        Ok(())
    }

    async fn reboot(&self) -> Result<Arc<dyn Driver>, Skip> {
        for pid in self.processes() {
            signal_and_wait(pid, Some(Signal::KILL));
        }
        footprint::remove_groups(self.gateway.as_str());
        let knobs = Knobs { boot_id: Some("the-next-boot".to_owned()), ..self.knobs.clone() };
        Ok(Arc::new(self.reopened_with(&knobs)))
    }

    async fn write_in_root(&self, id: &SandboxId, text: &str) -> Result<(), Skip> {
        fs::write(self.root_file(id).await, text).unwrap();
        Ok(())
    }

    async fn read_in_root(&self, id: &SandboxId) -> Result<Option<String>, Skip> {
        Ok(fs::read_to_string(self.root_file(id).await).ok())
    }

    async fn write_in_workspace(&self, handle: &str, text: &str) -> Result<(), Skip> {
        fs::write(Path::new(handle).join(IN_WORKSPACE), text).unwrap();
        Ok(())
    }

    async fn read_in_workspace(&self, handle: &str) -> Result<Option<String>, Skip> {
        Ok(fs::read_to_string(Path::new(handle).join(IN_WORKSPACE)).ok())
    }

    async fn lose_workspace(&self, id: &WorkspaceId, _: &str) -> Result<(), Skip> {
        fs::remove_dir_all(self.home.join("workspaces").join(id.as_str())).unwrap();
        Ok(())
    }

    async fn lose_mark(&self, id: &WorkspaceId, _: &str) -> Result<(), Skip> {
        let dir = self.home.join("workspaces").join(id.as_str());
        fs::remove_file(dir.join("mark.json")).unwrap();
        Ok(())
    }

    async fn connect_from_inside(&self, _: &SandboxId, run: &str) -> Result<(), Skip> {
        // Through the sandbox's own view of the directory; like any process inside, this one is
        // not PID 1.
        let root = format!("/proc/{}/root/run/sandkeep/session/s", pid_of(run));
        self.held.lock().unwrap().push(UnixStream::connect(root).unwrap());
        Ok(())
    }

    fn has_sessions(&self) -> Result<(), Skip> {
        Ok(())
    }

    async fn footprint(&self) -> Result<Footprint, Skip> {
        Ok(footprint::of(self.gateway.as_str(), &self.home))
    }
}
