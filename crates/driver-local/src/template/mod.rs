//! The lowest layer of every sandbox with the host's system: a skeleton of `/` with a made /etc,
//! and the directories of /usr/local that are the sandbox's own. Made once, shared by all, written
//! by none: what an agent changes lies in its own upper layer.
//!
//! A template carries a fingerprint of what it was made from. When the host changes (an upgrade
//! brings a new library cache), the next start uses a new one.

mod etc;
mod usr;

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

pub(crate) use etc::{own_files, shown};

use crate::home::make_private_dir;
use crate::tree::remove_as_root;

/// Links that a system with everything in /usr has at its top; copied as the host has them, or
/// the host's directory is shown in their place.
pub(crate) const TOP: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

const DIRS: &[(&str, u32)] = &[
    ("dev", 0o755),
    ("home", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/mail", 0o755),
    ("var/tmp", 0o1777),
    ("workspace", 0o755),
];

/// Changes with what a template holds, so that a new version of this code makes new ones.
const LAYOUT: u32 = 1;

/// The template for the host as it is now, below `dir`, made when it is not there. It holds the
/// directories `root` and `usr`. Callers at the same time are no problem.
pub(crate) fn ensure(dir: &Path, owner: u32) -> io::Result<PathBuf> {
    let template = dir.join(name(owner));
    if template.is_dir() {
        return Ok(template);
    }
    let unique = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    let fresh = dir.join(format!("new-{}", unique.trim()));
    if let Err(error) = make(&fresh, owner) {
        // On a full disk every try would leave another half; the first error says why.
        remove_as_root(&fresh).ok();
        return Err(error);
    }
    match fs::rename(&fresh, &template) {
        Ok(()) => Ok(template),
        Err(_) if template.is_dir() => {
            remove_as_root(&fresh)?;
            Ok(template)
        }
        Err(error) => Err(error),
    }
}

/// The name of the template for the host as it is now, a fingerprint of everything that one is made
/// from: no file is read for it.
pub(crate) fn name(owner: u32) -> String {
    let mut hasher = DefaultHasher::new();
    (LAYOUT, owner).hash(&mut hasher);
    for path in etc::sources().chain(usr::sources()).chain(TOP.iter().map(|name| top(name))) {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime());
        (&path, times, metadata.len(), metadata.mode(), metadata.ino()).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

fn top(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

fn make(template: &Path, owner: u32) -> io::Result<()> {
    make_private_dir(template)?;
    let root = template.join("root");
    own_dir(&root, 0o755, owner)?;
    for (path, mode) in DIRS {
        own_dir(&root.join(path), *mode, owner)?;
    }
    own_link(&root.join("var/run"), Path::new("/run"), owner)?;
    own_link(&root.join("var/lock"), Path::new("/run/lock"), owner)?;
    for name in TOP {
        match fs::read_link(top(name)) {
            Ok(target) => own_link(&root.join(name), &target, owner)?,
            Err(_) if top(name).is_dir() => own_dir(&root.join(name), 0o755, owner)?,
            Err(_) => {}
        }
    }
    etc::make(&root.join("etc"), owner)?;
    usr::make(&template.join("usr"), owner)
}

/// Makes a directory of the sandbox's.
fn own_dir(path: &Path, mode: u32, owner: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    lchown(path, Some(owner), Some(owner))
}

fn own_link(path: &Path, target: &Path, owner: u32) -> io::Result<()> {
    symlink(target, path)?;
    lchown(path, Some(owner), Some(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_made_once_and_holds_nothing_of_the_hosts_accounts() {
        let dir = tempfile::tempdir().unwrap();
        let owner = rustix::process::getuid().as_raw();
        let template = ensure(dir.path(), owner).unwrap();
        let made = fs::metadata(&template).unwrap().ino();
        assert_eq!(ensure(dir.path(), owner).unwrap(), template);
        assert_eq!(fs::metadata(&template).unwrap().ino(), made);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        for absent in ["shadow", "gshadow", "sudoers", "ssh", "pip.conf", "gitconfig"] {
            assert!(!template.join("root/etc").join(absent).exists(), "{absent}");
        }
        let tmp = fs::metadata(template.join("root/tmp")).unwrap();
        assert_eq!(tmp.mode() & 0o7777, 0o1777);
    }
}
