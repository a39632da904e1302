//! Entries put in their place below the root.
//!
//! Set-user-id bits, capabilities and devices are dropped: nothing may be gained by unpacking. An
//! overlay's own attributes are not for an archive to set.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, chmod, chownat, fchmod,
    fchown, fsetxattr, fstat, futimens, linkat, mkdirat, mknodat, openat, symlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::error::{ArchiveError, While, of_stream, shown};
use crate::room::Room;
use crate::rooted::{Parts, Rooted, c_string, clear, is_directory};
use crate::sparse::Run;
use crate::tape::{Entry, Kind, Tape};

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const CHUNK_BYTES: usize = 128 * 1024;

/// Whom the unpacked files belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The ids of the stream, as they are: root, or root of a user namespace with those ids.
    AsRecorded,
    /// Whoever unpacks: an ordinary user has no other ids to give.
    Ours,
}

/// How overlayfs is told that a name, or all below a directory, is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whiteouts {
    /// `trusted.overlay.` attributes: an overlay that the host's root mounts.
    Trusted,
    /// `user.overlay.` attributes: an overlay mounted with `userxattr`, in a user namespace.
    User,
}

/// What a symlink does in whose place the stream has a directory to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentLinks {
    /// It leads on, with the root taken for `/`.
    BelowRoot,
    /// It is refused.
    Refused,
}

/// What happens to a directory in whose place the stream has something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It goes, with all that is in it.
    Replaced,
    /// It stays and the archive is refused. Files are replaced all the same.
    TreesKept,
}

/// How a stream is unpacked.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Whom the files belong to.
    pub owners: Owners,
    /// What symlinks on the way do.
    pub links: ParentLinks,
    /// What gives way.
    pub existing: Existing,
    /// `.wh.` names are whiteouts of a layer; `None`: names like any other.
    pub whiteouts: Option<Whiteouts>,
    /// Bytes of the disk that are left free; 0: none.
    pub kept_free_bytes: u64,
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unpacked {
    /// Files, directories, links: all but what was left out.
    pub entries: u64,
    /// Regular files.
    pub files: u64,
    /// Bytes written; holes are not counted.
    pub bytes: u64,
    /// Devices, which are left out.
    pub left_out: u64,
}

/// Unpacks the whole stream below `root`.
///
/// # Errors
/// What was unpacked until then stays: the caller knows whether the root was its own.
pub fn unpack<R: Read>(
    tape: &mut Tape<R>,
    root: OwnedFd,
    rules: Rules,
) -> Result<Unpacked, ArchiveError> {
    let mut placer = Placer::new(root, rules);
    while let Some(entry) = tape.next_entry()? {
        placer.place(&entry, tape)?;
    }
    placer.finish()
}

struct Placer {
    rooted: Rooted,
    rules: Rules,
    /// Set at the end, deepest first: what is put into a directory changes its time, and may need
    /// more of its mode than it is to have.
    directories: Vec<Dressing>,
    room: Room,
    counts: Unpacked,
    buffer: Vec<u8>,
}

struct Dressing {
    path: Vec<u8>,
    mode: u32,
    mtime: (i64, u32),
}

impl Placer {
    fn new(root: OwnedFd, rules: Rules) -> Self {
        Self {
            rooted: Rooted::new(root, rules.links),
            rules,
            directories: Vec::new(),
            room: Room::keeping(rules.kept_free_bytes),
            counts: Unpacked::default(),
            buffer: vec![0; CHUNK_BYTES],
        }
    }

