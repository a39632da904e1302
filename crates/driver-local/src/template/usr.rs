//! The layer that lies between the host's /usr and the sandbox's own: which directories of the host
//! belong to the sandbox.
//!
//! Files of the host keep their owners, which the sandbox does not know; so nothing of the host's
//! can be changed inside, and what others may not read on the host cannot be read. /usr/local and
//! the directories in it are made the sandbox's own, so that tools can be installed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::own_dir;

/// Made below /usr/local whether the host has them or not.
const LOCAL: &[&str] = &["bin", "etc", "include", "lib", "libexec", "sbin", "share", "src"];

/// What [`make`] depends on.
pub(super) fn sources() -> impl Iterator<Item = PathBuf> {
    directories().into_iter().map(|path| Path::new("/usr").join(path))
}

/// Makes the layer at `target`.
pub(super) fn make(target: &Path, owner: u32) -> io::Result<()> {
    // /usr itself stays the host's: nothing can be added to it or taken from it inside.
    own_dir(target, 0o755, 0)?;
    for path in directories() {
        if is_for_everybody(&path) && target.join(&path).parent().is_some_and(Path::is_dir) {
            own_dir(&target.join(&path), 0o755, owner)?;
        }
    }
    Ok(())
}

/// Below /usr, parents first.
fn directories() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("local")];
    found.extend(LOCAL.iter().map(|name| Path::new("local").join(name)));
    for packages in python_packages() {
        found.extend(packages.parent().map(Path::to_owned));
        found.push(packages);
    }
    found
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

/// Where the host has a directory of that name, the mode of the one above it is what counts in the
/// overlay: one that others may not enter on the host stays as closed as it is there.
fn is_for_everybody(path: &Path) -> bool {
    match Path::new("/usr").join(path).symlink_metadata() {
        Ok(metadata) => metadata.is_dir() && metadata.mode() & 0o005 == 0o005,
        Err(_) => true,
    }
}
