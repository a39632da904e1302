//! Removing a tree: as far as the caller's identity reaches, or as the host's root to the end.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, IFlags, Mode, OFlags, Stat, ioctl_getflags, ioctl_setflags, open, openat,
    statat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::walk::{Fate, Visit, open_below, walk};

/// So many names are told of what stays.
const EXAMPLES: usize = 8;

/// What could not be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    /// Entries that stay, whatever the reason.
    pub(crate) entries: u64,
    /// Of these, how many belong to an id that the caller does not know. None of a sandbox's own
    /// are: its ids are all known to its identity.
    pub(crate) foreign: u64,
    /// Names of a few, with the reason; control characters escaped.
    pub(crate) examples: Vec<String>,
}

/// Removes what is in the directory `top`, which stays. What the caller has no power over is left
/// and counted in `left`.
///
/// # Errors
/// The file system does not work; the tree changed in a way that could lead out of it.
pub(crate) fn clear(top: OwnedFd, left: &mut Left) -> io::Result<()> {
    walk(top, &mut Removal { left, as_root: false }).map(drop)
}

/// Removes `path`, whatever it is and whoever owns what is in it. Only its last part may be in an
/// agent's hand. Absent: done.
///
/// # Errors
/// Something stays (a file system is mounted in it, say): the message names it.
pub(crate) fn remove_as_root(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = match open(parent, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        at => at?,
    };
    let name = CString::new(name.as_bytes())?;
    let mut left = Left::default();
    let mut removal = Removal { left: &mut left, as_root: true };
    let fate = match open_below(at.as_fd(), &name) {
        Ok(top) => {
            walk(top, &mut removal)?;
            removal.directory(at.as_fd(), &name, true)?
        }
        Err(Errno::NOENT) => Fate::Gone,
        Err(Errno::NOTDIR | Errno::LOOP) => removal.leaf(at.as_fd(), &name)?,
        Err(error) => return Err(error.into()),
    };
    match fate {
        Fate::Gone => Ok(()),
        Fate::Stays => Err(io::Error::other(format!("it stays: {}", left.examples.join(", ")))),
    }
}

struct Removal<'a> {
    left: &'a mut Left,
    /// May take away what keeps even the owner from removing it.
    as_root: bool,
}

impl Removal<'_> {
    fn remove(&mut self, at: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> io::Result<Fate> {
        let mut result = unlinkat(at, name, flags);
        if result == Err(Errno::PERM) && self.as_root {
            unlock(at, name);
            result = unlinkat(at, name, flags);
        }
        match result {
            Ok(()) | Err(Errno::NOENT) => Ok(Fate::Gone),
            Err(
                error @ (Errno::PERM
                | Errno::ACCESS
                | Errno::BUSY
                | Errno::XDEV
                | Errno::NOTEMPTY
                | Errno::ISDIR
                | Errno::NOTDIR),
            ) => {
                self.note(at, name, error);
                Ok(Fate::Stays)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn note(&mut self, at: BorrowedFd<'_>, name: &CStr, error: Errno) {
        self.left.entries += 1;
        let foreign = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| unknown(&stat));
        self.left.foreign += u64::from(foreign);
        // What is only full of something else says nothing new.
        let telling = foreign || error != Errno::NOTEMPTY;
        if telling && self.left.examples.len() < EXAMPLES {
            let name = name.to_string_lossy();
            self.left.examples.push(format!("{} ({error})", name.escape_debug()));
        }
    }
}

impl Visit for Removal<'_> {
    fn leaf(&mut self, at: BorrowedFd<'_>, name: &CStr) -> io::Result<Fate> {
        self.remove(at, name, AtFlags::empty())
    }

    fn directory(&mut self, at: BorrowedFd<'_>, name: &CStr, _: bool) -> io::Result<Fate> {
        self.remove(at, name, AtFlags::REMOVEDIR)
    }

    fn closed(&mut self, at: BorrowedFd<'_>, name: &CStr) -> bool {
        if self.as_root {
            unlock(at, name);
        }
        self.as_root
    }
}

/// Whether a file belongs to an id that this process's user namespace does not map, and is none of
/// the marks (0:0 devices) by which an overlay remembers a removal: those are the host's root's.
fn unknown(stat: &Stat) -> bool {
    /// What the kernel shows in place of an id that is not mapped.
    const OVERFLOW: u32 = 65_534;
    let mark =
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0;
    !mark && (stat.st_uid == OVERFLOW || stat.st_gid == OVERFLOW)
}

/// Takes the attributes away that forbid a removal even to root: from the entry and from the
/// directory it is in. No agent can set them. Where that fails the removal says why.
fn unlock(at: BorrowedFd<'_>, name: &CStr) {
    soften(at);
    let Ok(stat) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(file) = openat(at, name, flags, Mode::empty()) {
        soften(file.as_fd());
    }
}

fn soften(file: BorrowedFd<'_>) {
    let hard = IFlags::IMMUTABLE | IFlags::APPEND;
    if let Ok(flags) = ioctl_getflags(file)
        && flags.intersects(hard)
        && let Err(error) = ioctl_setflags(file, flags.difference(hard))
    {
        tracing::debug!(%error, "an attribute stays");
    }
}
