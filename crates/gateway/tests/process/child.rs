//! A gateway in a process of its own: this test program again, told to be one.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandkeep_driver::Driver;
use sandkeep_driver::simulated::{Pace, SimulatedDriver, World};
use sandkeep_gateway::{DriverPlace, GatewayOptions, serve};

const HOME: &str = "SANDKEEP_TEST_CHILD_HOME";

/// Longer than a start or a stop takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test of its own: what a child runs.
#[test]
fn the_child_runs_a_gateway() {
    let Some(home) = std::env::var_os(HOME) else { return };
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(serve(GatewayOptions {
        home: PathBuf::from(home),
        metrics_listen: None,
        version: "0.0.0-test".to_owned(),
        drivers: Box::new(|place: &DriverPlace| {
            let world = World::new(1, Pace::STEADY, false);
            world.add_driver("sim", "engine");
            let driver = SimulatedDriver::new("sim", world, place.gateway.clone());
            Ok(vec![Arc::new(driver) as Arc<dyn Driver>])
        }),
    }));
    drop(runtime);
    match ended {
        Ok(()) => std::process::exit(0),
        Err(refusal) => {
            eprintln!("{}: {} | {} | {}", refusal.reason, refusal.what, refusal.why, refusal.next);
            std::process::exit(refusal.kind.exit_code());
        }
    }
}

/// A gateway that was started.
pub(crate) struct Gateway {
    pub(crate) process: Child,
    notified: UnixDatagram,
    /// Holds its log: a file, for a pipe that nobody reads would hold the gateway up.
    scratch: tempfile::TempDir,
}

impl Gateway {
    /// Starts one and does not wait for anything.
    pub(crate) fn spawn(home: &Path) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join("notify");
        let notified = UnixDatagram::bind(&socket).unwrap();
        notified.set_read_timeout(Some(PATIENCE)).unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child::the_child_runs_a_gateway", "--nocapture"])
            .env(HOME, home)
            .env("NOTIFY_SOCKET", &socket)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(scratch.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Self { process, notified, scratch }
    }

    /// Starts one and waits until it says that it serves.
    pub(crate) fn serving(home: &Path) -> Self {
        let gateway = Self::spawn(home);
        assert!(gateway.told().starts_with("READY=1\n"));
        gateway
    }

    /// What it tells systemd next.
    pub(crate) fn told(&self) -> String {
        let mut bytes = [0; 256];
        let length = self.notified.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Its end, and what it wrote.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let ended = self.process.wait().unwrap();
        (ended, fs::read_to_string(self.scratch.path().join("stderr")).unwrap())
    }

    /// SIGTERM, and its end. It always comes soon and in order: nothing is waited for in vain.
    pub(crate) fn stop(self) -> (ExitStatus, String) {
        let asked = tokio::time::Instant::now();
        self.signal(Signal::TERM);
        let (ended, words) = self.ended();
        assert!(!words.contains("still in use"), "{words}");
        assert!(!words.contains("cut off"), "{words}");
        assert!(asked.elapsed() < Duration::from_secs(4), "after {:?}: {words}", asked.elapsed());
        (ended, words)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped_already = self.process.wait();
    }
}
