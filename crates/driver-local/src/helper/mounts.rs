//! Mounts as objects: made detached, given their attributes, then put on a directory that is
//! named by a descriptor. No path of the host appears in the sandbox's mount table, and no symbolic
//! link in a tree that an agent owns is ever followed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::home::fd_path;
use crate::sys;

/// A mount that is nowhere yet.
#[derive(Debug)]
pub(crate) struct Tree {
    fd: OwnedFd,
}

impl Tree {
    /// A bind of `path` (a directory or a file), without what is mounted below it.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        Ok(Self { fd: open_tree(CWD, path, flags)? })
    }

    /// A bind of an open directory, without what is mounted below it.
    pub(crate) fn bind_dir(dir: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        Ok(Self { fd: open_tree(dir, "", flags | OpenTreeFlags::AT_EMPTY_PATH)? })
    }

    /// The mount itself; it is gone when the descriptor is closed.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// A fresh tmpfs.
    pub(crate) fn tmpfs(options: &[(&str, &str)], attributes: u64) -> io::Result<Self> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(context.as_fd(), "source", "sandkeep")?;
        for (key, value) in options {
            fsconfig_set_string(context.as_fd(), *key, *value)?;
        }
        fsconfig_create(context.as_fd())?;
        Self::from_context(context.as_fd(), attributes)
    }

    /// `upper` over `lower`, the topmost first. The directories are named by descriptor, so that
    /// paths of the host neither need escaping nor show inside.
    pub(crate) fn overlay(lower: &[&Path], upper: &Path, work: &Path) -> io::Result<Self> {
        let lower = lower.iter().map(|path| open_dir(path)).collect::<io::Result<Vec<_>>>()?;
        let (upper, work) = (open_dir(upper)?, open_dir(work)?);
        let below: Vec<String> = lower.iter().map(|fd| fd_path(fd.as_fd())).collect();
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(context.as_fd(), "source", "sandkeep")?;
        fsconfig_set_string(context.as_fd(), "lowerdir", below.join(":"))?;
        fsconfig_set_string(context.as_fd(), "upperdir", fd_path(upper.as_fd()))?;
        fsconfig_set_string(context.as_fd(), "workdir", fd_path(work.as_fd()))?;
        // Off, so that the lower directory may change between two mounts (a package upgrade). A
        // kernel that does not know one of them does not do it either.
        for key in ["metacopy", "index", "xino", "redirect_dir"] {
            if let Err(error) = fsconfig_set_string(context.as_fd(), key, "off") {
                tracing::debug!(key, %error, "overlay option not taken");
            }
        }
        fsconfig_create(context.as_fd())?;
        Self::from_context(context.as_fd(), 0)
    }

    fn from_context(context: BorrowedFd<'_>, attributes: u64) -> io::Result<Self> {
        let fd = fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let tree = Self { fd };
        tree.set(attributes)?;
        Ok(tree)
    }

    /// Sets attributes (`sys::ATTR_…`).
    pub(crate) fn set(&self, attributes: u64) -> io::Result<()> {
        if attributes == 0 {
            return Ok(());
        }
        sys::mount_setattr(self.fd.as_fd(), attributes, None)
    }

    /// Maps the ids of its files.
    pub(crate) fn map_ids(&self, userns: BorrowedFd<'_>) -> io::Result<()> {
        sys::mount_setattr(self.fd.as_fd(), 0, Some(userns))
    }

    /// Puts it on `target`, a directory (or, for a bound file, a file).
    pub(crate) fn put_on(&self, target: BorrowedFd<'_>) -> io::Result<()> {
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(self.fd.as_fd(), "", target, "", flags)?)
    }
}

/// Opens a directory as a place, for its name only.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}
