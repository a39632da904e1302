//! A layer's stream made into an overlay's lower directory.
//!
//! Everything is made below one held directory; no name, symlink or hard link of the stream leads
//! out of it. Whiteouts become what overlayfs reads as such.

mod stream;

use std::io::Read;
use std::os::fd::OwnedFd;

use sandkeep_archive::{Existing, Owners, ParentLinks, Rules, Tape, Whiteouts};

use crate::error::ImageError;
use crate::name::Digest;

pub(crate) use stream::Stream;

/// What an image leaves free: the host's own programs need a little, and Sandkeep's store too.
pub(crate) const KEPT_FREE_BYTES: u64 = 512 << 20;

/// A layer that was unpacked whole.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// Digest of the stream before compression.
    pub(crate) diff_id: Digest,
    /// Bytes of its files.
    pub(crate) bytes: u64,
}

/// Unpacks `source` (plain, gzip or zstd) below `root`.
pub(crate) fn unpack(
    source: impl Read,
    root: OwnedFd,
    owners: Owners,
    whiteouts: Whiteouts,
) -> Result<Unpacked, ImageError> {
    let rules = Rules {
        owners,
        links: ParentLinks::BelowRoot,
        existing: Existing::Replaced,
        whiteouts: Some(whiteouts),
        kept_free_bytes: KEPT_FREE_BYTES,
    };
    let mut stream = Stream::new(source)?;
    let counts = sandkeep_archive::unpack(&mut Tape::new(&mut stream), root, rules)?;
    Ok(Unpacked { diff_id: stream.finish()?, bytes: counts.bytes })
}

#[cfg(test)]
mod tests;
