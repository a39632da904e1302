//! What is written down about an image and about a name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Layer, sync_dir};
use crate::config::ImageConfig;
use crate::error::{ImageError, While};
use crate::name::Digest;

/// One image that is here, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredImage {
    /// Digest of its configuration: the same wherever the image came from.
    pub id: Digest,
    /// Digests under which registries know it; empty for one that came from a docker archive.
    pub manifests: BTreeSet<Digest>,
    /// How its program is run.
    pub config: ImageConfig,
    /// Lowest first.
    pub layers: Vec<Layer>,
    /// When its record was written last, milliseconds since 1970 (the file's own time).
    #[serde(skip)]
    pub stored_at_ms: u64,
}

impl StoredImage {
    /// Bytes of all its layers unpacked, those shared with other images included.
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.bytes).sum()
    }

    /// Whether a pinned digest means this image: the manifest's, or the id itself.
    pub fn answers_to(&self, digest: &Digest) -> bool {
        self.id == *digest || self.manifests.contains(digest)
    }
}

/// One name and what it means now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) id: Digest,
}

/// Reads an image's record with the time it was written.
pub(super) fn read_image(path: &Path) -> Result<Option<StoredImage>, ImageError> {
    let Some(mut image) = read::<StoredImage>(path)? else {
        return Ok(None);
    };
    let modified = fs::metadata(path).and_then(|about| about.modified());
    let since = modified.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    image.stored_at_ms =
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    Ok(Some(image))
}

/// Reads one document. `None`: there is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ImageError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ImageError::io("an image's record is not readable", &error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let message = format!("{} is damaged: {error}", path.display());
            ImageError::invalid("ImageRecordDamaged", message)
        }),
    }
}

/// Reads every document of a directory; a damaged one is named in the log and left out, so that it
/// costs its own image and nothing else.
pub(super) fn read_all<T>(
    directory: &Path,
    read: impl Fn(&Path) -> Result<Option<T>, ImageError>,
) -> Result<Vec<T>, ImageError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).when("the directory of images is not readable")? {
        let path = entry.when("the directory of images is not readable")?.path();
        match read(&path) {
            Ok(document) => found.extend(document),
            Err(error) => tracing::warn!(%error, "an image's record was left out"),
        }
    }
    Ok(found)
}

/// Writes one document so that it is whole or not there, also after a power loss.
pub(super) fn write<T: Serialize>(
    staging: &Path,
    path: &Path,
    document: &T,
) -> Result<(), ImageError> {
    let doing = "an image's record could not be written";
    let bytes = serde_json::to_vec(document)
        .map_err(|error| ImageError::io(doing, &io::Error::other(error)))?;
    let mut file = tempfile::NamedTempFile::new_in(staging).when(doing)?;
    file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).when(doing)?;
    file.persist(path).map_err(|error| error.error).when(doing)?;
    path.parent().map_or(Ok(()), sync_dir).when(doing)
}
