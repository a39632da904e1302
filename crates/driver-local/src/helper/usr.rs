//! The upper layer of the sandbox's /usr: what the agent may write there.
//!
//! Files of the host keep their owners, which the sandbox does not know; so nothing of the host's
//! can be changed inside, and what others may not read on the host cannot be read. /usr/local and
//! the directories in it are made the sandbox's own, so that tools can be installed.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

/// Made below /usr/local whether the host has them or not.
const LOCAL: &[&str] = &["bin", "etc", "include", "lib", "libexec", "sbin", "share", "src"];

/// Makes the upper and work directory below `dir` where they are missing, and brings the modes of
/// directories in line with the host's. The agent never reaches `dir` itself, only what lies in
/// `upper`, through the overlay.
pub(super) fn prepare(dir: &Path, owner: u32) -> io::Result<(PathBuf, PathBuf)> {
    let (upper, work) = (dir.join("upper"), dir.join("work"));
    make(&upper, 0o755, None)?;
    make(&work, 0o700, None)?;
    own_dir(&upper, Path::new("local"), owner)?;
    for name in LOCAL {
        own_dir(&upper, &Path::new("local").join(name), owner)?;
    }
    for packages in python_packages() {
        for part in [packages.parent(), Some(&packages)].into_iter().flatten() {
            own_dir(&upper, part, owner)?;
        }
    }
    Ok((upper, work))
}

/// Where Python's own package tools install for everybody: `local/lib/python3.N/dist-packages`.
fn python_packages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["/usr/lib", "/usr/local/lib"] {
        let Ok(entries) = fs::read_dir(lib) else { continue };
        for name in entries.flatten().map(|entry| entry.file_name()) {
            let Some(name) = name.to_str().filter(|name| name.starts_with("python3.")) else {
                continue;
            };
            found.push(Path::new("local/lib").join(name).join("dist-packages"));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Makes `path` (below /usr) the sandbox's own directory. Where the host has one of that name, the
/// upper one's mode is what counts in the overlay: one that others may not enter on the host stays
/// root's, as closed as it is there.
fn own_dir(upper: &Path, path: &Path, owner: u32) -> io::Result<()> {
    let target = upper.join(path);
    let on_host = Path::new("/usr").join(path).symlink_metadata();
    let closed = match &on_host {
        Ok(metadata) if !metadata.is_dir() => return Ok(()),
        Ok(metadata) => (metadata.mode() & 0o005 != 0o005).then(|| metadata.mode() & 0o777),
        Err(_) => None,
    };
    if let Some(mode) = closed {
        if target.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            lchown(&target, Some(0), Some(0))?;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        }
        return Ok(());
    }
    make(&target, 0o755, Some(owner))
}

/// Makes a directory; whatever is there already is left alone (the agent may have removed or
/// replaced what was made for it).
fn make(path: &Path, mode: u32, owner: Option<u32>) -> io::Result<()> {
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            owner.map_or(Ok(()), |id| lchown(path, Some(id), Some(id)))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A parent that the agent made something else of: its own doing, its own loss.
        Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && owner.is_some() => Ok(()),
        Err(error) => Err(error),
    }
}
