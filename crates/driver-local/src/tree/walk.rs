//! The walk: every entry of a tree once, with a bounded number of descriptors and no recursion.
//!
//! Directories near the one at hand stay open. One that is far above is closed, and opened again by
//! way of `..` when its turn comes; that it is the same one is checked, so a tree that somebody
//! moves about meanwhile ends the walk instead of leading it elsewhere.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, fstat, openat2, seek, statat,
};
use rustix::io::Errno;

/// So many levels above the one at hand stay open.
const OPEN_ABOVE: usize = 64;

/// Room for names that are read at once.
const BATCH_BYTES: usize = 32 * 1024;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is not there any more.
    Gone,
    /// It is.
    Stays,
}

/// What is done with what is met. An error ends the walk.
pub(crate) trait Visit {
    /// Anything but a directory.
    fn leaf(&mut self, at: BorrowedFd<'_>, name: &CStr) -> io::Result<Fate>;

    /// A directory, after everything in it; also one that could not be entered (`entered` false).
    fn directory(&mut self, at: BorrowedFd<'_>, name: &CStr, entered: bool) -> io::Result<Fate>;

    /// A directory could not be opened; whether another try may go better.
    fn closed(&mut self, at: BorrowedFd<'_>, name: &CStr) -> bool;
}

/// Opens the directory `name` in `at`, if it is one and no mount.
pub(crate) fn open_below(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(at, name, READ, Mode::empty(), beneath | ResolveFlags::NO_XDEV)
}

const READ: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Walks what is in `top`, a directory opened for reading. `Stays`: something in it does.
pub(crate) fn walk(top: OwnedFd, visit: &mut impl Visit) -> io::Result<Fate> {
    let mut levels = vec![Level::new(CString::default(), top)?];
    let mut room = vec![MaybeUninit::uninit(); BATCH_BYTES];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { return Ok(Fate::Gone) };
        let at = level.dir.as_ref().ok_or_else(|| io::Error::other("a level was closed"))?;
        if let Some(entry) = level.batch.pop_front() {
            level.position = entry.next;
            if !entry.is_directory(at.as_fd())? {
                let fate = visit.leaf(at.as_fd(), &entry.name)?;
                level.count(fate);
            } else if let Some(dir) = enter(at.as_fd(), &entry.name, visit)? {
                levels.push(Level::new(entry.name, dir)?);
                if let Some(far) = depth.checked_sub(OPEN_ABOVE) {
                    levels[far].close();
                }
            } else {
                let fate = visit.directory(at.as_fd(), &entry.name, false)?;
                level.count(fate);
            }
        } else if level.read(&mut room)? {
        } else if level.has_to_look_again() {
            level.rewind()?;
        } else if let Some(fate) = leave(&mut levels, visit)? {
            return Ok(fate);
        }
    }
}

/// Opens a directory to walk it. `None`: that cannot be done.
fn enter(at: BorrowedFd<'_>, name: &CStr, visit: &mut impl Visit) -> io::Result<Option<OwnedFd>> {
    match open_below(at, name) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::ACCESS | Errno::PERM) if visit.closed(at, name) => Ok(open_below(at, name).ok()),
        // Gone, replaced by something else, a mount, or not ours to enter.
        Err(
            Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV,
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Goes one level up; at the top there is a result.
fn leave(levels: &mut Vec<Level>, visit: &mut impl Visit) -> io::Result<Option<Fate>> {
    let Some(done) = levels.pop() else { return Ok(Some(Fate::Gone)) };
    let Some(parent) = levels.last_mut() else {
        return Ok(Some(if done.stays { Fate::Stays } else { Fate::Gone }));
    };
    let at = match parent.dir.take() {
        Some(dir) => dir,
        None => parent.open_again(done.dir.as_ref())?,
    };
    let fate = visit.directory(at.as_fd(), &done.name, true);
    parent.dir = Some(at);
    parent.count(fate?);
    Ok(None)
}

/// A directory on the way from the top to where the walk is.
struct Level {
    name: CString,
    identity: (u64, u64),
    dir: Option<OwnedFd>,
    /// Where to go on reading, once the batch is done.
    position: u64,
    batch: VecDeque<Entry>,
    any_gone: bool,
    stays: bool,
}

struct Entry {
    name: CString,
    kind: FileType,
    next: u64,
}

impl Entry {
    fn is_directory(&self, at: BorrowedFd<'_>) -> io::Result<bool> {
        if self.kind != FileType::Unknown {
            return Ok(self.kind == FileType::Directory);
        }
        match statat(at, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Level {
    fn new(name: CString, dir: OwnedFd) -> io::Result<Self> {
        let identity = identity(dir.as_fd())?;
        let (dir, batch) = (Some(dir), VecDeque::new());
        Ok(Self { name, identity, dir, position: 0, batch, any_gone: false, stays: false })
    }

    fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Gone => self.any_gone = true,
            Fate::Stays => self.stays = true,
        }
    }

    /// Reads some more names. `false`: there are none.
    fn read(&mut self, room: &mut [MaybeUninit<u8>]) -> io::Result<bool> {
        let Some(dir) = &self.dir else { return Ok(false) };
        let mut entries = RawDir::new(dir, room);
        let mut any = false;
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // The directory itself was removed.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            any = true;
            let (kind, next) = (entry.file_type(), entry.next_entry_cookie());
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                self.batch.push_back(Entry { name: entry.file_name().to_owned(), kind, next });
            }
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(any)
    }

    /// While entries go, a file system may pass others over; and then only those are left.
    fn has_to_look_again(&self) -> bool {
        self.any_gone && !self.stays
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.any_gone = false;
        self.position = 0;
        match &self.dir {
            Some(dir) => Ok(seek(dir, SeekFrom::Start(0)).map(drop)?),
            None => Ok(()),
        }
    }

    fn close(&mut self) {
        self.dir = None;
        self.batch.clear();
    }

    /// Opens it by way of a directory in it, and goes to where reading stopped.
    fn open_again(&self, below: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        let below = below.ok_or_else(|| io::Error::other("a level was closed"))?;
        let plain = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let dir = openat2(below, c"..", READ, Mode::empty(), plain | ResolveFlags::NO_XDEV)?;
        if identity(dir.as_fd())? != self.identity {
            return Err(io::Error::other("a directory was moved while the tree was walked"));
        }
        if self.position > 0 {
            seek(&dir, SeekFrom::Start(self.position))?;
        }
        Ok(dir)
    }
}

fn identity(dir: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}
