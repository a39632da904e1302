//! Room on the disk, looked at while an image is written: it never takes the last of it.

use std::os::fd::AsFd;

use rustix::fs::fstatvfs;

use crate::error::{ErrorKind, ImageError, While};

/// What an image leaves free: the host's own programs need a little, and Sandkeep's store too.
const KEPT_FREE_BYTES: u64 = 512 << 20;
/// How much is written before the disk is looked at again.
const LOOK_EVERY_BYTES: u64 = 64 << 20;

/// Counts what is written.
#[derive(Debug, Default)]
pub(crate) struct Room {
    written: u64,
    look_at: u64,
}

impl Room {
    /// To be told of every piece that is about to be written to `file`.
    pub(crate) fn take(&mut self, bytes: u64, file: &impl AsFd) -> Result<(), ImageError> {
        self.written += bytes;
        if self.written < self.look_at {
            return Ok(());
        }
        self.look_at = self.written + LOOK_EVERY_BYTES;
        has_room(file, bytes)
    }

    /// Bytes so far.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }
}

/// Whether so much can be written where `file` is, and enough is left.
pub(crate) fn has_room(file: &impl AsFd, bytes: u64) -> Result<(), ImageError> {
    let about = fstatvfs(file).when("the room on the disk could not be read")?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free >= bytes.saturating_add(KEPT_FREE_BYTES) {
        return Ok(());
    }
    Err(ImageError {
        kind: ErrorKind::Exhausted,
        reason: "DiskFull",
        message: format!(
            "the disk has {} MiB free; the image would leave less than {} MiB",
            free >> 20,
            KEPT_FREE_BYTES >> 20
        ),
    })
}
