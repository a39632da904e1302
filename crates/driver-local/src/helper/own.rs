//! /run/sandkeep: Sandkeep's own side of a sandbox. A read-only mount of its own that belongs to
//! the host's root, so that root inside can neither change it nor move it away and put something
//! else in its place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::ask::{Failure, While};
use super::mounts::Tree;
use super::root::{Obstacle, Root};
use crate::sys;

/// What is shown in it.
#[derive(Debug)]
pub(super) struct Sources {
    supervisor: Tree,
    session: Tree,
    closed: u64,
}

impl Sources {
    /// `closed`: the attribute that keeps it from being written, or 0 where a test wants it open.
    pub(super) fn open(
        supervisor: &Path,
        session_dir: &Path,
        closed: u64,
    ) -> Result<Self, Failure> {
        let read_only = closed | sys::ATTR_NOSUID | sys::ATTR_NODEV;
        let open = |path: &Path, attributes| {
            let tree = Tree::bind(path)?;
            tree.set(attributes)?;
            Ok::<_, io::Error>(tree)
        };
        let supervisor = open(supervisor, read_only).when(supervisor.display())?;
        let session =
            open(session_dir, read_only | sys::ATTR_NOEXEC).when(session_dir.display())?;
        Ok(Self { supervisor, session, closed })
    }
}

/// Mounts it on `at`; `again` opens the same place anew, for what is mounted there by then.
pub(super) fn put_own(
    at: OwnedFd,
    again: impl Fn() -> io::Result<OwnedFd>,
    sources: &Sources,
    attributes: u64,
) -> Result<(), Failure> {
    let failed = "/run/sandkeep could not be filled";
    let tree = Tree::tmpfs(&[("mode", "755"), ("size", "64k")], attributes).when(failed)?;
    tree.put_on(at.as_fd()).when("/run/sandkeep could not be mounted")?;
    // The host's root is nobody inside.
    let own = Root::new(again().when(failed)?, 0);
    for name in ["bin", "session", "state"] {
        own.ensure_dir(name, 0o755).when(failed)?;
    }
    let supervisor = own.file("bin/sandkeep-supervisor").when(failed)?;
    sources.supervisor.put_on(supervisor.as_fd()).when("the supervisor could not be shown")?;
    let session = own.dir("session", Obstacle::Refuse).when(failed)?;
    sources.session.put_on(session.as_fd()).when("the session directory could not be mounted")?;
    tree.set(sources.closed).when("/run/sandkeep could not be closed")
}
