//! What a home has on the machine: counted before and after, so that nothing is left behind.

use std::fs;
use std::path::Path;

use crate::Home;

/// Counts of what belongs to one home.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// Processes of sandboxes: the supervisor's binary of this home.
    pub supervisors: Vec<i32>,
    /// Mount points in this mount namespace whose path or source lies in the home.
    pub mounts: Vec<String>,
    /// Control groups that carry this home's gateway id or a sandbox's id.
    pub cgroups: Vec<String>,
    /// Directories of sandboxes below the home.
    pub directories: Vec<String>,
    /// Workspaces below the home.
    pub workspaces: Vec<String>,
    /// Root templates.
    pub templates: Vec<String>,
    /// Unpacked supervisors, by digest.
    pub unpacked: Vec<String>,
    /// State of the library that makes PID 1.
    pub runtime: Vec<String>,
}

/// What is there now.
pub fn leftovers(home: &Home) -> Leftovers {
    Leftovers {
        supervisors: supervisors(home.path()),
        mounts: mounts(home.path()),
        cgroups: cgroups(&home.gateway_id()),
        directories: names(&home.path().join("local/sandboxes")),
        workspaces: names(&home.path().join("local/workspaces")),
        templates: names(&home.path().join("local/templates")),
        unpacked: names(&home.path().join("supervisors")),
        runtime: names(&home.path().join("local/runtime")),
    }
}

/// PIDs of supervisors (PID 1 of a sandbox, as seen from here) whose binary lies in the home.
pub fn supervisors(home: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc") {
        let entry = entry.expect("an entry");
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let cmdline = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_supervisor = cmdline.split(|byte| *byte == 0).next().is_some_and(|program| {
            program.ends_with(b"/sandkeep-supervisor") || program == b"sandkeep-supervisor"
        });
        if is_supervisor && session_is_below(&entry.path(), home) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

/// The mount table of a sandbox names the home's directories as roots of its binds.
fn session_is_below(proc: &Path, home: &Path) -> bool {
    let table = fs::read_to_string(proc.join("mountinfo")).unwrap_or_default();
    table.contains(&*home.to_string_lossy())
}

fn mounts(home: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let home = home.to_string_lossy().into_owned();
    // The home itself may be a mount of the test's own.
    let below = format!("{home}/");
    table.lines().filter(|line| line.contains(&below)).map(str::to_owned).collect()
}

/// Groups below the gateway's own, in every hierarchy; the gateway's own is counted too.
fn cgroups(gateway: &str) -> Vec<String> {
    let top = Path::new("/sys/fs/cgroup");
    let below = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for hierarchy in below.chain([top.to_owned()]) {
        let ours = hierarchy.join("sandkeep").join(gateway);
        if !ours.is_dir() {
            continue;
        }
        let Ok(entries) = fs::read_dir(&ours) else { continue };
        let groups = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        found.extend(groups.map(|path| path.display().to_string()));
        found.push(ours.display().to_string());
    }
    found.sort();
    found
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
