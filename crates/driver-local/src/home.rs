//! Where everything lies on disk, and how small files are written so that a crash leaves either
//! the old or the new one.
//!
//! ```text
//! home/engine.json                       this engine's identity
//! home/sandboxes/ID/backing.json         the label: whose, and made from what; removed last
//!                  /lock                 held by a helper at work
//!                  /runtime.json         the newest run
//!                  /uses.json            what the newest run was started from
//!                  /state/               the supervisor's own, PID 1 alone can reach it
//!                  /run/                 session directory
//!                  /rootfs/LAYER/upper   what it changed: of `/` (root) and /usr (usr) with the
//!                                        host's system, of a directory image (image)
//!                  /trash/               what is being removed
//! home/workspaces/ID/mark.json           the mark, outside of what the sandbox sees
//!                   /files/              /workspace
//! home/templates/FINGERPRINT/            the lowest layer with the host's system
//! home/runtime/ID/                       libcontainer's state
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sandkeep_core::{SandboxId, WorkspaceId};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The paths below a driver's home.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: PathBuf,
}

impl Home {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn engine_file(&self) -> PathBuf {
        self.root.join("engine.json")
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.root.join("sandboxes")
    }

    pub(crate) fn workspaces(&self) -> PathBuf {
        self.root.join("workspaces")
    }

    pub(crate) fn templates(&self) -> PathBuf {
        self.root.join("templates")
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.root.join("runtime")
    }

    pub(crate) fn sandbox(&self, id: &SandboxId) -> SandboxDir {
        SandboxDir { path: self.sandboxes().join(id.as_str()) }
    }

    pub(crate) fn workspace(&self, id: &WorkspaceId) -> PathBuf {
        self.workspaces().join(id.as_str())
    }
}

/// The paths of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct SandboxDir {
    pub(crate) path: PathBuf,
}

impl SandboxDir {
    pub(crate) fn label(&self) -> PathBuf {
        self.path.join("backing.json")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    pub(crate) fn runtime_file(&self) -> PathBuf {
        self.path.join("runtime.json")
    }

    pub(crate) fn uses(&self) -> PathBuf {
        self.path.join("uses.json")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    pub(crate) fn session(&self) -> PathBuf {
        self.path.join("run")
    }

    pub(crate) fn boot_log(&self) -> PathBuf {
        self.path.join("boot.log")
    }

    pub(crate) fn rootfs(&self) -> PathBuf {
        self.path.join("rootfs")
    }

    /// Where things wait for their removal; emptied in the background.
    pub(crate) fn trash(&self) -> PathBuf {
        self.path.join("trash")
    }

    /// Puts the root file system aside, to be removed in its own time: an agent may have left
    /// millions of files in it. One that is not there: done.
    pub(crate) fn put_rootfs_aside(&self) -> io::Result<()> {
        make_private_dir(&self.trash())?;
        let unique = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let aside = self.trash().join(format!("{ROOTFS_ASIDE}{}", unique.trim()));
        absent_is_done(fs::rename(self.rootfs(), aside))
    }
}

/// How the name of a root file system begins that was put aside. Nothing of an agent's choosing
/// ever gives a name in the trash.
const ROOTFS_ASIDE: &str = "rootfs-";

/// Whether something in the trash is a whole root file system.
pub(crate) fn is_rootfs_aside(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(ROOTFS_ASIDE.as_bytes()))
}

/// Makes `path` and what is missing above it, for root alone.
pub(crate) fn make_private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// How much of a written file a crash of the machine may undo. A crash of the process undoes
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durable {
    /// All of it, and what is left may be empty: what is in it means nothing after a crash.
    No,
    /// The old file may be back, or none; never a broken one. One flush.
    Whole,
    /// Nothing: it is on disk when the call returns. Two flushes.
    Yes,
}

/// Replaces `path` by `value` as JSON.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T, durable: Durable) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let temporary = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&bytes)?;
    if durable != Durable::No {
        file.sync_all()?;
    }
    fs::rename(&temporary, path)?;
    if durable == Durable::Yes
        && let Some(parent) = path.parent()
    {
        sync_dir(parent)?;
    }
    Ok(())
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Reads what [`write_json`] wrote. `None`: there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from)
}

/// The path by which the kernel reaches an open descriptor of this process.
pub(crate) fn fd_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Whether `result` is an error that says "not there", or there was none.
pub(crate) fn absent_is_done(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The paths of what is in a directory of ours; none when it is not there.
pub(crate) fn paths_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_never_written_is_none_and_a_broken_one_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        assert!(matches!(read_json::<u32>(&path), Ok(None)));
        write_json(&path, &7_u32, Durable::Yes).unwrap();
        assert!(matches!(read_json::<u32>(&path), Ok(Some(7))));
        fs::write(&path, "{").unwrap();
        assert!(read_json::<u32>(&path).is_err());
    }
}