    /// Makes what the entry says; its bytes are read from the tape.
    fn place<R: Read>(&mut self, entry: &Entry, tape: &mut Tape<R>) -> Result<(), ArchiveError> {
        let parts = Parts::of(&entry.path)?;
        let Some((parents, name)) = parts.split() else {
            return self.dress_root(entry);
        };
        if let (Some(whiteouts), Some(hidden)) =
            (self.rules.whiteouts, name.as_bytes().strip_prefix(WHITEOUT))
        {
            return self.white_out(entry, whiteouts, parents, name, OsStr::from_bytes(hidden));
        }
        match &entry.kind {
            Kind::File => self.file(entry, parents, name, tape)?,
            Kind::Directory => self.directory(entry, parents, name)?,
            Kind::Symlink(target) => self.symlink(entry, parents, name, target)?,
            Kind::HardLink(target) => self.hard_link(entry, parents, name, target)?,
            Kind::Fifo => self.fifo(entry, parents, name)?,
            Kind::Device => {
                self.counts.left_out += 1;
                return Ok(());
            }
        }
        self.counts.entries += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Unpacked, ArchiveError> {
        self.rooted.forget();
        let mut dressed = HashSet::new();
        for directory in std::mem::take(&mut self.directories).into_iter().rev() {
            let parts = Parts::of(&directory.path)?;
            // The last entry for a directory is the one that counts.
            if !dressed.insert(parts.path()) {
                continue;
            }
            let doing = || unpacking(&directory.path);
            let opened = match parts.split() {
                None => self.rooted.root().as_fd().try_clone_to_owned().when(doing)?,
                Some((parents, name)) => {
                    let parent = self.rooted.parent(parents)?;
                    match openat(parent, name, DIRECTORY, Mode::empty()) {
                        Ok(opened) => opened,
                        // A later entry took its place.
                        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                        Err(error) => return Err(error).when(doing),
                    }
                }
            };
            fchmod(&opened, Mode::from_raw_mode(directory.mode)).when(doing)?;
            futimens(&opened, &times(directory.mtime)).when(doing)?;
        }
        self.counts.bytes = self.room.written();
        Ok(self.counts)
    }

    fn file<R: Read>(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
        tape: &mut Tape<R>,
    ) -> Result<(), ArchiveError> {
        let doing = || unpacking(&entry.path);
        let parent = self.rooted.place_for(parents, name, self.rules.existing)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(parent, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
        let mut file = File::from(file.when(doing)?);
        match &entry.runs {
            None => self.fill(&mut file, entry, entry.bytes, tape)?,
            Some(runs) => self.fill_runs(&mut file, entry, runs, tape)?,
        }
        file.set_len(entry.bytes).when(doing)?;
        self.dress(&file, entry)?;
        fchmod(&file, Mode::from_raw_mode(entry.mode & 0o1777)).when(doing)?;
        futimens(&file, &times(entry.mtime)).when(doing)?;
        self.counts.files += 1;
        Ok(())
    }

    fn fill_runs<R: Read>(
        &mut self,
        file: &mut File,
        entry: &Entry,
        runs: &[Run],
        tape: &mut Tape<R>,
    ) -> Result<(), ArchiveError> {
        for run in runs {
            file.seek(SeekFrom::Start(run.offset)).when(|| unpacking(&entry.path))?;
            self.fill(file, entry, run.bytes, tape)?;
        }
        Ok(())
    }

    /// Copies bytes to where the file stands; runs of zeros stay holes.
    fn fill<R: Read>(
        &mut self,
        file: &mut File,
        entry: &Entry,
        bytes: u64,
        tape: &mut Tape<R>,
    ) -> Result<(), ArchiveError> {
        let doing = || unpacking(&entry.path);
        let mut left = bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
            let read = tape.read(&mut self.buffer[..most]).map_err(of_stream)?;
            if read == 0 {
                return Err(ArchiveError::damaged("it is cut within a file"));
            }
            left -= read as u64;
            if self.buffer[..read].iter().all(|byte| *byte == 0) {
                let step = i64::try_from(read).unwrap_or(i64::MAX);
                file.seek(SeekFrom::Current(step)).when(doing)?;
                continue;
            }
            self.room.take(read as u64, file)?;
            file.write_all(&self.buffer[..read]).when(doing)?;
        }
        Ok(())
    }

    fn directory(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
    ) -> Result<(), ArchiveError> {
        let doing = || unpacking(&entry.path);
        let parent = self.rooted.parent(parents)?;
        if !is_directory(parent, name) {
            clear(parent, name, self.rules.existing)?;
            mkdirat(parent, name, Mode::from_raw_mode(0o700)).when(doing)?;
        }
        let directory = openat(parent, name, DIRECTORY, Mode::empty()).when(doing)?;
        self.dress(&directory, entry)?;
        self.dress_later(entry, 0o3777);
        Ok(())
    }

    fn dress_root(&mut self, entry: &Entry) -> Result<(), ArchiveError> {
        if entry.kind != Kind::Directory {
            return Err(ArchiveError::damaged(
                "something that is no directory stands for the root",
            ));
        }
        let root = self.rooted.root().as_fd().try_clone_to_owned();
        self.dress(&root.when(|| unpacking(&entry.path))?, entry)?;
        self.dress_later(entry, 0o1777);
        Ok(())
    }

    fn dress_later(&mut self, entry: &Entry, bits: u32) {
        let (path, mode) = (entry.path.clone(), entry.mode & bits);
        self.directories.push(Dressing { path, mode, mtime: entry.mtime });
    }

    fn symlink(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
        target: &[u8],
    ) -> Result<(), ArchiveError> {
        if target.is_empty() || target.len() > 4095 {
            let message = "a symlink's target is empty or longer than 4095 bytes";
            return Err(ArchiveError::damaged(message));
        }
        let doing = || unpacking(&entry.path);
        let target = c_string(target)?;
        let rules = self.rules;
        let parent = self.rooted.place_for(parents, name, rules.existing)?;
        symlinkat(&target, parent, name).when(doing)?;
        own_link(parent, name, entry, rules.owners)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        utimensat(parent, name, &times(entry.mtime), flags).when(doing)
    }

    fn hard_link(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
        target: &[u8],
    ) -> Result<(), ArchiveError> {
        let doing = || unpacking(&entry.path);
        let target = Parts::of(target)?;
        let Some((target_parents, target_name)) = target.split() else {
            return Err(ArchiveError::damaged("a hard link leads to the root"));
        };
        if (target_parents, target_name) == (parents, name) {
            return Err(ArchiveError::damaged("a hard link leads to itself"));
        }
        let from = self.rooted.parent(target_parents)?.try_clone().when(doing)?;
        let parent = self.rooted.place_for(parents, name, self.rules.existing)?;
        match linkat(&from, target_name, parent, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => {
                Err(ArchiveError::damaged("a hard link leads to what is not there"))
            }
            Err(Errno::PERM) => Err(ArchiveError::damaged("a hard link leads to a directory")),
            Err(error) => Err(error).when(doing),
        }
    }

    fn fifo(
        &mut self,
        entry: &Entry,
        parents: &[&OsStr],
        name: &OsStr,
    ) -> Result<(), ArchiveError> {
        let doing = || unpacking(&entry.path);
        let rules = self.rules;
        let parent = self.rooted.place_for(parents, name, rules.existing)?;
        let mode = Mode::from_raw_mode(entry.mode & 0o777);
        mknodat(parent, name, FileType::Fifo, mode, 0).when(doing)?;
        own_link(parent, name, entry, rules.owners)?;
        // Opened as a place: a FIFO opened as a file waits for its other end. The umask took bits.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat(parent, name, flags, Mode::empty()).when(doing)?;
        let about = fstat(&place).when(doing)?;
        if FileType::from_raw_mode(about.st_mode) == FileType::Fifo {
            chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), mode).when(doing)?;
        }
        utimensat(parent, name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW).when(doing)
    }

    fn white_out(
        &mut self,
        entry: &Entry,
        whiteouts: Whiteouts,
        parents: &[&OsStr],
        name: &OsStr,
        hidden: &OsStr,
    ) -> Result<(), ArchiveError> {
        let doing = || unpacking(&entry.path);
        let attribute = match whiteouts {
            Whiteouts::Trusted => c"trusted.overlay.opaque",
            Whiteouts::User => c"user.overlay.opaque",
        };
        let parent = self.rooted.parent(parents)?;
        if name.as_bytes() == OPAQUE {
            return fsetxattr(parent, attribute, b"y", XattrFlags::empty()).when(doing);
        }
        // Other names of the kind `.wh..wh.` are AUFS's own and mean nothing to anybody else.
        if hidden.as_bytes().starts_with(WHITEOUT) {
            return Ok(());
        }
        if matches!(hidden.as_bytes(), b"" | b"." | b"..") {
            return Err(ArchiveError::damaged("a whiteout names nothing"));
        }
        // A device 0:0 is overlayfs's sign, which needs no privilege. What this very layer put
        // there stays: a whiteout is about the layers below.
        match mknodat(parent, hidden, FileType::CharacterDevice, Mode::empty(), 0) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error).when(doing),
        }
    }

    /// Owner and attributes; the mode is for the caller to set after them, since a change of owner
    /// clears bits of it.
    fn dress(&self, file: &impl AsFd, entry: &Entry) -> Result<(), ArchiveError> {
        let doing = || unpacking(&entry.path);
        if self.rules.owners == Owners::AsRecorded {
            let (uid, gid) = owner(entry)?;
            fchown(file, uid, gid).when(doing)?;
        }
        for (name, value) in &entry.attributes {
            if !is_plain_attribute(name) {
                continue;
            }
            match fsetxattr(file, c_string(name)?, value, XattrFlags::empty()) {
                // A file system without them, or without room for them: the file is whole.
                Ok(()) | Err(Errno::NOTSUP | Errno::NOSPC | Errno::RANGE) => {}
                Err(error) => return Err(error).when(doing),
            }
        }
        Ok(())
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Attributes that mean nothing to the kernel.
pub(crate) fn is_plain_attribute(name: &[u8]) -> bool {
    name.starts_with(b"user.") && !name.starts_with(b"user.overlay.")
}

fn own_link(
    parent: &OwnedFd,
    name: &OsStr,
    entry: &Entry,
    owners: Owners,
) -> Result<(), ArchiveError> {
    if owners == Owners::Ours {
        return Ok(());
    }
    let (uid, gid) = owner(entry)?;
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    chownat(parent, name, uid, gid, flags).when(|| unpacking(&entry.path))
}

fn owner(entry: &Entry) -> Result<(Option<Uid>, Option<Gid>), ArchiveError> {
    // The highest number means "leave as it is" to the kernel.
    if entry.uid == u32::MAX || entry.gid == u32::MAX {
        return Err(ArchiveError::damaged("an owner is no id"));
    }
    Ok((Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid))))
}

fn times((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    let at = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) };
    Timestamps { last_access: at, last_modification: at }
}

fn unpacking(path: &[u8]) -> String {
    format!("{:?} could not be unpacked", shown(path))
}
