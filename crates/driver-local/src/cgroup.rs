//! Control groups: which hierarchies there are, and one sandbox's group in each of them.
//!
//! Works on version 1 (every controller its own hierarchy), on a mixture, and on version 2. Every
//! process of a sandbox is in its group from before it is forked, so the group tells what is
//! alive when every record of it is lost, and what is left to be ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::process::Process;

/// The hierarchies of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchies {
    unified: bool,
    /// Mount point of each, the tracking one first. Version 1: all controllers; version 2: one.
    mounts: Vec<Hierarchy>,
}

#[derive(Debug, Clone)]
struct Hierarchy {
    path: PathBuf,
    controllers: Vec<String>,
}

/// A sandbox's group, in every hierarchy.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    unified: bool,
    /// Below every hierarchy's mount point, no leading slash.
    path: String,
    mounts: Vec<Hierarchy>,
}

impl Hierarchies {
    /// Reads them from the mount table.
    pub(crate) fn of_this_machine() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo")?, |unified| {
            fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default()
        })
    }

    fn parse(mountinfo: &str, unified_controllers: impl Fn(&Path) -> String) -> io::Result<Self> {
        let mut one = Vec::new();
        let mut two = Vec::new();
        for line in mountinfo.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let before: Vec<&str> = before.split(' ').collect();
            let after: Vec<&str> = after.split(' ').collect();
            let (Some(root), Some(point)) = (before.get(3), before.get(4)) else { continue };
            if *root != "/" {
                continue;
            }
            let path = PathBuf::from(point);
            match after.first() {
                Some(&"cgroup") => {
                    let options = after.get(2).copied().unwrap_or_default();
                    let controllers = options.split(',').map(str::to_owned).collect();
                    one.push(Hierarchy { path, controllers });
                }
                Some(&"cgroup2") => two.push(path),
                _ => {}
            }
        }
        let knows = |h: &Hierarchy, name: &str| h.controllers.iter().any(|c| c == name);
        one.retain(|h| !h.controllers.iter().any(|c| c.starts_with("name=")));
        if !one.is_empty() {
            one.sort_by_key(|h| !knows(h, "pids"));
            return Ok(Self { unified: false, mounts: one });
        }
        let path = two.into_iter().next();
        let path = path.ok_or_else(|| io::Error::other("no control groups are mounted"))?;
        let controllers = unified_controllers(&path);
        let controllers = controllers.split_ascii_whitespace().map(str::to_owned).collect();
        Ok(Self { unified: true, mounts: vec![Hierarchy { path, controllers }] })
    }

    /// Whether limits of that controller can be enforced here.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.mounts.iter().any(|h| h.controllers.iter().any(|c| c == controller))
    }

    /// Whether a group can be frozen.
    pub(crate) fn can_freeze(&self) -> bool {
        self.unified || self.has("freezer")
    }

    /// Whether swap counts too (version 1 tells by a file; version 2 needs no such file).
    pub(crate) fn limits_swap(&self) -> bool {
        let memory = self.mounts.iter().find(|h| h.controllers.iter().any(|c| c == "memory"));
        memory.is_some_and(|h| self.unified || h.path.join("memory.memsw.limit_in_bytes").exists())
    }

    /// The group at `path` (no leading slash, never empty: an empty path would mean our own).
    pub(crate) fn group(&self, path: String) -> Group {
        debug_assert!(!path.is_empty());
        Group { unified: self.unified, path, mounts: self.mounts.clone() }
    }
}

impl Group {
    fn tracking(&self) -> PathBuf {
        self.mounts[0].path.join(&self.path)
    }

    fn dir_with(&self, controller: &str) -> Option<PathBuf> {
        let has = |h: &&Hierarchy| h.controllers.iter().any(|c| c == controller);
        self.mounts.iter().find(has).map(|h| h.path.join(&self.path))
    }

    /// Makes the group where processes are tracked.
    pub(crate) fn make(&self) -> io::Result<()> {
        fs::create_dir_all(self.tracking())?;
        if self.unified {
            self.pass_controllers_down();
        }
        Ok(())
    }

    /// Puts `pid` into it, with all that it forks from then on.
    pub(crate) fn enter(&self, pid: u32) -> io::Result<()> {
        fs::write(self.tracking().join("cgroup.procs"), pid.to_string())
    }

    /// Version 2: a controller has to be handed down level by level. One that is not there is no
    /// error here; a limit that needs it is refused long before.
    fn pass_controllers_down(&self) {
        let mut dir = self.mounts[0].path.clone();
        for part in self.path.split('/') {
            for controller in ["cpu", "memory", "pids"] {
                let wish = format!("+{controller}");
                if let Err(error) = fs::write(dir.join("cgroup.subtree_control"), wish) {
                    tracing::debug!(%controller, %error, dir = %dir.display(), "not handed down");
                }
            }
            dir.push(part);
        }
    }

