//! What this machine is, and getting what the suites need on the ones where that is ours to do.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{guest, process};

/// A program that a suite calls, and the Debian package that brings it.
const NEEDED: &[(&str, &str)] = &[
    ("git", "git"),
    ("python3", "python3-minimal"),
    ("tmux", "tmux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mount", "mount"),
    ("ps", "procps"),
    ("less", "less"),
    ("vi", "vim-tiny"),
];

/// The same for the guest.
const NEEDED_FOR_GUEST: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("mmdebstrap", "mmdebstrap"),
    ("ssh", "openssh-client"),
    ("socat", "socat"),
];

/// A skipped suite is then a failure.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

pub(crate) fn is_linux() -> bool {
    cfg!(target_os = "linux")
}

pub(crate) fn is_root() -> bool {
    // Effective user id: the second number of the line.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_whitespace().nth(1)).is_some_and(|uid| uid == "0")
}

/// Why suites that make sandboxes cannot run here; `None`: they can.
pub(crate) fn no_sandboxes() -> Option<&'static str> {
    if !is_linux() {
        Some("the local driver needs Linux")
    } else if !is_root() {
        Some("the local driver is tested as root")
    } else {
        None
    }
}

/// Installs what is missing on Debian and its relatives as root; elsewhere says what is missing.
pub(crate) fn prepare() -> Result<()> {
    let for_guest = if guest::impossible().is_none() { NEEDED_FOR_GUEST } else { &[] };
    let missing: Vec<&str> = NEEDED
        .iter()
        .chain(for_guest)
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() || !Path::new("/etc/debian_version").exists() {
        println!("missing here, tests that need them will fail: {}", missing.join(" "));
        return Ok(());
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    process::run(apt().args(["-q", "update"]))?;
    let install = ["-q", "install", "-y", "--no-install-recommends"];
    process::run(apt().args(install).args(&missing))
}

fn is_there(program: &str) -> bool {
    // System programs stand in sbin, which not every PATH has.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(Into::into))
        .any(|directory| directory.join(program).exists())
}
