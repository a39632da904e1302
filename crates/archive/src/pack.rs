//! A tree, or one file, as a tar stream.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fgetxattr, flistxattr, fstat, openat, readlinkat, statat,
};
use rustix::io::Errno;

use crate::error::{ArchiveError, While};
use crate::header;
use crate::place::is_plain_attribute;
use crate::sparse::{self, BLOCK, Run};
use crate::tape::{Entry, Kind};
use crate::walk::{Found, Walk, kind, name_of, reading};

const CHUNK_BYTES: usize = 128 * 1024;

/// What was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packed {
    /// Files, directories, links: all but what was left out.
    pub entries: u64,
    /// Regular files.
    pub files: u64,
    /// Bytes of files that were read; holes are not counted.
    pub bytes: u64,
    /// Sockets and devices, which are left out.
    pub left_out: u64,
    /// Files that became shorter while they were read; the rest of each is zeros.
    pub shortened: u64,
}

/// Packs what has the name `from` in `directory` as `to`; a directory with all that is in it.
///
/// `from` is one name, not followed when it is a symlink; `.` is the directory itself. `to` is a
/// path in the archive; empty: the content of the directory without one in front.
///
/// # Errors
/// `Stream` when `out` fails; `Disk` names the file that could not be read.
pub fn pack(
    directory: impl AsFd,
    from: &OsStr,
    to: &[u8],
    out: &mut impl Write,
) -> Result<Packed, ArchiveError> {
    let directory = directory.as_fd().try_clone_to_owned().when(|| reading(b""))?;
    let mut packer = Packer {
        out,
        to: to.to_vec(),
        links: HashMap::new(),
        counts: Packed::default(),
        buffer: vec![0; CHUNK_BYTES],
    };
    let about = statat(&directory, from, AtFlags::SYMLINK_NOFOLLOW)
        .when(|| reading(from.as_encoded_bytes()))?;
    if kind(&about) == FileType::Directory {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = openat(&directory, from, flags, Mode::empty());
        packer.tree(root.when(|| reading(from.as_encoded_bytes()))?)?;
    } else {
        packer.one(&directory, from, Vec::new(), &about)?;
    }
    packer.end()
}

struct Packer<'a, W> {
    out: &'a mut W,
    to: Vec<u8>,
    /// Path of the first name of each file that has more than one.
    links: HashMap<(u64, u64), Vec<u8>>,
    counts: Packed,
    buffer: Vec<u8>,
}

