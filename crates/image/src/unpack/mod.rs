//! A layer's tar stream made into an overlay's lower directory.
//!
//! Everything is made below one held directory; no name, symlink or hard link of the stream leads
//! out of it. Whiteouts become what overlayfs reads as such. Devices are left out (nothing may open
//! one in a sandbox), set-user-id bits and capabilities are dropped (nothing inside may gain by
//! them), attributes other than `user.` ones too: an overlay's own are not for an image to set.

mod place;
mod rooted;
mod stream;
mod tape;

use std::io::Read;
use std::os::fd::OwnedFd;

use crate::error::ImageError;
use crate::name::Digest;

use place::Placer;

pub(crate) use stream::Stream;
pub(crate) use tape::{Kind, Tape};

/// Whom the unpacked files belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The ids of the stream, as they are: root, or root of a user namespace with those ids.
    AsRecorded,
    /// Whoever unpacks: an ordinary user has no other ids to give.
    Ours,
}

/// How overlayfs is told that a name, or all below a directory, is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whiteouts {
    /// `trusted.overlay.` attributes: an overlay that the host's root mounts.
    Trusted,
    /// `user.overlay.` attributes: an overlay mounted with `userxattr`, in a user namespace.
    User,
}

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
    let mut stream = Stream::new(source)?;
    let mut placer = Placer::new(root, owners, whiteouts);
    let mut tape = Tape::new(&mut stream);
    while let Some(entry) = tape.next_entry()? {
        placer.place(&entry, &mut tape)?;
    }
    let bytes = placer.finish()?;
    Ok(Unpacked { diff_id: stream.finish()?, bytes })
}

#[cfg(test)]
mod tests;
