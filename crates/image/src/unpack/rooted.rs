//! Paths below one held directory. Symlinks are followed as if that directory were `/`.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat2, statat, unlinkat};
use rustix::io::Errno;

use super::tape::damaged;
use crate::error::{ImageError, While};

const DOING: &str = "a layer could not be unpacked";

/// A path taken apart: no empty part, no `.`, no `..`.
#[derive(Debug)]
pub(super) struct Parts<'a>(Vec<&'a OsStr>);

impl<'a> Parts<'a> {
    /// Absolute paths mean the root, as every reader of layers takes them.
    pub(super) fn of(path: &'a [u8]) -> Result<Self, ImageError> {
        if path.contains(&0) || path.len() > 4095 {
            return Err(damaged("a path is longer than 4095 bytes or has a zero byte"));
        }
        let mut parts = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(damaged("a path leads out of the image by \"..\"")),
                part if part.len() > 255 => return Err(damaged("a name is longer than 255 bytes")),
                part => parts.push(OsStr::from_bytes(part)),
            }
        }
        Ok(Self(parts))
    }

    /// The directory that a name is in, and the name. `None`: the root itself.
    pub(super) fn split(&self) -> Option<(&[&'a OsStr], &'a OsStr)> {
        let (name, parents) = self.0.split_last()?;
        Some((parents, name))
    }
}

/// The directory that nothing leads out of.
#[derive(Debug)]
pub(super) struct Rooted {
    root: OwnedFd,
    /// The parent of the last entry: entries of a directory follow each other.
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl Rooted {
    pub(super) const fn new(root: OwnedFd) -> Self {
        Self { root, last: None }
    }

    pub(super) fn root(&self) -> impl AsFd + '_ {
        self.root.as_fd()
    }

    /// Opens the directory that an entry lies in, making what is missing (owner: whoever unpacks).
    pub(super) fn parent(&mut self, parents: &[&OsStr]) -> Result<&OwnedFd, ImageError> {
        let path = joined(parents);
        if self.last.as_ref().is_none_or(|(last, _)| *last != path) {
            let directory = match self.open_directory(&path) {
                Err(Errno::NOENT) => {
                    self.make_parents(parents)?;
                    self.open_directory(&path)
                }
                result => result,
            };
            let directory = match directory {
                Err(Errno::NOTDIR) => return Err(damaged("a file is used as a directory")),
                Err(Errno::LOOP) => return Err(damaged("symlinks lead round in a circle")),
                result => result.when(DOING)?,
            };
            self.last = Some((path, directory));
        }
        match &self.last {
            Some((_, directory)) => Ok(directory),
            None => Err(damaged("its parent directory is gone")),
        }
    }

    /// Whatever was held of earlier entries may be another directory now.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path: &[u8] = if path.is_empty() { b"." } else { path };
        openat2(
            &self.root,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV,
        )
    }

    fn make_parents(&self, parents: &[&OsStr]) -> Result<(), ImageError> {
        for depth in 1..=parents.len() {
            let (above, name) = (joined(&parents[..depth - 1]), parents[depth - 1]);
            let above = self.open_directory(&above).when(DOING)?;
            match mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error).when(DOING),
            }
        }
        Ok(())
    }
}

/// Removes what has the name, a whole tree too; it is the unpacker's own, and nobody else's hand is
/// on it.
pub(super) fn clear(parent: &OwnedFd, name: &OsStr) -> Result<(), ImageError> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => {
            let path = Path::new("/proc/self/fd")
                .join(std::os::fd::AsRawFd::as_raw_fd(parent).to_string())
                .join(name);
            std::fs::remove_dir_all(path).when(DOING)
        }
        Err(error) => Err(error).when(DOING),
    }
}

/// Whether the name is a directory (a symlink to one is not).
pub(super) fn is_directory(parent: &OwnedFd, name: &OsStr) -> bool {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|about| {
        rustix::fs::FileType::from_raw_mode(about.st_mode) == rustix::fs::FileType::Directory
    })
}

/// A name that the kernel takes; zero bytes were refused before.
pub(super) fn c_string(text: &[u8]) -> Result<CString, ImageError> {
    CString::new(text).map_err(|_| damaged("a link's target has a zero byte"))
}

fn joined(parts: &[&OsStr]) -> Vec<u8> {
    parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>().join(&b'/')
}
