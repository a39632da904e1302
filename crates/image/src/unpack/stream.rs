//! The bytes of a layer before compression, hashed as they pass.

use std::io::{self, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use crate::error::{ImageError, While};
use crate::name::Digest;

const BUFFER_BYTES: usize = 128 * 1024;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Reads what the layer holds, whatever it is wrapped in.
pub(crate) struct Stream<'a> {
    plain: Box<dyn Read + 'a>,
    hash: Sha256,
}

impl<'a> Stream<'a> {
    /// Finds the compression by the first bytes: media types are often wrong.
    pub(crate) fn new(source: impl Read + 'a) -> Result<Self, ImageError> {
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let mut first = Vec::with_capacity(4);
        source.by_ref().take(4).read_to_end(&mut first).when("an archive could not be read")?;
        let kind = first.clone();
        let whole = Cursor::new(first).chain(source);
        let plain: Box<dyn Read + 'a> = if kind.starts_with(GZIP) {
            Box::new(MultiGzDecoder::new(whole))
        } else if kind.starts_with(ZSTD) {
            let decoder = ruzstd::decoding::StreamingDecoder::new(whole).map_err(|error| {
                ImageError::invalid(
                    "InvalidArchive",
                    format!("an archive is no zstd stream: {error}"),
                )
            })?;
            Box::new(decoder)
        } else {
            Box::new(whole)
        };
        Ok(Self { plain, hash: Sha256::new() })
    }

    /// Reads what follows the archive's end and gives the digest of all.
    ///
    /// Padding is zeros and compresses to nothing, so what may follow is bounded.
    pub(super) fn finish(mut self) -> Result<Digest, ImageError> {
        const MOST_PADDING_BYTES: u64 = 64 << 20;
        let rest = io::copy(&mut self.by_ref().take(MOST_PADDING_BYTES), &mut io::sink());
        let rest = rest.map_err(|error| unreadable(&error))?;
        if rest == MOST_PADDING_BYTES {
            return Err(ImageError::invalid("InvalidArchive", "an archive goes on after its end"));
        }
        Ok(Digest::from_hash(&self.hash.finalize()))
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.plain.read(into)?;
        self.hash.update(&into[..read]);
        Ok(read)
    }
}

/// Broken compression and a cut stream are faults of the layer, not of this machine.
pub(super) fn unreadable(error: &io::Error) -> ImageError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::Other => {
            ImageError::invalid("InvalidArchive", format!("an archive is damaged: {error}"))
        }
        _ => ImageError::io("an archive could not be read", error),
    }
}
