//! A new session directory for a sandbox that runs: somebody removed the old one on the host.
//!
//! Nothing can be mounted on a directory that was removed, and what was mounted when the sandbox
//! was made cannot be taken away; so /run/sandkeep is mounted anew as a whole, on top.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::ask::{Answer, Failure, Remount, While};
use super::mounts::open_dir;
use super::own;
use crate::process::kernel_boot_id;
use crate::sys;

pub(super) fn remount(remount: &Remount) -> Answer {
    match try_remount(remount) {
        Ok(answer) => answer,
        Err(failure) => Answer::Failed(failure),
    }
}

fn try_remount(remount: &Remount) -> Result<Answer, Failure> {
    // The driver compared the boot; here only the very process counts.
    let mut birth = remount.birth.clone();
    birth.boot_id = kernel_boot_id().when("the boot id")?;
    let Some(process) = birth.find(&birth.boot_id) else {
        return Ok(Answer::Busy { message: "PID 1 has ended".to_owned() });
    };
    let sources = own::Sources::open(&remount.supervisor, &remount.session_dir, sys::ATTR_RDONLY)?;
    sys::setns(process.pidfd.as_fd(), libc::CLONE_NEWNS).when("its mount namespace")?;
    let at = place().when("/run/sandkeep in it")?;
    own::put_own(at, place, &sources, sys::ATTR_NOSUID | sys::ATTR_NODEV)?;
    Ok(Answer::Remounted)
}

/// /run and /run/sandkeep are mount points, which nothing inside can replace; a link is refused
/// all the same.
fn place() -> io::Result<OwnedFd> {
    let root = open_dir(Path::new("/"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(root, "run/sandkeep", flags, Mode::empty(), resolve)?)
}
