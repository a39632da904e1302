//! A new session directory for a sandbox that runs: somebody removed the old one on the host.

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::ask::{Answer, Failure, Remount, While};
use super::mounts::{Tree, open_dir};
use super::oci;
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
    let tree = Tree::bind(&remount.session_dir).when("the session directory")?;
    tree.set(sys::ATTR_RDONLY | sys::ATTR_NOSUID | sys::ATTR_NODEV | sys::ATTR_NOEXEC)
        .when("the session directory could not be restricted")?;
    // setns asks for a mount namespace that is not shared with anybody: this process has one
    // thread, and a namespace of its own from here on.
    sys::setns(process.pidfd.as_fd(), libc::CLONE_NEWNS).when("its mount namespace")?;
    let root = open_dir(std::path::Path::new("/")).when("its root")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let target = openat2(root, &oci::SESSION_DIR[1..], flags, Mode::empty(), resolve)
        .when("its session directory")?;
    tree.put_on(target.as_fd()).when("the session directory could not be mounted")?;
    Ok(Answer::Remounted)
}
