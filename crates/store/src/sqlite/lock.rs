//! One process at a time: an advisory lock on a file beside the database, with the holder's pid in
//! it. The kernel gives the lock up when the holder dies, however it dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::failure::from_io;
use crate::error::StoreError;

/// Held for as long as the value lives.
#[derive(Debug)]
pub(super) struct StoreLock {
    _file: File,
}

impl StoreLock {
    pub(super) fn take(path: &Path) -> Result<Self, StoreError> {
        let doing = format!("open {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| from_io(&doing, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(from_io(&doing, &error)),
        }
        // Padded and written in place, so that it needs no new block on a full disk. It only serves
        // the message of the one who is refused; a failure is no reason not to open.
        let pid = format!("{:<20}\n", std::process::id());
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(pid.as_bytes()));
        if let Err(error) = written {
            tracing::debug!(%error, "the lock file does not tell our pid");
        }
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
