//! The test suites, each with what it needs.
//!
//! One build of the whole workspace with one set of features makes every test program and the
//! binary under test; a suite then runs its programs one after the other, as cargo would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build::{self, TestProgram};
use crate::guest::{self, Guest};
use crate::process::{self, Heard, cargo};
use crate::{environment, root};

/// Everything that is compiled only for tests.
pub(crate) const FEATURES: &str = "sandkeep/failpoints,sandkeep-driver/conformance,\
                                   sandkeep-driver/simulated,sandkeep-store/conformance";

/// Seeds that the simulation runs in `test`.
const SEEDS: &str = "10000";

const SIMULATION: &str = "simulation";

/// The suites of `cargo xtask test`, in the order in which they run: what fails fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suite {
    /// Units, model, properties, stories, stores, API: on every machine.
    Anywhere,
    /// The real reconciler in simulated worlds.
    Simulation,
    /// The local driver's own tests and the suite of all drivers on it.
    LocalDriver,
    /// The real binary.
    EndToEnd,
    /// Both on a Debian with systemd and version 2 of control groups, which also goes down.
    Guest,
}

/// What is told at the end.
#[derive(Debug, Default)]
struct Outcome {
    summary: Vec<String>,
    failed: Vec<String>,
}

pub(crate) fn all() -> Result<()> {
    environment::prepare()?;
    let mut programs: BTreeMap<Suite, Vec<TestProgram>> = BTreeMap::new();
    for program in build::test_programs()? {
        for suite in Suite::all_of(&program) {
            programs.entry(suite).or_default().push(program.clone());
        }
    }
    let mut outcome = Outcome::default();
    for (suite, programs) in programs {
        outcome.run(suite, &programs, &[])?;
    }
    outcome.summary.push("== examples in the documentation".to_owned());
    let heard = process::listen(cargo().args([
        "test",
        "--quiet",
        "--workspace",
        "--doc",
        "--features",
        FEATURES,
    ]))?;
    outcome.note("examples in the documentation", heard);
    outcome.end()
}

/// The guest's suite alone; `filter` goes to each of its programs.
pub(crate) fn in_guest(filter: &[&str]) -> Result<()> {
    if let Some(why) = guest::impossible() {
        bail!("{why}");
    }
    environment::prepare()?;
    let mut programs = build::test_programs()?;
    programs.retain(guest::runs);
    let mut outcome = Outcome::default();
    outcome.run(Suite::Guest, &programs, filter)?;
    outcome.end()
}

impl Outcome {
    fn run(&mut self, suite: Suite, programs: &[TestProgram], filter: &[&str]) -> Result<()> {
        println!("== {}", suite.title());
        self.summary.push(format!("== {}", suite.title()));
        if let Some(why) = suite.impossible() {
            self.summary.push(format!("   SKIPPED: {why}"));
            if environment::is_ci() {
                self.failed.push(format!("skipped: {}", suite.title()));
            }
            return Ok(());
        }
        let guest = match suite {
            Suite::Guest => match Guest::boot(programs) {
                Ok(guest) => Some(guest),
                Err(error) => {
                    self.summary.push(format!("   FAILED: {error:#}"));
                    self.failed.push(suite.title().to_owned());
                    return Ok(());
                }
            },
            _ => None,
        };
        for program in programs {
            let heard = match &guest {
                Some(guest) => guest.listen(program, filter)?,
                None => run(suite, program)?,
            };
            self.summary.push(format!("   {}", program.shown));
            self.note(&program.shown, heard);
        }
        Ok(())
    }

    fn note(&mut self, what: &str, heard: Heard) {
        if !heard.worked || (environment::is_ci() && !heard.skipped.is_empty()) {
            self.failed.push(what.to_owned());
        }
        let lines = heard.closing.into_iter().chain(heard.skipped);
        self.summary.extend(lines.map(|line| format!("     {line}")));
    }

    fn end(self) -> Result<()> {
        println!("\n{}", self.summary.join("\n"));
        if !self.failed.is_empty() {
            bail!("failed:\n  {}", self.failed.join("\n  "));
        }
        println!("test: all is well");
        Ok(())
    }
}

impl Suite {
    /// Where it is run: some programs are run on this machine and in the guest.
    fn all_of(program: &TestProgram) -> impl Iterator<Item = Self> {
        let here = (!guest::is_about_it(program)).then(|| Self::of(program));
        let there = guest::runs(program).then_some(Self::Guest);
        here.into_iter().chain(there)
    }

