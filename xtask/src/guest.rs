//! A real Debian 12 machine for tests (see `e2e/guest`): made, booted with what this tree builds, and
//! ended. What is run in it is decided in `suites`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build::TestProgram;
use crate::process::{self, Heard};
use crate::suites::target_directory;
use crate::{environment, root};

/// A path of a socket ends at 107 bytes; in here it goes on with `/run/qmp.XXXXXXXXXXXXXXXX`.
const LONGEST_DIRECTORY: usize = 75;

/// Test programs of the local driver that are run in the guest, too.
const DRIVER_TESTS: &[&str] = &["conformance", "faults", "isolation", "root"];

/// Tests that have nothing to look at there.
const NOT_IN_GUEST: &[&str] = &[
    // It reads a document of the repository.
    "every_test_that_the_document_names_is_there",
    // Held there even with its guard down, so it cannot be shown to fail.
    "the_gateway_cannot_be_reached_through_its_end_of_the_session",
];

/// Whether the program belongs in the guest besides, or is about it.
pub(crate) fn runs(program: &TestProgram) -> bool {
    match program.package.as_str() {
        "sandkeep-e2e" => is_about_it(program),
        "sandkeep-driver-local" => {
            program.is_integration && DRIVER_TESTS.contains(&program.target.as_str())
        }
        _ => false,
    }
}

/// Runs on the host, and drives the guest.
pub(crate) fn is_about_it(program: &TestProgram) -> bool {
    program.package == "sandkeep-e2e" && program.target.starts_with("guest")
}

/// Why there is no guest here; `None`: there can be one. It is made of the packages of this
/// machine's own release, so that programs built here run there.
pub(crate) fn impossible() -> Option<&'static str> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let is_bookworm = release.lines().any(|line| line == "VERSION_CODENAME=bookworm");
    if let Some(why) = environment::no_sandboxes() {
        Some(why)
    } else if !is_bookworm || !cfg!(target_arch = "x86_64") {
        Some("the guest is made on a Debian 12 of 64-bit x86")
    } else {
        None
    }
}

/// The guest with what was built, running until this is dropped.
#[derive(Debug)]
pub(crate) struct Guest(());

impl Guest {
    /// A fresh one, in place of one that runs. The programs are at the same paths in it as here.
    pub(crate) fn boot(programs: &[TestProgram]) -> Result<Self> {
        let stage = directory()?.join("stage");
        let built = target_directory().join("debug");
        if stage.exists() {
            fs::remove_dir_all(&stage).context("empty the stage")?;
        }
        let binaries = ["sandkeep", "sandkeep-local-helper"].map(|name| built.join(name));
        let inside = programs.iter().filter(|program| !is_about_it(program));
        let tests = inside.map(|program| program.executable.clone());
        for path in binaries.into_iter().chain(tests) {
            let below = path.strip_prefix(&built).context("a program outside the build")?;
            let staged = stage.join(below);
            fs::create_dir_all(staged.parent().context("a file has a directory")?)?;
            fs::copy(&path, &staged).with_context(|| format!("stage {}", path.display()))?;
        }
        process::run(script("boot")?.arg(&stage))?;
        let guest = Self(());
        let built = built.display();
        process::run(
            script("run")?.arg(format!("mkdir -p '{built}' && mount --bind /host '{built}'")),
        )?;
        fs::remove_dir_all(&stage).context("empty the stage")?;
        Ok(guest)
    }

    /// Runs a test program in it, or one that drives it.
    pub(crate) fn listen(&self, program: &TestProgram, filter: &[&str]) -> Result<Heard> {
        println!("     Running {}, in the guest", program.shown);
        if is_about_it(program) {
            let mut command = Command::new(&program.executable);
            command.current_dir(&program.directory).env("GUEST_DIR", directory()?);
            command.env("SANDKEEP_GUEST", scripts()).arg("--nocapture").args(filter);
            return process::listen(&mut command);
        }
        let skipped: String = NOT_IN_GUEST.iter().map(|name| format!(" --skip {name}")).collect();
        let (path, filter) = (program.executable.display(), filter.join(" "));
        let call = format!("cd / && CI=true '{path}' {filter}{skipped}");
        process::listen(script("run")?.arg(call))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Err(error) = script("stop").and_then(|mut stop| process::run(&mut stop)) {
            eprintln!("xtask: the guest was not ended: {error:#}");
        }
    }
}

/// `boot` with what was built last, `run COMMAND`, `reset WAY`, `stop`.
pub(crate) fn command(words: &[&str]) -> Result<()> {
    if let Some(why) = impossible() {
        bail!("{why}");
    }
    match words {
        ["boot"] => {
            environment::prepare()?;
            // It runs on until `stop`.
            std::mem::forget(Guest::boot(&[])?);
            Ok(())
        }
        [name @ ("run" | "reset" | "stop"), rest @ ..] => process::run(script(name)?.args(rest)),
        _ => bail!("use: cargo xtask guest boot | run COMMAND | reset reboot|hard|power | stop"),
    }
}

fn scripts() -> PathBuf {
    root().join("e2e/guest")
}

fn script(name: &str) -> Result<Command> {
    let mut command = Command::new(scripts().join(name));
    command.env("GUEST_DIR", directory()?);
    Ok(command)
}

/// Where the image is kept and the guest runs: below the build's directory, or, where that makes
/// paths too long, below the one for temporary files.
fn directory() -> Result<PathBuf> {
    let temporary = std::env::temp_dir().join("sandkeep-guest");
    let length = |path: &Path| AsRef::<OsStr>::as_ref(path).len();
    let fitting = [target_directory().join("guest"), temporary];
    let found = fitting.into_iter().find(|path| length(path) <= LONGEST_DIRECTORY);
    found.context("no directory with a path short enough for a socket; set TMPDIR")
}
