//! The Debian 12 machine that `cargo xtask guest boot` has brought up, driven from outside: commands
//! in it, logins of their own, and the ways in which it goes down. It is reached through the scripts
//! in `e2e/guest`; the binary under test is `/host/sandkeep` there.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::Done;
use crate::home::done;

/// One machine: who goes down takes all others with it, so one test at a time has it.
static ONE: Mutex<()> = Mutex::new(());

/// The running guest, and this test's gateway home in it.
#[derive(Debug)]
pub struct Guest {
    scripts: PathBuf,
    home: String,
    _mine: MutexGuard<'static, ()>,
}

/// How the machine goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `systemctl reboot`: everything is told to end, and disks are synced.
    Reboot,
    /// The reset button: what was not given to the disk yet is lost.
    Hard,
    /// The plug: what the disk was not told to flush is lost, too.
    Power,
}

/// A script that runs in the guest, and what it has said.
#[derive(Debug)]
pub struct Speaker {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    listener: Option<JoinHandle<()>>,
}

impl Speaker {
    /// Whole lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every line that reached us; the script has ended, or its machine has.
    pub fn end(mut self) -> Vec<String> {
        self.child.wait().expect("a child of ours");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("it listens to the end");
        }
        self.lines()
    }
}

impl Guest {
    /// The guest, with a home of the test's own; `None`: none was booted for the tests.
    pub fn with_home(name: &str) -> Option<Self> {
        let Some(scripts) = std::env::var_os("SANDKEEP_GUEST") else {
            println!("SKIPPED: no guest; run cargo xtask guest test");
            return None;
        };
        // A test that failed has left the machine as usable as any other.
        let mine = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let home = format!("/var/lib/sandkeep-{name}");
        Some(Self { scripts: scripts.into(), home, _mine: mine })
    }

    /// A shell script in the guest, with `sandkeep` meaning this home's; not started yet.
    pub fn script(&self, script: &str) -> Command {
        let mut command = Command::new(self.scripts.join("run"));
        command.arg(self.with_environment(script)).stdin(Stdio::null());
        command
    }

    fn with_environment(&self, script: &str) -> String {
        format!("export SANDKEEP_HOME={} PATH=/host:$PATH\n{script}", self.home)
    }

    /// Runs a shell script to its end.
    #[track_caller]
    pub fn run(&self, script: &str) -> Done {
        done(&[script], self.script(script).output().expect("the scripts are there"))
    }

    /// Runs a shell script to its end in a login of its own, which then logs out.
    #[track_caller]
    pub fn login(&self, script: &str) -> Done {
        let mut command = Command::new(self.scripts.join("run"));
        command.arg("--login").arg(self.with_environment(script)).stdin(Stdio::null());
        done(&[script], command.output().expect("the scripts are there"))
    }

    /// `sandkeep get NAME -o json`; `None`: there is no such sandbox.
    #[track_caller]
    pub fn get(&self, name: &str) -> Option<Value> {
        let done = self.run(&format!("sandkeep get {name} -o json"));
        if done.code == 3 {
            return None;
        }
        Some(done.ok().json())
    }

    /// Starts a shell script and listens to it.
    pub fn listen(&self, script: &str) -> Speaker {
        let mut child = self.script(script).stdout(Stdio::piped()).spawn().expect("it starts");
        let out = child.stdout.take().expect("a pipe");
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = said.clone();
        let listener = std::thread::spawn(move || {
            // A line without its end was cut off when the machine went down: it was not said.
            let whole = |line: Vec<u8>| line.strip_suffix(b"\n").map(<[u8]>::to_vec);
            let mut out = BufReader::new(out);
            loop {
                let mut line = Vec::new();
                match out.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                let Some(line) = whole(line) else { break };
                let line = String::from_utf8_lossy(&line).into_owned();
                hears.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Speaker { child, said, listener: Some(listener) }
    }

    /// Takes the machine down and waits until it is up again.
    #[track_caller]
    pub fn reset(&self, way: Way) {
        let before = self.boot_id();
        let way = match way {
            Way::Reboot => "reboot",
            Way::Hard => "hard",
            Way::Power => "power",
        };
        let reset = Command::new(self.scripts.join("reset")).arg(way).status();
        assert!(reset.expect("the scripts are there").success(), "reset {way}");
        assert_ne!(self.boot_id(), before, "the guest has really booted");
    }

    fn boot_id(&self) -> String {
        self.run("cat /proc/sys/kernel/random/boot_id").ok().text()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log =
                self.run("tail -n 60 $SANDKEEP_HOME/gateway.log; journalctl -n 30 --no-pager");
            eprintln!("{}", log.text());
        }
        let end = "sandkeep delete --all --discard-workspace --timeout 120s; sandkeep gateway stop";
        // The next test has a home of its own; what is left goes with the machine.
        drop(self.run(end));
    }
}
