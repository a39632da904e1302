//! The state directory: a descriptor and nothing else. Its mount is detached, so no path leads to
//! it and nothing in the sandbox can reach it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::options::StatePlace;

/// An open directory.
#[derive(Debug)]
pub struct StateDir {
    fd: OwnedFd,
}

impl StateDir {
    /// Opens it.
    pub fn open(place: &StatePlace) -> io::Result<Self> {
        match place {
            StatePlace::Directory(path) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())? })
            }
            StatePlace::Descriptor(number) if *number > 2 => {
                // SAFETY: handed over for this by who started us; used nowhere else.
                let fd = unsafe { OwnedFd::from_raw_fd(*number) };
                rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
                Ok(Self { fd })
            }
            StatePlace::Descriptor(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// The directory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Names in it.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// A file's content, at most `limit` bytes. `None`: there is no such file.
    pub fn read(&self, name: &str, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut content = vec![0; limit];
        let mut filled = 0;
        loop {
            let count = rustix::io::read(&file, &mut content[filled..])?;
            filled += count;
            if count == 0 {
                content.truncate(filled);
                return Ok(Some(content));
            }
        }
    }

    /// Replaces a file, durably: after a crash it has the old or the new content, whole.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let fresh = format!("{name}.new");
        let written = self.write_fresh(&fresh, content);
        if let Err(error) = written {
            self.remove(&fresh);
            return Err(error);
        }
        rustix::fs::renameat(&self.fd, &fresh, &self.fd, name)?;
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Removes a file. One that is not there, or cannot be removed, is looked at again after the
    /// next start.
    pub fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
    }

    fn write_fresh(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))?;
        let mut rest = content;
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(rustix::fs::fsync(&file)?)
    }
}
