//! The directory that holds all images, and the moves by which it changes.
//!
//! ```text
//! images/ID.json     one image: its configuration and its layers      (ID = digest of its config)
//! names/HASH.json    one name and the image it means now
//! layers/DIFF/fs     one layer's files, as an overlay's lower directory
//! partial/DIGEST     a download that goes on where it was cut
//! staging/           what is being made or taken away; emptied when the store is opened
//! ```
//! A layer or a record appears by one rename, after its bytes are on disk, so each is whole or not
//! there. An image's record is written after its layers, a name after the image.

mod collect;
mod layers;
mod record;

pub use collect::Removed;
pub use layers::Layer;
pub use record::StoredImage;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sandkeep_archive::{Owners, Whiteouts};

use crate::error::{ImageError, While};
use crate::name::{Digest, ImageName};

use layers::{Claims, Turns};

/// All images of one home. Cheap to clone; clones share what is being pulled.
#[derive(Debug, Clone)]
pub struct ImageStore {
    root: Arc<PathBuf>,
    owners: Owners,
    whiteouts: Whiteouts,
    claims: Claims,
    turns: Turns,
    /// Held while a record or a layer appears or goes; never across a download.
    changing: Arc<Mutex<()>>,
}

impl ImageStore {
    /// Opens the store in `root`, making what is not there and emptying what was left half-done.
    ///
    /// One process at a time: the caller holds the home's lock.
    pub fn open(root: &Path, owners: Owners, whiteouts: Whiteouts) -> Result<Self, ImageError> {
        for name in ["", "images", "names", "layers", "partial", "staging"] {
            private_dir(&root.join(name)).when("the directory of images could not be made")?;
        }
        let store = Self {
            root: Arc::new(root.to_owned()),
            owners,
            whiteouts,
            claims: Claims::default(),
            turns: Turns::default(),
            changing: Arc::default(),
        };
        for left in fs::read_dir(store.staging()).when("the directory of images is not readable")? {
            let left = left.when("the directory of images is not readable")?.path();
            remove(&left).when("what an import left could not be removed")?;
        }
        Ok(store)
    }

    /// Every image, newest first, with the names that mean it (sorted; may be none).
    pub fn list(&self) -> Result<Vec<(StoredImage, Vec<String>)>, ImageError> {
        let names = self.names()?;
        let mut images: Vec<_> = self
            .records()?
            .into_iter()
            .map(|image| {
                let mut mine: Vec<String> = names
                    .iter()
                    .filter(|named| named.id == image.id)
                    .map(|named| named.name.clone())
                    .collect();
                mine.sort();
                (image, mine)
            })
            .collect();
        images.sort_by(|(a, _), (b, _)| {
            b.stored_at_ms.cmp(&a.stored_at_ms).then_with(|| a.id.cmp(&b.id))
        });
        Ok(images)
    }

    /// The image that a name means here, or that has the digest it pins. `None`: not here.
    pub fn find(&self, name: &ImageName) -> Result<Option<StoredImage>, ImageError> {
        if let Some(pinned) = name.pinned() {
            return Ok(self.records()?.into_iter().find(|image| image.answers_to(&pinned)));
        }
        match self.named(&name.to_string())? {
            Some(named) => self.get(&named.id),
            None => Ok(None),
        }
    }

    /// The image with this id (digest of its configuration). `None`: not here.
    pub fn get(&self, id: &Digest) -> Result<Option<StoredImage>, ImageError> {
        record::read_image(&self.record_path(id))
    }

    /// An image's layers as an overlay's lower directories, topmost first.
    ///
    /// A layer that an image has twice is there once, at its topmost place: it covers its lower self,
    /// and an overlay refuses a directory named twice.
    pub fn lower_directories(&self, image: &StoredImage) -> Vec<PathBuf> {
        let mut seen = std::collections::HashSet::new();
        let topmost_first = image.layers.iter().rev();
        topmost_first
            .filter(|layer| seen.insert(&layer.diff_id))
            .map(|layer| self.layer_path(&layer.diff_id).join("fs"))
            .collect()
    }

    /// Writes the image, then its name, after its layers are here.
    pub(crate) fn put(
        &self,
        image: &StoredImage,
        name: Option<&ImageName>,
    ) -> Result<StoredImage, ImageError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut image = image.clone();
        match self.get(&image.id) {
            Ok(before) => image.manifests.extend(before.into_iter().flat_map(|was| was.manifests)),
            // What takes its place is whole.
            Err(error) => tracing::warn!(%error, "a damaged record is replaced"),
        }
        record::write(&self.staging(), &self.record_path(&image.id), &image)?;
        if let Some(name) = name {
            let name = name.to_string();
            let path = self.name_path(&name);
            record::write(&self.staging(), &path, &record::Named { name, id: image.id.clone() })?;
        }
        Ok(image)
    }

    fn records(&self) -> Result<Vec<StoredImage>, ImageError> {
        record::read_all(&self.root.join("images"), record::read_image)
    }

    fn names(&self) -> Result<Vec<record::Named>, ImageError> {
        record::read_all(&self.root.join("names"), record::read)
    }

    fn named(&self, name: &str) -> Result<Option<record::Named>, ImageError> {
        record::read(&self.name_path(name))
    }

    fn record_path(&self, id: &Digest) -> PathBuf {
        self.root.join("images").join(format!("{}.json", id.hex()))
    }

    fn name_path(&self, name: &str) -> PathBuf {
        self.root.join("names").join(format!("{}.json", Digest::of(name.as_bytes()).hex()))
    }

    fn layer_path(&self, diff_id: &Digest) -> PathBuf {
        self.root.join("layers").join(diff_id.hex())
    }

    pub(crate) fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("partial").join(digest.hex())
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }
}

/// Only the owner of the home reads images: they can hold anything.
fn private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Removes a file or a tree; what is not there is removed already.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
