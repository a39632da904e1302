//! The supervisor's binary, built static for the architecture of this build, and unpacked by
//! digest, so that a new gateway never changes the program under a running sandbox.
//!
//! Deliberately absent: deciding who may still use an unpacked one, and removing it.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The binary.
pub static SUPERVISOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandkeep-supervisor"));

/// File name of the binary in the directory named by its digest.
pub const FILE_NAME: &str = "sandkeep-supervisor";

/// SHA-256 of [`SUPERVISOR`], hexadecimal, 64 characters.
pub fn digest() -> &'static str {
    env!("SANDKEEP_SUPERVISOR_DIGEST")
}

/// Makes sure that `dir/DIGEST/sandkeep-supervisor` is there, whole and executable, and gives its
/// path. An existing one is compared with the content; a damaged one is replaced by rename, so
/// that a process that runs it keeps its own file. Several callers at once are no problem.
pub fn unpack(dir: &Path) -> io::Result<PathBuf> {
    let home = dir.join(digest());
    let path = home.join(FILE_NAME);
    if is_whole(&path) {
        return Ok(path);
    }
    fs::create_dir_all(&home)?;
    let fresh = home.join(format!(".{FILE_NAME}.{}", std::process::id()));
    let written = write_whole(&fresh).and_then(|()| fs::rename(&fresh, &path));
    if let Err(error) = written {
        // The first error is the one that says why.
        drop(fs::remove_file(&fresh));
        return Err(error);
    }
    File::open(&home)?.sync_all()?;
    Ok(path)
}

fn is_whole(path: &Path) -> bool {
    let right_size = |file: &File| {
        file.metadata().is_ok_and(|meta| {
            let executable = meta.permissions().mode() & 0o555 == 0o555;
            meta.is_file() && executable && meta.len() == SUPERVISOR.len() as u64
        })
    };
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    let mut content = Vec::with_capacity(SUPERVISOR.len());
    right_size(&file) && file.read_to_end(&mut content).is_ok() && content == SUPERVISOR
}

fn write_whole(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(SUPERVISOR)?;
    file.set_permissions(Permissions::from_mode(0o555))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_static_program() {
        assert_eq!(SUPERVISOR[..4], *b"\x7fELF");
        let dir = tempfile::tempdir().unwrap();
        let path = unpack(dir.path()).unwrap();
        let answer = std::process::Command::new(path).arg("--version").output().unwrap();
        assert!(answer.status.success(), "{answer:?}");
        // A dynamic program names its loader.
        assert!(!SUPERVISOR.windows(10).any(|bytes| bytes == b"/ld-linux-"));
    }

    #[test]
    fn unpacking_twice_leaves_the_first_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = unpack(dir.path()).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(unpack(dir.path()).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
        assert_eq!(fs::read(&path).unwrap(), SUPERVISOR);
    }

    #[test]
    fn a_damaged_file_is_mended() {
        let check = |damage: &dyn Fn(&Path)| {
            let dir = tempfile::tempdir().unwrap();
            let path = unpack(dir.path()).unwrap();
            damage(&path);
            unpack(dir.path()).unwrap();
            assert_eq!(fs::read(&path).unwrap(), SUPERVISOR);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o555);
            assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        };
        check(&|path| fs::remove_file(path).unwrap());
        check(&|path| fs::set_permissions(path, Permissions::from_mode(0o400)).unwrap());
        check(&|path| {
            fs::remove_file(path).unwrap();
            fs::write(path, b"torn").unwrap();
        });
        check(&|path| {
            fs::remove_file(path).unwrap();
            let mut flipped = SUPERVISOR.to_vec();
            flipped[1000] ^= 1;
            fs::write(path, flipped).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o555)).unwrap();
        });
    }
}