    fn of(program: &TestProgram) -> Self {
        match (program.package.as_str(), program.target.as_str()) {
            ("sandkeep-e2e", _) => Self::EndToEnd,
            ("sandkeep-gateway", SIMULATION) => Self::Simulation,
            ("sandkeep-driver-local", _) if program.is_integration => Self::LocalDriver,
            _ => Self::Anywhere,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Anywhere => "units, model, properties, stories, stores, API",
            Self::Simulation => "simulation, 10,000 seeds",
            Self::LocalDriver => "the local driver on this machine",
            Self::EndToEnd => "end to end",
            Self::Guest => "a Debian 12 guest: driver, end to end, reboot, reset, loss of power",
        }
    }

    /// Why it cannot run here.
    fn impossible(self) -> Option<&'static str> {
        match self {
            Self::Anywhere | Self::Simulation => None,
            Self::LocalDriver | Self::EndToEnd => environment::no_sandboxes(),
            Self::Guest => guest::impossible(),
        }
    }
}

/// Runs one program as cargo would, and what the suite sets besides.
fn run(suite: Suite, program: &TestProgram) -> Result<Heard> {
    println!("     Running {}", program.shown);
    let mut command = Command::new(&program.executable);
    command.current_dir(&program.directory).env("CARGO_MANIFEST_DIR", &program.directory);
    with_binary(&mut command);
    if suite == Suite::Simulation {
        command.env("SANDKEEP_SIM_SEEDS", SEEDS).arg("--nocapture");
    }
    process::listen(&mut command)
}

/// The binary under test is the one that the same build makes.
fn with_binary(command: &mut Command) {
    command.env("SANDKEEP_BIN", target_directory().join("debug/sandkeep"));
}

pub(crate) fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(Path::new(&directory)),
        None => root().join("target"),
    }
}

/// `[SEED]` or `--seeds N`.
pub(crate) fn simulation(words: &[&str]) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--package", "sandkeep-gateway", "--test", SIMULATION]);
    match words {
        [] => command.env("SANDKEEP_SIM_SEEDS", SEEDS),
        ["--seeds", count] => command.env("SANDKEEP_SIM_SEEDS", number(count)?).arg("--release"),
        [seed] => command.env("SANDKEEP_SIM_SEED", number(seed)?),
        _ => bail!("use: cargo xtask sim [SEED | --seeds N]"),
    };
    process::run(command.args(["--", "--nocapture"]))
}

fn number(text: &str) -> Result<&str> {
    text.parse::<u64>().with_context(|| format!("{text:?} is not a number"))?;
    Ok(text)
}

pub(crate) fn local_driver() -> Result<()> {
    if let Some(why) = environment::no_sandboxes() {
        bail!("{why}");
    }
    process::run(cargo().args(["test", "--package", "sandkeep-driver-local"]))
}

pub(crate) fn end_to_end(filter: &[&str]) -> Result<()> {
    if let Some(why) = environment::no_sandboxes() {
        bail!("{why}");
    }
    environment::prepare()?;
    let mut build = cargo();
    process::run(build.args(["build", "--package", "sandkeep", "--features", "failpoints"]))?;
    let mut tests = cargo();
    tests.args(["test", "--package", "sandkeep-e2e"]);
    with_binary(&mut tests);
    process::run(tests.args(filter))
}

pub(crate) fn bench(rest: &[&str]) -> Result<()> {
    let mut build = cargo();
    process::run(build.args(["build", "--release", "--package", "sandkeep"]))?;
    let mut bench = cargo();
    bench.args(["run", "--release", "--package", "sandkeep-e2e", "--bin", "bench", "--"]);
    bench.args(["--out", "docs/benchmarks.md"]).args(rest);
    process::run(bench.env("SANDKEEP_BIN", target_directory().join("release/sandkeep")))
}

/// The stories of the core, and what the command line prints.
pub(crate) fn golden() -> Result<()> {
    let mut stories = cargo();
    stories.args(["test", "--package", "sandkeep-core", "--test", "golden"]);
    process::run(stories.env("SANDKEEP_GOLDEN", "rewrite"))?;
    let mut printed = cargo();
    printed.args(["test", "--package", "sandkeep", "--bin", "sandkeep", "golden"]);
    process::run(printed.env("SANDKEEP_GOLDEN", "write"))
}

/// Static and not position independent: a small process that starts in a millisecond (see
/// docs/decisions). Builder's paths are left out of it.
pub(crate) fn dist() -> Result<()> {
    let mut build = cargo();
    build.args(["rustc", "--profile", "dist", "--package", "sandkeep", "--bin", "sandkeep", "--"]);
    if environment::is_linux() {
        build.args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
    }
    process::run(build.arg("--remap-path-prefix").arg(format!("{}=.", root().display())))?;
    println!("{}", target_directory().join("dist/sandkeep").display());
    Ok(())
}
