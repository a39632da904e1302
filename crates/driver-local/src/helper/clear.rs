//! Removing what an agent owned, with the agent's own identity: root of its user namespace, which
//! has power over the sandbox's ids and over nobody else's.
//!
//! Each tree is opened while this process is still the host's root, as a mount of its own that is
//! nowhere in the file system: there is no way up and out of it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::ask::{Answer, Clear, Failure, While};
use super::idmap;
use super::mounts::Tree;
use crate::sys;
use crate::tree::{self, Left};

pub(super) fn clear(clear: &Clear) -> Answer {
    match try_clear(clear) {
        Ok(left) => Answer::Cleared(left),
        Err(failure) => Answer::Failed(failure),
    }
}

fn try_clear(clear: &Clear) -> Result<Left, Failure> {
    let mut trees = Vec::new();
    for path in &clear.trees {
        trees.extend(alone(path).when(path.display())?.map(|tree| (path, tree)));
    }
    become_agent(clear.uid_base, clear.uid_count).when("the agent's identity")?;
    let mut left = Left::default();
    for (path, tree) in trees {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(tree.as_fd(), ".", flags, Mode::empty(), beneath) {
            Ok(top) => tree::clear(top, &mut left).when(path.display())?,
            // Removed meanwhile by another helper for the same sandbox.
            Err(Errno::NOENT) => {}
            // Somebody else's; counted by whoever finishes it.
            Err(Errno::ACCESS | Errno::PERM) => left.entries += 1,
            Err(error) => return Err(error).when(path.display()),
        }
    }
    Ok(left)
}

/// The tree at `path` as a mount of its own. `None`: there is no directory of that name.
fn alone(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(dir) => match Tree::bind_dir(dir.as_fd()) {
            Ok(tree) => {
                tree.set(sys::ATTR_NOSUID | sys::ATTR_NODEV | sys::ATTR_NOEXEC)?;
                Ok(Some(tree.into_fd()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        },
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Irrevocable: this process has no way back to being the host's root.
fn become_agent(base: u32, count: u32) -> io::Result<()> {
    let userns = idmap::user_namespace(base, count)?;
    sys::setns(userns.as_fd(), libc::CLONE_NEWUSER)?;
    set_thread_groups(&[])?;
    let (uid, gid) = (rustix::fs::Uid::ROOT, rustix::fs::Gid::ROOT);
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}
