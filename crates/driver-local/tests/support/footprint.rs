//! Counting what a gateway has on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sandkeep_driver::conformance::Footprint;

pub(super) fn of(gateway: &str, home: &Path) -> Footprint {
    let mut count = BTreeMap::new();
    count.insert("processes".to_owned(), processes(gateway).len() as u64);
    count.insert("groups".to_owned(), groups(gateway).len() as u64);
    count.insert("host mounts".to_owned(), host_mounts(home));
    count.insert("files".to_owned(), files(home));
    Footprint(count)
}

/// Processes whose control group names the gateway. One that has ended and waits for the host's
/// init to take note of it is none.
pub(super) fn processes(gateway: &str) -> Vec<i32> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let group = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let ended = status.lines().any(|line| line.starts_with("State:\tZ"));
        if !ended && group.contains(&format!("sandkeep/{gateway}/")) {
            found.insert(pid);
        }
    }
    found.into_iter().collect()
}

fn groups(gateway: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut hierarchies = vec![PathBuf::from("/sys/fs/cgroup")];
    hierarchies.extend(fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|e| e.path()));
    for hierarchy in hierarchies {
        let ours = hierarchy.join("sandkeep").join(gateway);
        if ours.is_dir() {
            found.extend(directories(&ours));
        }
    }
    found
}

/// Removes the groups, deepest first; their processes are gone.
pub(super) fn remove_groups(gateway: &str) {
    for group in groups(gateway).into_iter().rev() {
        fs::remove_dir(group).ok();
    }
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(directories(&entry.path()));
        }
    }
    found
}

fn host_mounts(home: &Path) -> u64 {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let home = home.to_str().unwrap();
    table.lines().filter(|line| line.contains(home) || line.contains("sandkeep")).count() as u64
}

/// What lies in the home, but for the templates that all sandboxes share.
fn files(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name() != "templates");
    entries
        .map(|entry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            1 + if is_dir { files(&entry.path()) } else { 0 }
        })
        .sum()
}
