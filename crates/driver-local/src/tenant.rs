//! Whose processes are in a sandbox's control group: a home can be copied, and the copy has the
//! same ids, the same labels and the same records, while the sandboxes run in the original.
//!
//! A directory is known by its number, which no copy has. What a run uses of its home is mounted
//! inside, so a PID 1 shows by itself where it is at home; for what has no root file system yet
//! counts which directory's start was noted last. What is not ours is neither signalled nor
//! cleared away.

use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use sandkeep_core::{SandboxId, WorkspaceId};
use sandkeep_driver::{DriverError, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::local::Local;
use crate::process::Process;

/// One directory of this boot, whatever its path becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Directory {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl From<&Metadata> for Directory {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl Directory {
    /// The directory at `path`; a link in its place is an error.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let metadata = path.symlink_metadata()?;
        if !metadata.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        Ok(Self::from(&metadata))
    }

    #[allow(clippy::useless_conversion, reason = "differs by target")]
    fn of(fd: impl AsFd) -> io::Result<Self> {
        let found = fstat(fd)?;
        Ok(Self { device: found.st_dev.into(), inode: found.st_ino.into() })
    }
}

impl Local {
    /// The directory of the sandbox, when there is one.
    pub(crate) fn directory(&self, id: &SandboxId) -> Option<Directory> {
        Directory::at(&self.home.sandbox(id).path).ok()
    }

    /// Whether this PID 1 has something of this home mounted, or of one that is no more: what was
    /// removed, or replaced by a copy of itself, runs for nobody else. One that cannot be looked
    /// into is on its way out, and gone at the next look; until then it counts as ours.
    pub(crate) fn is_at_home(&self, id: &SandboxId, pid_1: &Process) -> bool {
        let dir = self.home.sandbox(id);
        let label = self.whole_label(id).ok().flatten();
        let workspace = label.map(|label| self.workspace_files(&label.made_from.spec.workspace));
        let ours = [
            ("run/sandkeep/state", Some(dir.state())),
            ("run/sandkeep/session", Some(dir.session())),
            ("workspace", workspace),
        ];
        let Ok(root) = root_of(pid_1) else { return true };
        ours.into_iter().any(|(inside, ours)| {
            let Ok(inside) = open_below(&root, inside) else { return false };
            let ours = ours.and_then(|ours| Directory::at(&ours).ok());
            ours.is_some() && Directory::of(&inside).ok() == ours || is_removed(&inside)
        })
    }

    /// What runs has another workspace mounted than the one that lies in the home, or none lies
    /// there. What cannot be looked at says nothing.
    pub(crate) fn has_other_workspace(&self, workspace: &WorkspaceId, pid_1: &Process) -> bool {
        let inside = root_of(pid_1).and_then(|root| open_below(&root, "workspace"));
        let inside = inside.and_then(|inside| Directory::of(&inside));
        let (Ok(inside), true) = (inside, pid_1.is_alive()) else { return false };
        match Directory::at(&self.workspace_files(workspace)) {
            Ok(here) => here != inside,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Nothing is made by a path that leads to another home by now.
    pub(crate) fn check_place(&self, stage: &'static str) -> Result<(), DriverError> {
        if Directory::at(self.home.root()).is_ok_and(|now| now == self.place) {
            return Ok(());
        }
        let message = format!("{} was moved or replaced", self.home.root().display());
        Err(DriverError::new(ErrorKind::Unavailable, stage, "HomeMovedAway", message))
    }
}

/// The directory at a path below `root`, of which no part may be a link: what is inside was made
/// by others. Opens nothing that could block.
fn open_below(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let mut at = root.try_clone()?;
    for part in path.split('/') {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = openat(&at, part, flags, Mode::empty())?;
    }
    Ok(at)
}

/// A directory without a name is held by nothing but its mounts.
fn is_removed(dir: &OwnedFd) -> bool {
    fstat(dir).is_ok_and(|found| found.st_nlink == 0)
}

fn root_of(process: &Process) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, format!("/proc/{}/root", process.pid), flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_the_same_after_a_rename_and_a_link_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        let before = Directory::at(&at("a")).unwrap();
        let root: OwnedFd = std::fs::File::open(scratch.path()).unwrap().into();
        let opened = open_below(&root, "a").unwrap();
        assert_eq!(Directory::of(&opened).unwrap(), before);
        std::fs::rename(at("a"), at("c")).unwrap();
        assert_eq!(Directory::at(&at("c")).unwrap(), before);
        std::os::unix::fs::symlink("c", at("a")).unwrap();
        assert!(Directory::at(&at("a")).is_err());
        assert!(open_below(&root, "a/b").is_err());
        let below = open_below(&root, "c/b").unwrap();
        assert!(!is_removed(&below));
        std::fs::remove_dir(at("c/b")).unwrap();
        assert!(is_removed(&below));
    }
}
