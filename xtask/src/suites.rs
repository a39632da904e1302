//! The test suites, each with what it needs.
//!
//! All of them select the whole workspace with the same features, so that one build serves them
//! all; a suite picks its test targets by name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{self, Heard, cargo};
use crate::{environment, root};

/// Everything that is compiled only for tests.
pub(crate) const FEATURES: &str = "sandkeep/failpoints,sandkeep-driver/conformance,\
                                   sandkeep-driver/simulated,sandkeep-store/conformance";

/// Seeds that the simulation runs in `test`.
const SEEDS: &str = "10000";

const SIMULATION: &str = "simulation";

/// One suite of `cargo xtask test`.
struct Suite {
    title: &'static str,
    command: Command,
    /// Why it cannot run here.
    impossible: Option<&'static str>,
}

pub(crate) fn all() -> Result<()> {
    environment::prepare()?;
    // Everything at once, the binary under test with it, so that the suites build nothing.
    let mut build = cargo();
    process::run(build.args(["build", "--workspace", "--all-targets", "--features", FEATURES]))?;
    let mut failed = Vec::new();
    let mut summary = Vec::new();
    for suite in suites()? {
        summary.push(format!("== {}", suite.title));
        if let Some(why) = suite.impossible {
            summary.push(format!("   SKIPPED: {why}"));
            if environment::is_ci() {
                failed.push(suite.title);
            }
            continue;
        }
        println!("== {}", suite.title);
        let mut command = suite.command;
        let Heard { closing, skipped, worked } = process::listen(&mut command)?;
        if !worked || (environment::is_ci() && !skipped.is_empty()) {
            failed.push(suite.title);
        }
        summary.extend(closing.into_iter().chain(skipped).map(|line| format!("   {line}")));
    }
    println!("\n{}", summary.join("\n"));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    println!("test: all is well");
    Ok(())
}

fn suites() -> Result<Vec<Suite>> {
    let targets = Targets::find()?;
    let mut unit = workspace_tests();
    unit.args(["--lib", "--bins"]);
    name(&mut unit, &targets.anywhere);
    let mut docs = cargo();
    docs.args(["test", "--workspace", "--doc", "--features", FEATURES]);
    let mut simulation = workspace_tests();
    name(&mut simulation, &targets.simulation);
    simulation.env("SANDKEEP_SIM_SEEDS", SEEDS).args(["--", "--nocapture"]);
    let mut local = workspace_tests();
    name(&mut local, &targets.local_driver);
    let mut end_to_end = workspace_tests();
    name(&mut end_to_end, &targets.end_to_end);
    with_binary(&mut end_to_end);
    let suite = |title, command, needed: &BTreeSet<String>, impossible| {
        (!needed.is_empty()).then_some(Suite { title, command, impossible })
    };
    let suites = [
        Some(Suite {
            title: "units, model, properties, stories, stores",
            command: unit,
            impossible: None,
        }),
        Some(Suite { title: "examples in the documentation", command: docs, impossible: None }),
        suite("simulation, 10,000 seeds", simulation, &targets.simulation, None),
        suite(
            "the local driver on this machine",
            local,
            &targets.local_driver,
            environment::no_sandboxes(),
        ),
        suite("end to end", end_to_end, &targets.end_to_end, environment::no_sandboxes()),
    ];
    Ok(suites.into_iter().flatten().collect())
}

fn workspace_tests() -> Command {
    let mut command = cargo();
    command.args(["test", "--no-fail-fast", "--workspace", "--features", FEATURES]);
    command
}

fn name(command: &mut Command, targets: &BTreeSet<String>) {
    for target in targets {
        command.arg("--test").arg(target);
    }
}

/// The binary under test is the one that the same build makes.
fn with_binary(command: &mut Command) {
    command.env("SANDKEEP_BIN", root().join("target/debug/sandkeep"));
}

/// Names of the test targets, by what they need.
struct Targets {
    anywhere: BTreeSet<String>,
    simulation: BTreeSet<String>,
    local_driver: BTreeSet<String>,
    end_to_end: BTreeSet<String>,
}

impl Targets {
    fn find() -> Result<Self> {
        let mut targets = Self {
            anywhere: BTreeSet::new(),
            simulation: BTreeSet::new(),
            local_driver: test_targets(&root().join("crates/driver-local"))?,
            end_to_end: test_targets(&root().join("e2e"))?,
        };
        let crates = fs::read_dir(root().join("crates")).context("read crates")?;
        let mut found = BTreeSet::new();
        for entry in crates {
            found.extend(test_targets(&entry.context("read crates")?.path())?);
        }
        found.retain(|target| {
            !targets.local_driver.contains(target) && !targets.end_to_end.contains(target)
        });
        (targets.simulation, targets.anywhere) =
            found.into_iter().partition(|target| target == SIMULATION);
        Ok(targets)
    }
}

/// As cargo finds them: `tests/NAME.rs` and `tests/NAME/main.rs`.
fn test_targets(package: &Path) -> Result<BTreeSet<String>> {
    let directory = package.join("tests");
    if !directory.is_dir() {
        return Ok(BTreeSet::new());
    }
    let is_target = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists()
    };
    let mut targets = BTreeSet::new();
    for entry in
        fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))?
    {
        let path = entry.context("read tests")?.path();
        if is_target(&path) {
            targets.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    Ok(targets)
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
    process::run(bench.env("SANDKEEP_BIN", root().join("target/release/sandkeep")))
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
    println!("{}", root().join("target/dist/sandkeep").display());
    Ok(())
}
