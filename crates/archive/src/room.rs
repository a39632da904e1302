//! Room on the disk, looked at while much is written: the last of it is never taken.

use std::os::fd::AsFd;

use rustix::fs::fstatvfs;

use crate::error::{ArchiveError, While};

/// How much is written before the disk is looked at again.
const LOOK_EVERY_BYTES: u64 = 64 << 20;

/// Counts what is written, and stops before less than `kept_bytes` are free.
#[derive(Debug)]
pub struct Room {
    kept_bytes: u64,
    written: u64,
    look_at: u64,
}

impl Room {
    /// Leaves `kept_bytes` free; 0: writes until the disk says no.
    pub const fn keeping(kept_bytes: u64) -> Self {
        Self { kept_bytes, written: 0, look_at: 0 }
    }

    /// To be told of every piece that is about to be written to `file`.
    ///
    /// # Errors
    /// `NoRoom`; the piece is not to be written then.
    pub fn take(&mut self, bytes: u64, file: &impl AsFd) -> Result<(), ArchiveError> {
        self.written += bytes;
        if self.kept_bytes == 0 || self.written < self.look_at {
            return Ok(());
        }
        self.look_at = self.written + LOOK_EVERY_BYTES;
        has_room(file, bytes, self.kept_bytes)
    }

    /// Bytes so far.
    pub const fn written(&self) -> u64 {
        self.written
    }
}

/// Whether so much can be written where `file` is with `kept_bytes` left.
///
/// # Errors
/// `NoRoom` when it cannot.
pub fn has_room(file: &impl AsFd, bytes: u64, kept_bytes: u64) -> Result<(), ArchiveError> {
    let about = fstatvfs(file).when(|| "the room on the disk could not be read".to_owned())?;
    let free_bytes = about.f_bavail.saturating_mul(about.f_frsize);
    if free_bytes >= bytes.saturating_add(kept_bytes) {
        return Ok(());
    }
    Err(ArchiveError::NoRoom { free_bytes, kept_bytes })
}
