//! Paths below one held directory; symlinks on the way are refused, or followed as if that directory
//! were `/`.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat2, statat, unlinkat};
use rustix::io::Errno;

use crate::error::{ArchiveError, While, shown};
use crate::place::{Existing, ParentLinks};

fn unpacking() -> String {
    "the archive could not be unpacked".to_owned()
}

/// A path taken apart: no empty part, no `.`, no `..`.
#[derive(Debug)]
pub(crate) struct Parts<'a>(Vec<&'a OsStr>);

impl<'a> Parts<'a> {
    /// Absolute paths mean the root, as every reader of layers takes them.
    pub(crate) fn of(path: &'a [u8]) -> Result<Self, ArchiveError> {
        if path.contains(&0) || path.len() > 4095 {
            return Err(ArchiveError::damaged(
                "a path is longer than 4095 bytes or has a zero byte",
            ));
        }
        let mut parts = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    return Err(ArchiveError::damaged("a path leads out of the image by \"..\""));
                }
                part if part.len() > 255 => {
                    return Err(ArchiveError::damaged("a name is longer than 255 bytes"));
                }
                part => parts.push(OsStr::from_bytes(part)),
            }
        }
        Ok(Self(parts))
    }

    /// The one way to write it.
    pub(crate) fn path(&self) -> Vec<u8> {
        joined(&self.0)
    }

    /// The directory that a name is in, and the name. `None`: the root itself.
    pub(crate) fn split(&self) -> Option<(&[&'a OsStr], &'a OsStr)> {
        let (name, parents) = self.0.split_last()?;
        Some((parents, name))
    }
}

/// The directory that nothing leads out of.
#[derive(Debug)]
pub(crate) struct Rooted {
    root: OwnedFd,
    links: ParentLinks,
    /// The parent of the last entry: entries of a directory follow each other.
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl Rooted {
    pub(crate) const fn new(root: OwnedFd, links: ParentLinks) -> Self {
        Self { root, links, last: None }
    }

    pub(crate) fn root(&self) -> impl AsFd + '_ {
        self.root.as_fd()
    }

    /// Opens the directory that an entry lies in, making what is missing (owner: whoever unpacks).
    pub(crate) fn parent(&mut self, parents: &[&OsStr]) -> Result<&OwnedFd, ArchiveError> {
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
                Err(Errno::NOTDIR) => {
                    return Err(ArchiveError::damaged("a file is used as a directory"));
                }
                Err(Errno::LOOP) => {
                    let path = shown(&path);
                    let message =
                        format!("{path:?} is reached by a symlink, which is not followed");
                    return Err(ArchiveError::damaged(message));
                }
                result => result.when(unpacking)?,
            };
            self.last = Some((path, directory));
        }
        match &self.last {
            Some((_, directory)) => Ok(directory),
            None => Err(ArchiveError::damaged("its parent directory is gone")),
        }
    }

    /// Whatever was held of earlier entries may be another directory now.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// The directory that an entry lies in, where its name is free now.
    pub(crate) fn place_for(
        &mut self,
        parents: &[&OsStr],
        name: &OsStr,
        existing: Existing,
    ) -> Result<&OwnedFd, ArchiveError> {
        let parent = self.parent(parents)?;
        clear(parent, name, existing)?;
        Ok(parent)
    }

    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path: &[u8] = if path.is_empty() { b"." } else { path };
        openat2(
            &self.root,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            match self.links {
                ParentLinks::BelowRoot => ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
                ParentLinks::Refused => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            },
        )
    }

    fn make_parents(&self, parents: &[&OsStr]) -> Result<(), ArchiveError> {
        for depth in 1..=parents.len() {
            let (above, name) = (joined(&parents[..depth - 1]), parents[depth - 1]);
            let above = self.open_directory(&above).when(unpacking)?;
            match mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error).when(unpacking),
            }
        }
        Ok(())
    }
}

/// Makes the name free: removes a file, and a whole tree only where `existing` says so.
pub(crate) fn clear(
    parent: &OwnedFd,
    name: &OsStr,
    existing: Existing,
) -> Result<(), ArchiveError> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => match existing {
            Existing::Replaced => {
                let path = Path::new("/proc/self/fd").join(parent.as_raw_fd().to_string());
                std::fs::remove_dir_all(path.join(name)).when(unpacking)
            }
            Existing::TreesKept => {
                let name = shown(name.as_bytes());
                let message = format!("{name:?} is a directory here, and something else there");
                Err(ArchiveError::damaged(message))
            }
        },
        Err(error) => Err(error).when(unpacking),
    }
}

/// Whether the name is a directory (a symlink to one is not).
pub(crate) fn is_directory(parent: &OwnedFd, name: &OsStr) -> bool {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|about| {
        rustix::fs::FileType::from_raw_mode(about.st_mode) == rustix::fs::FileType::Directory
    })
}

/// A name that the kernel takes; zero bytes were refused before.
pub(crate) fn c_string(text: &[u8]) -> Result<CString, ArchiveError> {
    CString::new(text).map_err(|_| ArchiveError::damaged("a link's target has a zero byte"))
}

fn joined(parts: &[&OsStr]) -> Vec<u8> {
    parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>().join(&b'/')
}
