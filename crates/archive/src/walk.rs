//! A tree walked entry by entry, in the order of names, below a directory that is never left.
//!
//! Every step opens by the name alone in a held directory, and follows no symlink; whatever is
//! exchanged meanwhile is another entry of the same directory, or an error. Descriptors are held for
//! the lowest levels only, so a tree may be deeper than a process may have files open.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::Errno;

use crate::error::{ArchiveError, While, shown};

/// As long as a path may be for the kernel, without its end.
const LONGEST_PATH: usize = 4095;
const HELD_LEVELS: usize = 64;

/// One thing that was found.
pub(crate) struct Found {
    /// From the walk's start; empty for the start itself.
    pub(crate) path: Vec<u8>,
    pub(crate) about: Stat,
}

/// A directory whose names are being gone through.
struct Level {
    /// Held, or opened again when the walk comes back.
    directory: Option<OwnedFd>,
    identity: (u64, u64),
    path: Vec<u8>,
    /// Last name first.
    names: Vec<CString>,
}

/// Depth first: a directory comes before what is in it.
pub(crate) struct Walk {
    root: OwnedFd,
    levels: Vec<Level>,
}

impl Walk {
    /// `root` is a directory.
    pub(crate) fn new(root: OwnedFd) -> Result<Self, ArchiveError> {
        let first = Level::open(root.try_clone().when(|| reading(b""))?, Vec::new())?;
        Ok(Self { root, levels: vec![first] })
    }

    /// The next entry; what went away before it was looked at is left out. `None`: the end.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, ArchiveError> {
        loop {
            let Some(level) = self.levels.last_mut() else {
                return Ok(None);
            };
            let Some(name) = level.names.pop() else {
                self.levels.pop();
                continue;
            };
            let path = joined(&level.path, name.as_bytes());
            if path.len() > LONGEST_PATH {
                let message = format!("{} is longer than 4095 bytes", shown(&path[..200]));
                return Err(ArchiveError::damaged(message));
            }
            let directory = self.current()?;
            match statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(about) => return Ok(Some(Found { path, about })),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error).when(|| reading(&path)),
            }
        }
    }

    /// Goes down into the directory that was found last.
    pub(crate) fn descend(&mut self, found: &Found) -> Result<(), ArchiveError> {
        let name = name_of(&found.path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(self.current()?, name, flags, Mode::empty());
        let level = Level::open(opened.when(|| reading(&found.path))?, found.path.clone())?;
        self.levels.push(level);
        if let Some(far) = self.levels.len().checked_sub(HELD_LEVELS + 1) {
            self.levels[far].directory = None;
        }
        Ok(())
    }

    /// The directory that the entry found last is in.
    pub(crate) fn current(&mut self) -> Result<&OwnedFd, ArchiveError> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(&self.root);
        };
        if level.directory.is_none() {
            let again = open_below(&self.root, &level.path).when(|| reading(&level.path))?;
            let about = fstat(&again).when(|| reading(&level.path))?;
            if (about.st_dev, about.st_ino) != level.identity {
                let message = format!("{:?} was exchanged while it was read", shown(&level.path));
                return Err(ArchiveError::damaged(message));
            }
            level.directory = Some(again);
        }
        Ok(level.directory.as_ref().unwrap_or(&self.root))
    }
}

impl Level {
    fn open(directory: OwnedFd, path: Vec<u8>) -> Result<Self, ArchiveError> {
        let about = fstat(&directory).when(|| reading(&path))?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory).when(|| reading(&path))? {
            let entry = entry.when(|| reading(&path))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        let identity = (about.st_dev, about.st_ino);
        Ok(Self { directory: Some(directory), identity, path, names })
    }
}

/// Opens a directory below `root` by a path without symlinks.
pub(crate) fn open_below(root: impl AsFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    openat2(
        root,
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )
}

pub(crate) fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

pub(crate) fn name_of(path: &[u8]) -> &OsStr {
    OsStr::from_bytes(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

pub(crate) fn reading(path: &[u8]) -> String {
    if path.is_empty() {
        return "the directory could not be read".to_owned();
    }
    format!("{:?} could not be read", shown(path))
}

fn joined(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() }
}
