//! Layers: made beside, then moved to their place; claimed while a pull needs them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::sync::OwnedMutexGuard;

use super::{ImageStore, sync_dir};
use crate::error::{ImageError, While};
use crate::name::Digest;
use crate::unpack;

/// One layer of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Digest of its tar stream before compression.
    pub diff_id: Digest,
    /// Bytes of its files.
    pub bytes: u64,
}

/// A layer that is unpacked and not yet in its place; dropped, it is gone.
#[derive(Debug)]
pub(crate) struct NewLayer {
    layer: Layer,
    directory: TempDir,
}

/// Layers that a pull or an import counts on: they are not collected meanwhile.
#[derive(Debug, Clone, Default)]
pub(super) struct Claims(Arc<Mutex<HashMap<Digest, usize>>>);

/// Who may download a blob now.
pub(super) type Turns = Arc<Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>>;

/// Ends its claims when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    digests: Vec<Digest>,
}

impl Claims {
    fn claim(&self, digests: Vec<Digest>) -> Claim {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for digest in &digests {
            *held.entry(digest.clone()).or_default() += 1;
        }
        Claim { claims: self.clone(), digests }
    }

    pub(super) fn holds(&self, digest: &Digest) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(digest)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.claims.0.lock().unwrap_or_else(PoisonError::into_inner);
        for digest in &self.digests {
            if let Some(count) = held.get_mut(digest) {
                *count -= 1;
                if *count == 0 {
                    held.remove(digest);
                }
            }
        }
    }
}

impl ImageStore {
    /// Keeps these digests (of layers or downloads) from being collected while the claim lives.
    pub(crate) fn claim(&self, digests: Vec<Digest>) -> Claim {
        self.claims.claim(digests)
    }

    /// The layer, when it is here.
    pub(crate) fn layer(&self, diff_id: &Digest) -> Result<Option<Layer>, ImageError> {
        match fs::read_to_string(self.layer_path(diff_id).join("bytes")) {
            Ok(text) => {
                let bytes = text.trim().parse().map_err(io::Error::other);
                let bytes = bytes.when("a layer's size is not readable")?;
                Ok(Some(Layer { diff_id: diff_id.clone(), bytes }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ImageError::io("a layer is not readable", &error)),
        }
    }

    /// Unpacks a layer's stream, compressed or not, and checks that it is the one expected.
    /// Blocks: for a thread that may.
    pub(crate) fn unpack(
        &self,
        stream: impl Read,
        expected: &Digest,
    ) -> Result<NewLayer, ImageError> {
        let doing = "a layer could not be unpacked";
        let directory = TempDir::with_prefix_in("layer-", self.staging()).when(doing)?;
        let files = directory.path().join("fs");
        fs::create_dir(&files).when(doing)?;
        let root = File::open(&files).when(doing)?;
        let unpacked = unpack::unpack(stream, root.into(), self.owners, self.whiteouts)?;
        if unpacked.diff_id != *expected {
            let message =
                format!("a layer's content is {}, the image says {expected}", unpacked.diff_id);
            return Err(ImageError::invalid("WrongDigest", message));
        }
        fs::write(directory.path().join("bytes"), unpacked.bytes.to_string()).when(doing)?;
        let layer = Layer { diff_id: unpacked.diff_id, bytes: unpacked.bytes };
        Ok(NewLayer { layer, directory })
    }

    /// Puts an unpacked layer in its place, on disk before this returns.
    pub(crate) fn settle(&self, new: NewLayer) -> Result<(), ImageError> {
        let doing = "a layer could not be put in its place";
        let places = self.root.join("layers");
        rustix::fs::syncfs(File::open(&places).when(doing)?).when(doing)?;
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.layer_path(&new.layer.diff_id);
        match fs::rename(new.directory.path(), &place) {
            // The directory is elsewhere now: nothing is left to be removed.
            Ok(()) => drop(new.directory.keep()),
            // Another pull was quicker; its layer is the same one.
            Err(_) if self.layer(&new.layer.diff_id)?.is_some() => {}
            Err(error) => return Err(ImageError::io(doing, &error)),
        }
        sync_dir(&places).when(doing)
    }

    /// Waits for the turn to download a blob: two pulls of one image share the download's file.
    pub(crate) async fn turn(&self, digest: &Digest) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(digest).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(digest.clone(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}
