//! Entries put in their place below the root.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, chownat, fchmod, fchown,
    fsetxattr, futimens, linkat, mkdirat, mknodat, openat, symlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::rooted::{Parts, Rooted, c_string, clear, is_directory};
use super::stream::unreadable;
use super::tape::{Entry, Kind, Tape, damaged};
use super::{Owners, Whiteouts};
use crate::error::{ImageError, While};
use crate::room::Room;

const DOING: &str = "a layer could not be unpacked";
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const CHUNK_BYTES: usize = 128 * 1024;

/// Puts entries below one root.
#[derive(Debug)]
pub(super) struct Placer {
    rooted: Rooted,
    owners: Owners,
    whiteouts: Whiteouts,
    /// Directories whose time is set at the end: what is put into them later changes it.
    times: Vec<(Vec<u8>, i64)>,
    room: Room,
    buffer: Vec<u8>,
}

impl Placer {
    pub(super) fn new(root: OwnedFd, owners: Owners, whiteouts: Whiteouts) -> Self {
        Self {
            rooted: Rooted::new(root),
            owners,
            whiteouts,
            times: Vec::new(),
            room: Room::default(),
            buffer: vec![0; CHUNK_BYTES],
        }
    }

    /// Makes what the entry says; its bytes are read from the tape.
    pub(super) fn place<R: Read>(
        &mut self,
        entry: &Entry,
        tape: &mut Tape<R>,
    ) -> Result<(), ImageError> {
        let parts = Parts::of(&entry.path)?;
        let Some((parents, name)) = parts.split() else {
            return self.dress_root(entry);
        };
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT) {
            return self.white_out(parents, name, OsStr::from_bytes(hidden));
        }
        match &entry.kind {
            Kind::File => self.file(entry, parents, name, tape),
            Kind::Directory => self.directory(entry, parents, name),
            Kind::Symlink(target) => self.symlink(entry, parents, name, target),
            Kind::HardLink(target) => self.hard_link(parents, name, target),
            Kind::Fifo => self.fifo(entry, parents, name),
            Kind::Device => Ok(()),
        }
    }

    /// Sets what had to wait; gives the bytes of all files.
    pub(super) fn finish(mut self) -> Result<u64, ImageError> {
        self.rooted.forget();
        for (path, mtime) in std::mem::take(&mut self.times) {
            let parts = Parts::of(&path)?;
            let Some((parents, name)) = parts.split() else { continue };
            let parent = self.rooted.parent(parents)?;
            match utimensat(parent, name, &times(mtime), AtFlags::SYMLINK_NOFOLLOW) {
                // A later entry took its place.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error).when(DOING),
            }
        }
        Ok(self.room.written())
    }

    fn file<R: Read>(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
        tape: &mut Tape<R>,
    ) -> Result<(), ImageError> {
        let parent = self.rooted.parent(parents)?;
        clear(parent, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(parent, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))
            .when(DOING)?;
        let mut file = File::from(file);
        self.fill(&mut file, entry.bytes, tape)?;
        self.dress(&file, entry, entry.mode & 0o1777)?;
        futimens(&file, &times(entry.mtime)).when(DOING)
    }

    /// Copies the entry's bytes; runs of zeros stay holes.
    fn fill<R: Read>(
        &mut self,
        file: &mut File,
        bytes: u64,
        tape: &mut Tape<R>,
    ) -> Result<(), ImageError> {
        let mut left = bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
            let read = tape.read(&mut self.buffer[..most]).map_err(|error| unreadable(&error))?;
            if read == 0 {
                return Err(damaged("it is cut within a file"));
            }
            left -= read as u64;
            if self.buffer[..read].iter().all(|byte| *byte == 0) {
                let step = i64::try_from(read).unwrap_or(i64::MAX);
                file.seek(SeekFrom::Current(step)).when(DOING)?;
                continue;
            }
            self.room.take(read as u64, file)?;
            file.write_all(&self.buffer[..read]).when(DOING)?;
        }
        file.set_len(bytes).when(DOING)
    }

    fn directory(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
    ) -> Result<(), ImageError> {
        let parent = self.rooted.parent(parents)?;
        if !is_directory(parent, name) {
            clear(parent, name)?;
            mkdirat(parent, name, Mode::from_raw_mode(0o755)).when(DOING)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(parent, name, flags, Mode::empty()).when(DOING)?;
        self.dress(&directory, entry, entry.mode & 0o3777)?;
        self.times.push((entry.path.clone(), entry.mtime));
        Ok(())
    }

    fn dress_root(&mut self, entry: &Entry) -> Result<(), ImageError> {
        if entry.kind != Kind::Directory {
            return Err(damaged("something that is no directory stands for the root"));
        }
        let root = self.rooted.root().as_fd().try_clone_to_owned().when(DOING)?;
        self.dress(&root, entry, entry.mode & 0o1777)
    }

    fn symlink(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
        target: &[u8],
    ) -> Result<(), ImageError> {
        if target.is_empty() || target.len() > 4095 {
            return Err(damaged("a symlink's target is empty or longer than 4095 bytes"));
        }
        let target = c_string(target)?;
        let owners = self.owners;
        let parent = self.rooted.parent(parents)?;
        clear(parent, name)?;
        symlinkat(&target, parent, name).when(DOING)?;
        if owners == Owners::AsRecorded {
            let (uid, gid) = owner(entry)?;
            chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).when(DOING)?;
        }
        utimensat(parent, name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW).when(DOING)?;
        self.rooted.forget();
        Ok(())
    }

    fn hard_link(
        &mut self,
        parents: &[&OsStr],
        name: &OsStr,
        target: &[u8],
    ) -> Result<(), ImageError> {
        let target = Parts::of(target)?;
        let Some((target_parents, target_name)) = target.split() else {
            return Err(damaged("a hard link leads to the root"));
        };
        let from = self.rooted.parent(target_parents)?.try_clone().when(DOING)?;
        let parent = self.rooted.parent(parents)?;
        if (target_parents, target_name) == (parents, name) {
            return Err(damaged("a hard link leads to itself"));
        }
        clear(parent, name)?;
        match linkat(&from, target_name, parent, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(damaged("a hard link leads to what is not there")),
            Err(Errno::PERM) => Err(damaged("a hard link leads to a directory")),
            Err(error) => Err(error).when(DOING),
        }
    }

    fn fifo(&mut self, entry: &Entry, parents: &[&OsStr], name: &OsStr) -> Result<(), ImageError> {
        let owners = self.owners;
        let parent = self.rooted.parent(parents)?;
        clear(parent, name)?;
        let mode = Mode::from_raw_mode(entry.mode & 0o777);
        mknodat(parent, name, FileType::Fifo, mode, 0).when(DOING)?;
        if owners == Owners::AsRecorded {
            let (uid, gid) = owner(entry)?;
            chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).when(DOING)?;
        }
        Ok(())
    }

    fn white_out(
        &mut self,
        parents: &[&OsStr],
        name: &OsStr,
        hidden: &OsStr,
    ) -> Result<(), ImageError> {
        let attribute = match self.whiteouts {
            Whiteouts::Trusted => c"trusted.overlay.opaque",
            Whiteouts::User => c"user.overlay.opaque",
        };
        let parent = self.rooted.parent(parents)?;
        if name.as_bytes() == OPAQUE {
            return fsetxattr(parent, attribute, b"y", XattrFlags::empty()).when(DOING);
        }
        // Other names of the kind `.wh..wh.` are AUFS's own and mean nothing to anybody else.
        if hidden.as_bytes().starts_with(WHITEOUT) {
            return Ok(());
        }
        if matches!(hidden.as_bytes(), b"" | b"." | b"..") {
            return Err(damaged("a whiteout names nothing"));
        }
        // A device 0:0 is overlayfs's sign, which needs no privilege. What this very layer put
        // there stays: a whiteout is about the layers below.
        match mknodat(parent, hidden, FileType::CharacterDevice, Mode::empty(), 0) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error).when(DOING),
        }
    }

    fn dress(&self, file: &impl AsFd, entry: &Entry, mode: u32) -> Result<(), ImageError> {
        if self.owners == Owners::AsRecorded {
            let (uid, gid) = owner(entry)?;
            fchown(file, uid, gid).when(DOING)?;
        }
        for (name, value) in &entry.attributes {
            if name.starts_with(b"user.") && !name.starts_with(b"user.overlay.") {
                let name = c_string(name)?;
                match fsetxattr(file, &name, value, XattrFlags::empty()) {
                    // A file system without them, or without room for them: the file is whole.
                    Ok(()) | Err(Errno::NOTSUP | Errno::NOSPC | Errno::RANGE) => {}
                    Err(error) => return Err(error).when(DOING),
                }
            }
        }
        // Last: a change of owner clears bits of the mode.
        fchmod(file, Mode::from_raw_mode(mode)).when(DOING)
    }
}

fn owner(entry: &Entry) -> Result<(Option<Uid>, Option<Gid>), ImageError> {
    // The highest number means "leave as it is" to the kernel.
    if entry.uid == u32::MAX || entry.gid == u32::MAX {
        return Err(damaged("an owner is no id"));
    }
    Ok((Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid))))
}

fn times(mtime: i64) -> Timestamps {
    let at = Timespec { tv_sec: mtime, tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}
