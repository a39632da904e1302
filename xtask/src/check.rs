//! What must hold before a change is sent: formatting, lints, tidiness, licences.

use anyhow::Result;

use crate::suites::FEATURES;
use crate::{environment, process, root, tidy, tools};

pub(crate) fn all() -> Result<()> {
    process::run(process::cargo().args(["fmt", "--all", "--check"]))?;
    tidy::report(root())?;
    let mut clippy = process::cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--features", FEATURES]);
    process::run(clippy.args(["--", "--deny", "warnings"]))?;
    if environment::is_ci() || tools::has_deny() {
        // Advisories change without a change here, so they are looked at apart: `xtask deny`.
        tools::deny(false)?;
    } else {
        println!("left out: licences and sources (cargo xtask deny; CI does it)");
    }
    println!("check: all is well");
    Ok(())
}