impl<W: Write> Packer<'_, W> {
    fn tree(&mut self, root: OwnedFd) -> Result<(), ArchiveError> {
        let about = fstat(&root).when(|| reading(b""))?;
        self.directory(&root, &[], &about)?;
        let mut walk = Walk::new(root)?;
        while let Some(found) = walk.next()? {
            if kind(&found.about) == FileType::Directory {
                match walk.descend(&found) {
                    Ok(()) => {}
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(error),
                }
                let about = fstat(walk.current()?).when(|| reading(&found.path))?;
                let directory = walk.current()?.as_fd().try_clone_to_owned();
                self.directory(&directory.when(|| reading(&found.path))?, &found.path, &about)?;
            } else {
                let Found { path, about } = found;
                let name = name_of(&path).to_owned();
                let parent = walk.current()?;
                self.one(parent, &name, path, &about)?;
            }
        }
        Ok(())
    }

    fn directory(&mut self, it: &OwnedFd, path: &[u8], about: &Stat) -> Result<(), ArchiveError> {
        let mut entry = self.entry(Kind::Directory, path, about);
        entry.path = if entry.path.is_empty() { b"./".to_vec() } else { entry.path };
        if !entry.path.ends_with(b"/") {
            entry.path.push(b'/');
        }
        entry.attributes = attributes(it);
        self.header(&entry, None)
    }

    /// Anything but a directory.
    fn one(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: Vec<u8>,
        about: &Stat,
    ) -> Result<(), ArchiveError> {
        match kind(about) {
            FileType::RegularFile => self.file(parent, name, &path),
            FileType::Symlink => match readlinkat(parent, name, Vec::new()) {
                Ok(target) => {
                    let kind = Kind::Symlink(target.into_bytes());
                    self.linked(kind, path, about)
                }
                // It was exchanged for something else, or went away.
                Err(Errno::NOENT | Errno::INVAL) => Ok(()),
                Err(error) => Err(error).when(|| reading(&path)),
            },
            FileType::Fifo => self.linked(Kind::Fifo, path, about),
            _ => {
                self.counts.left_out += 1;
                Ok(())
            }
        }
    }

    /// What has no bytes, as itself or as a link to what was packed before.
    fn linked(&mut self, kind: Kind, path: Vec<u8>, about: &Stat) -> Result<(), ArchiveError> {
        let mut entry = self.entry(kind, &path, about);
        if let Some(first) = self.first_name(&entry.path, about) {
            entry.kind = Kind::HardLink(first);
        }
        self.header(&entry, None)
    }

    fn file(&mut self, parent: &OwnedFd, name: &OsStr, path: &[u8]) -> Result<(), ArchiveError> {
        // Whatever it is by now: nothing waits for a FIFO's other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(parent, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error).when(|| reading(path)),
        };
        let about = fstat(&file).when(|| reading(path))?;
        if kind(&about) != FileType::RegularFile {
            self.counts.left_out += 1;
            return Ok(());
        }
        let mut entry = self.entry(Kind::File, path, &about);
        if let Some(first) = self.first_name(&entry.path, &about) {
            entry.kind = Kind::HardLink(first);
            entry.bytes = 0;
            return self.header(&entry, None);
        }
        entry.attributes = attributes(&file);
        self.counts.files += 1;
        self.content(file, entry)
    }

    fn content(&mut self, mut file: File, entry: Entry) -> Result<(), ArchiveError> {
        let runs = sparse::runs(&file, entry.bytes).when(|| reading(&entry.path))?;
        let Some(runs) = runs else {
            self.header(&entry, None)?;
            self.copy(&mut file, &entry, Run { offset: 0, bytes: entry.bytes })?;
            return self.pad(entry.bytes);
        };
        let map = sparse::encode(&runs);
        let stored = map.len() as u64 + runs.iter().map(|run| run.bytes).sum::<u64>();
        self.header(&entry, Some(stored))?;
        self.out.write_all(&map).map_err(ArchiveError::Stream)?;
        for run in runs {
            file.seek(SeekFrom::Start(run.offset)).when(|| reading(&entry.path))?;
            self.copy(&mut file, &entry, run)?;
        }
        self.pad(stored)
    }

    /// Exactly as many bytes as the header promised, whatever becomes of the file meanwhile.
    fn copy(&mut self, file: &mut File, entry: &Entry, run: Run) -> Result<(), ArchiveError> {
        let mut left = run.bytes;
        let mut ended = false;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
            let read = match ended {
                false => file.read(&mut self.buffer[..most]).when(|| reading(&entry.path))?,
                true => 0,
            };
            let read = if read == 0 {
                if !std::mem::replace(&mut ended, true) {
                    self.counts.shortened += 1;
                }
                self.buffer[..most].fill(0);
                most
            } else {
                self.counts.bytes += read as u64;
                read
            };
            self.out.write_all(&self.buffer[..read]).map_err(ArchiveError::Stream)?;
            left -= read as u64;
        }
        Ok(())
    }

    fn pad(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let over = usize::try_from(bytes % BLOCK as u64).unwrap_or(0);
        let padding = [0; BLOCK];
        self.out.write_all(&padding[..(BLOCK - over) % BLOCK]).map_err(ArchiveError::Stream)
    }

    fn header(&mut self, entry: &Entry, stored: Option<u64>) -> Result<(), ArchiveError> {
        self.counts.entries += 1;
        let blocks = header::encode(entry, stored)?;
        self.out.write_all(&blocks).map_err(ArchiveError::Stream)
    }

    /// Two blocks of zeros.
    fn end(self) -> Result<Packed, ArchiveError> {
        self.out.write_all(&[0; 2 * BLOCK]).map_err(ArchiveError::Stream)?;
        self.out.flush().map_err(ArchiveError::Stream)?;
        Ok(self.counts)
    }

    fn entry(&self, kind: Kind, path: &[u8], about: &Stat) -> Entry {
        let path = match (self.to.is_empty(), path.is_empty()) {
            (true, _) => path.to_vec(),
            (false, true) => self.to.clone(),
            (false, false) => [self.to.as_slice(), b"/", path].concat(),
        };
        let bytes = match kind {
            Kind::File => u64::try_from(about.st_size).unwrap_or(0),
            _ => 0,
        };
        Entry {
            path,
            kind,
            mode: about.st_mode & 0o7777,
            uid: about.st_uid,
            gid: about.st_gid,
            mtime: (about.st_mtime, u32::try_from(about.st_mtime_nsec).unwrap_or(0)),
            bytes,
            runs: None,
            attributes: Vec::new(),
        }
    }

    /// The name that this very file was packed under before.
    fn first_name(&mut self, path: &[u8], about: &Stat) -> Option<Vec<u8>> {
        if about.st_nlink < 2 {
            return None;
        }
        let first = self.links.entry((about.st_dev, about.st_ino)).or_insert_with(|| path.to_vec());
        (first != path).then(|| first.clone())
    }
}

fn is_gone(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Disk { source, .. }
        if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory))
}

/// `user.` attributes; a file system without them has none.
fn attributes(file: &impl AsFd) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = Vec::new();
    let Ok(length) = flistxattr(file, &mut [0_u8; 0][..]) else {
        return Vec::new();
    };
    names.resize(length, 0);
    let Ok(length) = flistxattr(file, &mut names[..]) else {
        return Vec::new();
    };
    names.truncate(length);
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| is_plain_attribute(name)) {
        let mut value = vec![0; 64 * 1024];
        if let Ok(length) = fgetxattr(file, name, &mut value[..]) {
            value.truncate(length);
            found.push((name.to_vec(), value));
        }
    }
    found.sort();
    found
}
