//! Taking images away: a name, an image, layers that no image has.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{ImageStore, StoredImage, remove};
use crate::error::{ErrorKind, ImageError, While};
use crate::name::{Digest, ImageName};

/// What was taken away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// Names that mean nothing any more, sorted.
    pub names: Vec<String>,
    /// Images that are gone.
    pub images: Vec<Digest>,
    /// Bytes of the layers that went with them.
    pub bytes: u64,
}

impl ImageStore {
    /// Takes a name away, and the image too when nothing else needs it.
    ///
    /// With a pinned digest, all names of that image. `in_use`: ids of images that sandboxes have,
    /// running or not; an image of them is left whole and answered with `InUse`.
    pub fn delete(
        &self,
        name: &ImageName,
        in_use: &HashSet<Digest>,
    ) -> Result<Removed, ImageError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let image = self
            .find(name)?
            .ok_or_else(|| ImageError::not_found(format!("there is no image {name} here")))?;
        let all: Vec<String> = self
            .names()?
            .into_iter()
            .filter(|named| named.id == image.id)
            .map(|named| named.name)
            .collect();
        let going: Vec<String> = match name.pinned() {
            Some(_) => all.clone(),
            None => vec![name.to_string()],
        };
        let last = going.len() == all.len();
        if last && in_use.contains(&image.id) {
            return Err(ImageError {
                kind: ErrorKind::InUse,
                reason: "ImageInUse",
                message: format!("a sandbox uses the image {name}"),
            });
        }
        for going in &going {
            remove(&self.name_path(going)).when("a name could not be removed")?;
        }
        let mut removed = Removed { names: going, ..Removed::default() };
        removed.names.sort();
        if last {
            self.forget(&image, &mut removed)?;
        }
        Ok(removed)
    }

    /// Takes away every image that neither a name nor a sandbox has, every layer that no image
    /// has, and downloads that nobody goes on with.
    pub fn collect(&self, in_use: &HashSet<Digest>) -> Result<Removed, ImageError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let named: HashSet<Digest> = self.names()?.into_iter().map(|named| named.id).collect();
        let mut removed = Removed::default();
        for image in self.records()? {
            if !named.contains(&image.id) && !in_use.contains(&image.id) {
                remove(&self.record_path(&image.id)).when("an image could not be removed")?;
                removed.images.push(image.id);
            }
        }
        self.drop_layers(&mut removed)?;
        self.drop_downloads()?;
        Ok(removed)
    }

    fn forget(&self, image: &StoredImage, removed: &mut Removed) -> Result<(), ImageError> {
        remove(&self.record_path(&image.id)).when("an image could not be removed")?;
        removed.images.push(image.id.clone());
        self.drop_layers(removed)
    }

    /// Records are the only reason for a layer to be here, pulls on their way aside. A record that
    /// cannot be read keeps every layer: what it needs is not known.
    fn drop_layers(&self, removed: &mut Removed) -> Result<(), ImageError> {
        let records = self.records()?;
        let unread = entries(&self.root.join("images"))?.len() - records.len();
        if unread > 0 {
            tracing::warn!(unread, "layers are kept: an image's record is damaged");
            return Ok(());
        }
        let needed: HashSet<Digest> =
            records.into_iter().flat_map(|image| image.layers).map(|layer| layer.diff_id).collect();
        for path in entries(&self.root.join("layers"))? {
            let Some(diff_id) = digest_of(&path) else { continue };
            if needed.contains(&diff_id) || self.claims.holds(&diff_id) {
                continue;
            }
            removed.bytes += self.layer(&diff_id).ok().flatten().map_or(0, |layer| layer.bytes);
            self.take_away(&path)?;
        }
        Ok(())
    }

    fn drop_downloads(&self) -> Result<(), ImageError> {
        for path in entries(&self.root.join("partial"))? {
            if digest_of(&path).is_none_or(|digest| !self.claims.holds(&digest)) {
                remove(&path).when("a download could not be removed")?;
            }
        }
        Ok(())
    }

    /// Out of its place by one rename, so that a crash leaves no half of a layer there.
    fn take_away(&self, path: &Path) -> Result<(), ImageError> {
        let doing = "a layer could not be removed";
        let away = tempfile::TempDir::with_prefix_in("gone-", self.staging()).when(doing)?;
        fs::rename(path, away.path().join("layer")).when(doing)?;
        away.close().when(doing)
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, ImageError> {
    let doing = "the directory of images is not readable";
    fs::read_dir(directory).when(doing)?.map(|entry| Ok(entry.when(doing)?.path())).collect()
}

fn digest_of(path: &Path) -> Option<Digest> {
    format!("sha256:{}", path.file_name()?.to_str()?).parse().ok()
}
