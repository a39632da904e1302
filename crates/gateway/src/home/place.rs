//! Which directory a home is, and whether its path still leads there.
//!
//! The lock keeps a second gateway out of the directory, not out of the path: once the directory
//! is renamed, a new home can be made in its old place, and a gateway that went on by the path
//! would write into that one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandkeep_store::HomeDirectory;

/// The directory, held open so that its number is nobody else's meanwhile.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    held: File,
}

impl Place {
    pub(super) fn hold(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), held: File::open(path)? })
    }

    pub(super) fn directory(&self) -> Option<HomeDirectory> {
        let inode = self.held.metadata().ok()?.ino();
        let magic = magic(&self.held)?;
        if is_renumbered(magic) {
            return None;
        }
        let file_system = keeps_its_id(magic)
            .then(|| rustix::fs::fstatvfs(&self.held).ok().map(|found| found.f_fsid))
            .flatten()
            .filter(|id| *id != 0);
        Some(HomeDirectory { inode, file_system })
    }

    pub(super) fn is_in_place(&self) -> bool {
        is_same(&self.held, &self.path)
    }
}

/// Whether `path` leads to what is held. An error that does not say that it is gone says nothing.
pub(super) fn is_same(held: &File, path: &Path) -> bool {
    let Ok(held) = held.metadata() else { return true };
    match fs::metadata(path) {
        Ok(found) => (found.dev(), found.ino()) == (held.dev(), held.ino()),
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

#[cfg(target_os = "linux")]
fn magic(file: &File) -> Option<i64> {
    #[allow(clippy::unnecessary_cast, reason = "differs by target")]
    rustix::fs::fstatfs(file).ok().map(|found| found.f_type as i64)
}

#[cfg(not(target_os = "linux"))]
fn magic(_file: &File) -> Option<i64> {
    None
}

/// File systems that number a directory anew with each mount (linux/magic.h): FUSE, FAT, exFAT.
fn is_renumbered(magic: i64) -> bool {
    matches!(magic, 0x6573_5546 | 0x4D44 | 0x2011_BAB0)
}

/// File systems whose id is made from what is on the disk, not from the device's number: ext,
/// btrfs, f2fs.
fn keeps_its_id(magic: i64) -> bool {
    matches!(magic, 0xEF53 | 0x9123_683E | 0xF2F5_2010)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_keeps_the_directory_and_a_copy_does_not() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, renamed) = (scratch.path().join("home"), scratch.path().join("renamed"));
        fs::create_dir(&path).unwrap();
        let before = Place::hold(&path).unwrap();
        fs::rename(&path, &renamed).unwrap();
        fs::create_dir(&path).unwrap();
        let same = Place::hold(&renamed).unwrap();
        assert!(before.directory().is_some());
        assert_eq!(same.directory(), before.directory());
        assert_ne!(Place::hold(&path).unwrap().directory(), before.directory());
    }

    #[test]
    fn a_directory_that_is_moved_away_or_replaced_is_noticed() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, away) = (scratch.path().join("home"), scratch.path().join("away"));
        fs::create_dir(&path).unwrap();
        let place = Place::hold(&path).unwrap();
        assert!(place.is_in_place());
        fs::rename(&path, &away).unwrap();
        assert!(!place.is_in_place());
        fs::create_dir(&path).unwrap();
        assert!(!place.is_in_place());
        fs::remove_dir(&path).unwrap();
        fs::rename(&away, &path).unwrap();
        assert!(place.is_in_place());
    }
}
