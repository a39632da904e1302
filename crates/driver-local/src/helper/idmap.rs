//! A user namespace that exists only to carry an id mapping for mounts.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{WaitOptions, waitpid};

use crate::sys;

/// A user namespace in which 0 and the `count` − 1 ids after it are `base` and so on outside.
pub(crate) fn user_namespace(base: u32, count: u32) -> io::Result<OwnedFd> {
    user_namespace_of(0, base, count)
}

/// The same, owned by a user of the host.
///
/// The kernel counts some things for each user (inotify instances, for one), and counts what is
/// taken in a namespace for its owner as well: with root as owner, one sandbox could take from all
/// programs of the host's root, and from all other sandboxes, what they need.
pub(crate) fn user_namespace_of(owner: u32, base: u32, count: u32) -> io::Result<OwnedFd> {
    let (child, hold) = sys::fork_into_user_namespace(owner)?;
    let map = format!("0 {base} {count}");
    let proc = format!("/proc/{}", child.as_raw_nonzero());
    let made = fs::write(format!("{proc}/uid_map"), &map)
        .and_then(|()| fs::write(format!("{proc}/gid_map"), &map))
        .and_then(|()| File::open(format!("{proc}/ns/user")));
    drop(hold);
    waitpid(Some(child), WaitOptions::empty())?;
    made.map(OwnedFd::from)
}
