//! The program itself, run against a fake gateway.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::fake::Fake;

/// A run of the program that takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program, with this home, and never with a gateway of its own.
pub(crate) fn program(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandkeep"));
    command.args(arguments).env("SANDKEEP_HOME", home).env("SANDKEEP_NO_AUTOSTART", "1");
    command.env_remove("NO_COLOR").stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts it with an open stdin, all streams piped.
pub(crate) fn start(fake: &Fake, arguments: &[&str]) -> Child {
    program(fake.home.path(), arguments).stdin(Stdio::piped()).spawn().unwrap()
}

/// Runs it to its end, without stdin.
pub(crate) async fn sandkeep(fake: &Fake, arguments: &[&str]) -> Ended {
    let child = program(fake.home.path(), arguments).spawn().unwrap();
    end(child).await
}

/// Waits for the end.
pub(crate) async fn end(child: Child) -> Ended {
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    Ended::from(output.expect("the program hangs").unwrap())
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
