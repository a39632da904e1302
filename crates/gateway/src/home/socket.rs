//! The API's Unix socket: bound at any path length, replacing only what a dead gateway left.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::refusal::{Refusal, RefusalKind};

/// Longest path that fits into a socket address, without its final NUL (unix(7)).
const ADDRESS_MAX_BYTES: usize = 107;

/// A bound socket. Dropping it removes its file, if that is still ours.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    file: OurFile,
}

#[derive(Debug)]
struct OurFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for OurFile {
    fn drop(&mut self) {
        let ours = |found: &fs::Metadata| found.dev() == self.device && found.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(|found| ours(&found)) {
            let _removed = fs::remove_file(&self.path);
        }
    }
}

impl Listening {
    /// Another handle of the listener, non-blocking; its file stays until `self` is dropped.
    pub fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

/// Listens at `path` with mode 0600. The caller holds the lock of the directory's home, so a
/// socket that is there already is what a dead gateway left, and is replaced; anything else that
/// is there is refused.
pub fn listen(path: &Path) -> Result<Listening, Refusal> {
    bind(path).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                "there is something that is not a socket at that path".to_owned()
            }
            _ => error.to_string(),
        };
        Refusal::new(
            RefusalKind::Failed,
            "SocketUnusable",
            format!("the gateway cannot listen at {}", path.display()),
            why,
            "move away what is there, or set SANDKEEP_HOME to another directory",
        )
    })
}

fn bind(path: &Path) -> io::Result<Listening> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Between bind and chmod the socket has the mode that the umask leaves, but it lies in a home
    // of mode 0700, so nobody else comes near it.
    let address = Address::of(path)?;
    let listener = UnixListener::bind(address.path())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    let found = fs::symlink_metadata(path)?;
    let file = OurFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
    Ok(Listening { listener, file })
}

/// A path that fits into a socket address, valid as long as this lives.
#[derive(Debug)]
pub struct Address {
    path: PathBuf,
    _directory: Option<File>,
}

impl Address {
    fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= ADDRESS_MAX_BYTES {
            return Ok(Self { path: path.to_owned(), _directory: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        #[allow(clippy::cast_possible_wrap, reason = "open flags are small")]
        let directory =
            OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(parent)?;
        let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { path: short, _directory: Some(directory) })
    }

    /// What to bind or connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The address to connect to for a socket at `path`, however long that is. Keep it until connected.
pub fn connect_address(path: &Path) -> io::Result<Address> {
    Address::of(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_path_of_two_hundred_bytes_is_bound_and_connected() {
        let scratch = tempfile::tempdir().unwrap();
        let deep = scratch.path().join("d".repeat(200));
        fs::create_dir(&deep).unwrap();
        let path = deep.join("gateway.sock");
        let listening = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let address = connect_address(&path).unwrap();
        UnixStream::connect(address.path()).unwrap();
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_gateway_left_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("gateway.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let _listening = listen(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("gateway.sock");
        fs::write(&path, "precious").unwrap();
        assert_eq!(listen(&path).unwrap_err().reason, "SocketUnusable");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn only_our_own_socket_is_removed_at_the_end() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("gateway.sock");
        let listening = listen(&path).unwrap();
        fs::rename(&path, scratch.path().join("ours")).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(listening);
        assert!(path.exists());
        drop(other);
    }
}
