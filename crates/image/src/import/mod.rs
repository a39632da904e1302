//! An image from a file: what `docker save` writes, or an OCI layout, as an archive or a directory.
//!
//! An archive is spread into a place of its own first, since its table of contents may come last.
//! Only plain files are taken from it, under names that are ours.

mod layout;
mod saved;
mod source;

use std::path::Path;

use crate::error::ImageError;
use crate::name::{Digest, ImageName};
use crate::store::{ImageStore, StoredImage};
use crate::{config, store::Layer};

use source::Source;

/// One image of the file, before its layers are unpacked.
#[derive(Debug)]
struct Found {
    /// Of its manifest; `None` in what `docker save` wrote before it knew manifests.
    manifest: Option<Digest>,
    /// What its configuration must be; `None` where the file does not say.
    id: Option<Digest>,
    /// Path of its configuration in the source.
    config: String,
    /// Paths of its layers, lowest first.
    layers: Vec<String>,
    names: Vec<ImageName>,
}

/// Takes in every image of the archive or directory at `path` and gives them with their names.
///
/// `name`: what the image is to be called, in place of what the file says; only for a file with one
/// image. Blocks; for a thread that may.
///
/// # Errors
/// `Invalid` when the file is no such thing, `NotFound` when there is no file.
pub fn import(
    store: &ImageStore,
    path: &Path,
    name: Option<&ImageName>,
) -> Result<Vec<(StoredImage, Vec<ImageName>)>, ImageError> {
    let source = Source::open(path, &store.staging())?;
    let mut found = saved::images(&source)?;
    if found.is_empty() {
        found = layout::images(&source)?;
    }
    if found.is_empty() {
        return Err(ImageError::invalid(
            "NoImage",
            format!(
                "{} holds no image: there is neither a manifest.json nor an index.json",
                path.display()
            ),
        ));
    }
    match name {
        Some(_) if found.len() > 1 => {
            let message =
                format!("{} holds {} images; one name does not do", path.display(), found.len());
            return Err(ImageError::invalid("SeveralImages", message));
        }
        Some(name) => found[0].names = vec![name.clone()],
        None => {}
    }
    found.into_iter().map(|found| take_in(store, &source, found)).collect()
}

fn take_in(
    store: &ImageStore,
    source: &Source,
    found: Found,
) -> Result<(StoredImage, Vec<ImageName>), ImageError> {
    let bytes = source.document(&found.config)?;
    let id = Digest::of(&bytes);
    if found.id.is_some_and(|expected| expected != id) {
        return Err(ImageError::invalid("WrongDigest", format!("{} is damaged", found.config)));
    }
    let parsed = config::parse(&bytes)?;
    if parsed.diff_ids.len() != found.layers.len() {
        let message = format!(
            "the image names {} layers and {} contents",
            found.layers.len(),
            parsed.diff_ids.len()
        );
        return Err(ImageError::invalid("InvalidImage", message));
    }
    let _claim = store.claim(parsed.diff_ids.clone());
    let mut layers: Vec<Layer> = Vec::with_capacity(found.layers.len());
    for (path, diff_id) in found.layers.iter().zip(&parsed.diff_ids) {
        if store.layer(diff_id)?.is_none() {
            store.settle(store.unpack(source.file(path)?, diff_id)?)?;
        }
        layers.extend(store.layer(diff_id)?);
    }
    let image = StoredImage {
        id,
        manifests: found.manifest.into_iter().collect(),
        config: parsed.config,
        layers,
        stored_at_ms: 0,
    };
    let mut stored = store.put(&image, None)?;
    for name in &found.names {
        stored = store.put(&image, Some(name))?;
    }
    Ok((stored, found.names))
}
