//! Landlock: no device nodes, whatever else fails; and no change of mounts for who is under it.
//!
//! Nothing else: what a sandbox may read is settled by what is mounted, and rules that break
//! programs at work (renames between directories, for one) would protect nothing here.

use std::io;

use landlock::{
    AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};

/// Restricts this process and what it starts. The error: this kernel has none, or too old a one.
pub fn restrict() -> io::Result<()> {
    let status = restrict_self().map_err(io::Error::other)?;
    if status == RulesetStatus::NotEnforced {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(())
}

fn restrict_self() -> Result<RulesetStatus, Box<dyn std::error::Error + Send + Sync>> {
    // Renames and links between directories are denied to whoever is under any rule, unless they
    // are handled and allowed: so they are, everywhere. A kernel that cannot is not asked.
    let handled = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::Refer;
    let root = PathFd::new("/")?;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)?
        .create()?
        .add_rule(PathBeneath::new(root, AccessFs::Refer))?
        .restrict_self()?;
    Ok(status.ruleset)
}
