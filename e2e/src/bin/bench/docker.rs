//! A Docker daemon of the benchmark's own, to compare with: installed by apt when it is missing,
//! stopped at the end.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::measure::run;

/// A running daemon with a small image.
#[derive(Debug)]
pub(crate) struct Docker {
    daemon: Child,
    dir: tempfile::TempDir,
}

/// The image's name.
pub(crate) const IMAGE: &str = "sandkeep-bench:1";

impl Docker {
    /// Starts one; an error says why there is none.
    pub(crate) fn start() -> anyhow::Result<Self> {
        install()?;
        let dir = tempfile::Builder::new().prefix("sandkeep-docker-").tempdir()?;
        let at = |name: &str| dir.path().join(name).display().to_string();
        let log = std::fs::File::create(dir.path().join("log"))?;
        let daemon = Command::new("dockerd")
            .args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")])
            .args(["-H", &format!("unix://{}", at("docker.sock"))])
            .args(["--bridge", "none", "--iptables=false"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("dockerd does not start")?;
        let docker = Self { daemon, dir };
        let answers = sandkeep_e2e::until(60, || {
            docker.command(&["version"]).output().is_ok_and(|output| output.status.success())
        });
        anyhow::ensure!(answers, "dockerd does not answer");
        docker.import()?;
        Ok(docker)
    }

    /// A docker command on this daemon.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        let socket: PathBuf = self.dir.path().join("docker.sock");
        command.arg("-H").arg(format!("unix://{}", socket.display())).args(args);
        command
    }

    fn import(&self) -> anyhow::Result<()> {
        let root = self.dir.path().join("root");
        std::fs::create_dir_all(root.join("bin"))?;
        std::fs::copy("/bin/busybox", root.join("bin/busybox"))?;
        for name in ["sh", "true", "cat", "dd", "sleep", "head"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(name))?;
        }
        let script = format!(
            "tar -C {} -c . | docker -H unix://{} import - {IMAGE}",
            root.display(),
            self.dir.path().join("docker.sock").display()
        );
        run(Command::new("sh").args(["-c", &script]))
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let pid = i32::try_from(self.daemon.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        self.daemon.wait().ok();
    }
}

fn install() -> anyhow::Result<()> {
    let there = |program: &str| {
        Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if there("dockerd") && there("busybox") {
        return Ok(());
    }
    run(Command::new("apt-get").args(["-q", "update"]))?;
    let packages = ["install", "-qy", "--no-install-recommends", "docker.io", "busybox-static"];
    run(Command::new("apt-get").args(packages).env("DEBIAN_FRONTEND", "noninteractive"))
}
