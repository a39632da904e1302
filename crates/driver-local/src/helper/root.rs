//! The sandbox's `/` while it is put together: a tree that an agent owned and may have turned into
//! anything. Every step goes from one directory descriptor to the next and follows no link.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, fchmod, mkdirat, openat, openat2,
    unlinkat,
};
use rustix::io::Errno;

/// A root directory being put together.
#[derive(Debug)]
pub(crate) struct Root {
    dir: OwnedFd,
    owner: u32,
}

/// What to do with something that stands where a directory has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Remove it: the sandbox has to come up whatever was done to its tree.
    Remove,
    /// Fail.
    Refuse,
}

impl Root {
    /// `dir` is the root directory as mounted; `owner` the sandbox's root user on the host.
    pub(crate) fn new(dir: OwnedFd, owner: u32) -> Self {
        Self { dir, owner }
    }

    /// The directory at `path` (no leading slash), made with what is missing above it.
    pub(crate) fn dir(&self, path: &str, obstacle: Obstacle) -> io::Result<OwnedFd> {
        let mut here = openat(&self.dir, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            here = self.step(here.as_fd(), part, obstacle)?;
        }
        Ok(here)
    }

    fn step(&self, at: BorrowedFd<'_>, name: &str, obstacle: Obstacle) -> io::Result<OwnedFd> {
        let made = self.make_dir(at, name, 0o755);
        match (made, open_step(at, name)) {
            (_, Ok(dir)) => Ok(dir),
            (Err(error), Err(_)) if error != Errno::EXIST => Err(error.into()),
            (_, Err(Errno::NOTDIR | Errno::LOOP)) if obstacle == Obstacle::Remove => {
                unlinkat(at, name, AtFlags::empty())?;
                self.make_dir(at, name, 0o755)?;
                Ok(open_step(at, name)?)
            }
            (_, Err(error)) => Err(error.into()),
        }
    }

    /// Makes a directory of the sandbox's; `EXIST` when something is there.
    pub(crate) fn make_dir(&self, at: BorrowedFd<'_>, name: &str, mode: u32) -> Result<(), Errno> {
        mkdirat(at, name, Mode::from_raw_mode(mode))?;
        self.own(at, name)?;
        // `mkdirat` takes the umask away, and sticky bits with it on some file systems.
        if mode & 0o022 != 0 {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            fchmod(openat(at, name, flags, Mode::empty())?, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    fn own(&self, at: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        let (uid, gid) = (Uid::from_raw(self.owner), Gid::from_raw(self.owner));
        chownat(at, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The same as [`Root::dir`] for a directory that only has to be there.
    pub(crate) fn ensure_dir(&self, path: &str, mode: u32) -> io::Result<()> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.dir(parent, Obstacle::Remove)?;
        match self.make_dir(parent.as_fd(), name, mode) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A file to mount another one on, made empty when it is missing.
    pub(crate) fn file(&self, path: &str) -> io::Result<OwnedFd> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.dir(parent, Obstacle::Refuse)?;
        let make = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match openat(parent.as_fd(), name, make, Mode::from_raw_mode(0o644)) {
            Ok(_) => self.own(parent.as_fd(), name)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(openat2(parent.as_fd(), name, flags, Mode::empty(), resolve)?)
    }
}

fn open_step(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(at, name, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::super::mounts::open_dir;
    use super::*;

    fn owner() -> u32 {
        rustix::process::getuid().as_raw()
    }

    #[test]
    fn a_link_planted_where_a_directory_belongs_is_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let tree = tempfile::tempdir().unwrap();
        symlink(outside.path(), tree.path().join("run")).unwrap();
        let root = Root::new(open_dir(tree.path()).unwrap(), owner());

        assert!(root.dir("run/sandkeep", Obstacle::Refuse).is_err());
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());

        root.dir("run/sandkeep", Obstacle::Remove).unwrap();
        assert!(tree.path().join("run").symlink_metadata().unwrap().is_dir());
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
    }

    #[test]
    fn dots_do_not_lead_out() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::new(open_dir(tree.path()).unwrap(), owner());
        assert!(root.dir("a/../../x", Obstacle::Remove).is_err());
    }

    #[test]
    fn a_sticky_directory_keeps_its_mode_whatever_the_umask() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::new(open_dir(tree.path()).unwrap(), owner());
        root.ensure_dir("var/tmp", 0o1777).unwrap();
        let mode = fs::metadata(tree.path().join("var/tmp")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o1777);
    }
}
