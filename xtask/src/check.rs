//! What must hold before a change is sent: formatting, lints, tidiness, licences.

use anyhow::{Result, bail};

use crate::suites::FEATURES;
use crate::{environment, process, root, tidy, tools};

/// Everything is looked at, also after a fault, so that one run tells all of them.
pub(crate) fn all() -> Result<()> {
    let mut clippy = process::cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--features", FEATURES]);
    let mut outcomes = vec![
        ("format", process::run(process::cargo().args(["fmt", "--all", "--check"]))),
        ("tidy", tidy::report(root())),
        ("lints", process::run(clippy.args(["--", "--deny", "warnings"]))),
    ];
    if environment::is_ci() || tools::has_deny() {
        // Advisories change without a change here, so they are looked at apart: `xtask deny`.
        outcomes.push(("licences and sources", tools::deny(false)));
    } else {
        println!("left out: licences and sources (cargo xtask deny; CI does it)");
    }
    let mut failed = Vec::new();
    for (what, outcome) in outcomes {
        if let Err(error) = outcome {
            println!("{what}: {error:#}");
            failed.push(what);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    println!("check: all is well");
    Ok(())
}
