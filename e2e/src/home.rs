//! A gateway home for one test, and the real binary run against it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A home directory of its own; its gateway and all its sandboxes go when it is dropped.
#[derive(Debug)]
pub struct Home {
    dir: tempfile::TempDir,
    /// Below `dir`; a long path when the test asks for one.
    path: PathBuf,
    env: Vec<(String, String)>,
}

/// What a command printed and how it ended.
#[derive(Debug, Clone)]
pub struct Done {
    /// The arguments, for messages.
    pub args: String,
    /// Exit code; 128 + n for a signal.
    pub code: i32,
    /// Standard output, as bytes.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
}

impl Done {
    /// The same, if it ended with 0; otherwise the test ends with all that was printed.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// The same, if it ended with `code`; otherwise the test ends with all that was printed.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            code,
            "sandkeep {}\nstdout: {}\nstderr: {}",
            self.args,
            String::from_utf8_lossy(&self.stdout),
            self.stderr
        );
        self
    }

    /// Standard output as text, without the line's end.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("sandkeep {}: {error}: {}", self.args, self.text()))
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// A new, empty home.
    pub fn new() -> Self {
        Self::below(|dir| dir.join("home"))
    }

    /// A home whose path has at least `bytes` bytes.
    pub fn with_long_path(bytes: usize) -> Self {
        Self::below(|dir| {
            let mut path = dir.to_path_buf();
            while path.as_os_str().len() < bytes {
                path.push("a-directory-with-quite-a-long-name");
            }
            path
        })
    }

    /// A home at a place that the test prepared (a small file system, say).
    pub fn at(path: PathBuf) -> Self {
        Self::below(|_| path.clone())
    }

    fn below(place: impl Fn(&Path) -> PathBuf) -> Self {
        let dir = tempfile::Builder::new().prefix("sandkeep-e2e-").tempdir().unwrap();
        let path = place(dir.path());
        std::fs::create_dir_all(&path).unwrap();
        rustix::fs::chmod(&path, rustix::fs::Mode::RWXU).unwrap();
        Self { dir, path, env: Vec::new() }
    }

    /// An environment variable for every command from now on; the gateway gets it when it is
    /// started by one.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != key);
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The home directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory for the test's own files, beside the home.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// A command that is not started yet.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).env("SANDKEEP_HOME", &self.path).stdin(Stdio::null());
        command.env_remove("SANDKEEP_FAILPOINT");
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Done {
        done(args, self.command(args).output().expect("the binary runs"))
    }

    /// Runs a command to its end with these bytes as its input.
    #[track_caller]
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Done {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::thread::scope(|scope| {
            // A command that reads no further closes the pipe: that is its right.
            scope.spawn(move || stdin.write_all(input).ok());
            done(args, child.wait_with_output().expect("it ends"))
        })
    }

    /// Starts a command with pipes at its three streams.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary runs")
    }

    /// `get NAME -o json`.
    #[track_caller]
    pub fn get(&self, name: &str) -> Value {
        self.run(&["get", name, "-o", "json"]).ok().json()
    }

    /// The phase of a sandbox now; `gone` when there is none.
    pub fn phase(&self, name: &str) -> String {
        let done = self.run(&["get", name, "-o", "json"]);
        if done.code == 3 {
            return "gone".to_owned();
        }
        done.ok().json()["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the sandbox is in this phase; ends the test after a minute with all that is
    /// known.
    #[track_caller]
    pub fn wait_for_phase(&self, name: &str, phase: &str) {
        let reached = crate::until(60, || self.phase(name) == phase);
        assert!(reached, "{name} is not {phase}: {}", self.run(&["explain", name]).text());
    }

    /// The gateway's pid; `None`: none runs.
    pub fn gateway_pid(&self) -> Option<i32> {
        let quiet = self.command(&["gateway", "status", "-o", "json"]);
        let mut quiet = quiet;
        let output = quiet.env("SANDKEEP_NO_AUTOSTART", "1").output().expect("the binary runs");
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        i32::try_from(status["pid"].as_i64()?).ok().filter(|pid| *pid > 0)
    }

    /// The id that everything made by this home's gateway carries.
    #[track_caller]
    pub fn gateway_id(&self) -> String {
        let status = self.run(&["gateway", "status", "-o", "json"]).ok().json();
        status["gateway_id"].as_str().expect("an id").to_owned()
    }

    /// Kills the gateway as a crash would, and waits until it is gone.
    pub fn kill_gateway(&self) {
        let Some(pid) = self.gateway_pid() else { return };
        kill(pid);
        assert!(crate::until(20, || is_dead(pid)), "process {pid} does not end");
    }

    /// Deletes every sandbox, and waits.
    pub fn delete_all(&self) {
        let names = self.run(&["list", "-o", "name"]).ok().text();
        let names: Vec<&str> = names.lines().collect();
        if !names.is_empty() {
            let mut args = vec!["delete", "--discard-workspace"];
            args.extend(names);
            self.run(&args).ok();
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.path.join("gateway.log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            for line in tail.iter().rev() {
                eprintln!("gateway: {line}");
            }
        }
        // Best effort: the test has its own checks of what is left behind.
        let mut all = self.command(&["delete", "--all", "--discard-workspace", "--timeout", "60s"]);
        let deleted = all.output();
        drop(deleted);
        let stopped = self.command(&["gateway", "stop"]).output();
        drop(stopped);
    }
}

/// Whether the process is gone, or is a zombie: before that its sockets may still be open.
pub fn is_dead(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_none_or(|(_, rest)| matches!(rest.trim().chars().next(), Some('Z' | 'X')))
}

/// SIGKILL to one process that the test knows.
pub fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a real pid");
    // One that is gone already is as dead as it should be.
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
}

pub(crate) fn done(args: &[&str], output: std::process::Output) -> Done {
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    Done {
        args: args.join(" "),
        code: code.unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The binary under test: `SANDKEEP_BIN`, or the one that lies beside this test.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("SANDKEEP_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().expect("a running program has a path");
    let built = own.ancestors().map(|dir| dir.join("sandkeep")).find(|path| path.is_file());
    built.expect("build the binary first: cargo build -p sandkeep --features failpoints")
}