    /// Every process in it; empty when it is not there.
    pub(crate) fn pids(&self) -> io::Result<Vec<i32>> {
        let mut found = Vec::new();
        collect_pids(&self.tracking(), &mut found)?;
        Ok(found)
    }

    /// SIGKILL to everything in it, once; how many were hit.
    pub(crate) fn kill_once(&self) -> io::Result<usize> {
        // The pidfds first, then the look into the group again: whatever holds a pidfd and is
        // still listed is the process that was listed before, not one that reused its pid.
        let held: Vec<Process> = self.pids()?.into_iter().filter_map(Process::open).collect();
        let listed = self.pids()?;
        let mut hit = 0;
        for process in held.iter().filter(|process| listed.contains(&process.pid)) {
            process.signal(Signal::KILL)?;
            hit += 1;
        }
        Ok(hit)
    }

    /// Whether any group is there.
    pub(crate) fn exists(&self) -> bool {
        self.mounts.iter().any(|h| h.path.join(&self.path).exists())
    }

    /// How many processes the kernel killed in it for memory; `None`: it cannot tell.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let dir = self.dir_with("memory")?;
        let file = if self.unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(dir.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    /// Freezes or thaws it.
    pub(crate) fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        if self.unified {
            let value = if frozen { "1" } else { "0" };
            return fs::write(self.tracking().join("cgroup.freeze"), value);
        }
        let dir = self.dir_with("freezer");
        let dir = dir.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSYS))?;
        fs::write(dir.join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" })
    }

    /// Whether it is frozen, or on its way there.
    pub(crate) fn is_frozen(&self) -> bool {
        if self.unified {
            let text = fs::read_to_string(self.tracking().join("cgroup.freeze"));
            return text.is_ok_and(|text| text.trim() == "1");
        }
        let Some(dir) = self.dir_with("freezer") else { return false };
        let text = fs::read_to_string(dir.join("freezer.state"));
        text.is_ok_and(|text| text.trim() != "THAWED")
    }

    /// Removes the group everywhere. `Ok(false)`: something in it has not gone yet.
    pub(crate) fn remove(&self) -> io::Result<bool> {
        let mut gone = true;
        for hierarchy in &self.mounts {
            gone &= remove_tree(&hierarchy.path.join(&self.path))?;
        }
        Ok(gone)
    }

    /// Removes the gateway's own level when no sandbox is left in it.
    pub(crate) fn remove_empty_parents(&self) {
        for hierarchy in &self.mounts {
            let mut path = Path::new(&self.path).parent();
            while let Some(parent) = path.filter(|p| !p.as_os_str().is_empty()) {
                if fs::remove_dir(hierarchy.path.join(parent)).is_err() {
                    break;
                }
                path = parent.parent();
            }
        }
    }
}

/// A group has no files of its own to remove, only groups below.
fn remove_tree(dir: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() && !remove_tree(&entry.path())? {
            return Ok(false);
        }
    }
    match fs::remove_dir(dir) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => Ok(true),
            Some(libc::EBUSY) => Ok(false),
            _ => Err(error),
        },
    }
}

fn collect_pids(dir: &Path, found: &mut Vec<i32>) -> io::Result<()> {
    let text = match fs::read_to_string(dir.join("cgroup.procs")) {
        Ok(text) => text,
        // ENODEV: the group went away between open and read.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ENODEV) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    // 0 is a process that this pid namespace cannot see: none of ours.
    found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_pids(&entry.path(), found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_of_both_versions_is_used_as_version_one_tracking_by_pids() {
        let text = "30 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                    31 29 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                    32 29 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                    33 29 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = Hierarchies::parse(text, |_| String::new()).unwrap();
        assert!(!found.unified);
        assert_eq!(found.mounts[0].path, Path::new("/sys/fs/cgroup/pids"));
        assert_eq!(found.mounts.len(), 2);
        assert!(found.has("cpu") && found.has("pids") && !found.has("memory"));
    }

    #[test]
    fn version_two_alone_has_what_its_root_offers() {
        let text = "33 29 0:30 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchies::parse(text, |_| "cpu memory pids\n".into()).unwrap();
        assert!(found.unified && found.has("memory") && !found.has("io"));
    }

    /// Every piece of a mount table: hierarchies or an error, and never one that is not in it.
    #[test]
    fn a_mount_table_cut_anywhere_is_read_as_far_as_it_goes() {
        let text = "30 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                    31 29 0:28 /below /elsewhere rw - cgroup cgroup rw,memory\n\
                    - - - - - -\n - \n\u{fffd}\n\
                    33 29 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            for begin in [0, end / 2] {
                if !text.is_char_boundary(begin) {
                    continue;
                }
                let Ok(found) = Hierarchies::parse(&text[begin..end], |_| String::new()) else {
                    continue;
                };
                assert!(!found.has("memory"), "it is mounted from below its root");
                assert!(!found.mounts.is_empty());
            }
        }
    }

    #[test]
    fn no_control_groups_at_all_is_an_error() {
        assert!(Hierarchies::parse("", |_| String::new()).is_err());
    }
}
