//! Builds every test program and the binary under test at once, and tells where they are.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, cargo};
use crate::root;
use crate::suites::FEATURES;

/// One test program.
#[derive(Debug, Clone)]
pub(crate) struct TestProgram {
    pub(crate) package: String,
    pub(crate) target: String,
    /// It stands in the package's `tests`, not in its sources.
    pub(crate) is_integration: bool,
    pub(crate) executable: PathBuf,
    /// The package's, in which cargo runs its tests.
    pub(crate) directory: PathBuf,
    /// As cargo names it: `crates/core/tests/golden/main.rs (target/…)`.
    pub(crate) shown: String,
}

/// In the order of their sources.
pub(crate) fn test_programs() -> Result<Vec<TestProgram>> {
    let mut build = cargo();
    build.args(["build", "--workspace", "--all-targets", "--features", FEATURES]);
    build.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let shown = process::show(&build);
    let mut child = build.spawn().with_context(|| format!("start {shown}"))?;
    let out = child.stdout.take().context("cargo has no output")?;
    let mut programs = Vec::new();
    for line in BufReader::new(out).lines() {
        let message: Value = serde_json::from_str(&line?).context("read what cargo tells")?;
        programs.extend(test_program(&message));
    }
    if !child.wait()?.success() {
        bail!("{shown}: the build failed");
    }
    programs.sort_by(|a, b| a.shown.cmp(&b.shown));
    Ok(programs)
}

/// `None`: a message about something else.
fn test_program(message: &Value) -> Option<TestProgram> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    // Benches and examples are built too, so that they compile; they are no tests.
    let kind = &message["target"]["kind"][0];
    if kind == "bench" || kind == "example" {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let relative = |path: &Path| path.strip_prefix(root()).unwrap_or(path).display().to_string();
    Some(TestProgram {
        package: package(&directory)?,
        target: message["target"]["name"].as_str()?.to_owned(),
        is_integration: kind == "test",
        shown: format!("{} ({})", relative(source), relative(&executable)),
        executable,
        directory,
    })
}

/// The package's name, from its manifest: cargo's own package ids have several shapes.
fn package(directory: &Path) -> Option<String> {
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).ok()?;
    let manifest: toml::Table = manifest.parse().ok()?;
    manifest.get("package")?.get("name")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_told_from_other_artifacts() {
        let own = env!("CARGO_MANIFEST_DIR");
        let message = |test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": format!("{own}/Cargo.toml"),
                "target": { "name": "x", "kind": ["test"], "src_path": format!("{own}/tests/x.rs") },
                "profile": { "test": test },
                "executable": "x-123",
            })
        };
        assert!(test_program(&message(false)).is_none());
        let program = test_program(&message(true)).expect("a test program");
        assert_eq!((program.package.as_str(), program.is_integration), ("xtask", true));
    }
}
