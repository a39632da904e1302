//! Cargo tools that are not part of the toolchain, built below target/tools when they are needed.

use std::path::PathBuf;

use anyhow::Result;

use crate::{process, root};

/// A tool, and the version that is known to work here.
struct Tool {
    name: &'static str,
    version: &'static str,
}

const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
const MUTANTS: Tool = Tool { name: "cargo-mutants", version: "27.1.0" };

impl Tool {
    fn directory() -> PathBuf {
        root().join("target/tools")
    }

    fn path(&self) -> PathBuf {
        Self::directory().join("bin").join(self.name)
    }

    /// Builds it, once.
    fn install(&self) -> Result<()> {
        if self.path().exists() {
            return Ok(());
        }
        println!("{} {} is built now; this takes minutes, once", self.name, self.version);
        let mut install = process::cargo();
        install.args(["install", "--locked", self.name, "--version", self.version, "--root"]);
        process::run(install.arg(Self::directory()))
    }

    /// `cargo NAME`, with the tool in the PATH.
    fn command(&self) -> Result<std::process::Command> {
        self.install()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = std::iter::once(Self::directory().join("bin"));
        let path = std::env::join_paths(own.chain(std::env::split_paths(&path)))?;
        let mut cargo = process::cargo();
        cargo.env("PATH", path).arg(self.name.trim_start_matches("cargo-"));
        Ok(cargo)
    }
}

/// It is built already, so using it costs nothing.
pub(crate) fn has_deny() -> bool {
    DENY.path().exists()
}

/// Licences, sources and duplicates; with `advisories` also what is known to be unsafe, which needs
/// the network.
pub(crate) fn deny(advisories: bool) -> Result<()> {
    let mut deny = DENY.command()?;
    deny.args(["--log-level", "error", "check", "licenses", "sources", "bans"]);
    if advisories {
        deny.arg("advisories");
    }
    process::run(&mut deny)
}

/// Changes the core in small ways and looks whether a test notices.
pub(crate) fn mutants(rest: &[&str]) -> Result<()> {
    let mut mutants = MUTANTS.command()?;
    mutants.args(["--package", "sandkeep-core", "--output", "target", "--no-shuffle"]);
    process::run(mutants.args(rest))
}
