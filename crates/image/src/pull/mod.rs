//! An image from a registry, or from a mirror of it, into the store.
//!
//! What was downloaded is kept over cut connections, over errors and over a killed process: the next
//! try goes on behind it. There is no deadline on the whole, only on silence. A dropped future stops
//! at the next byte and leaves nothing that the next pull would stumble on.

mod blob;
mod credentials;
mod failure;
mod progress;
mod registry;

pub use progress::{Progress, ProgressSink};

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::config::{self, ParsedConfig};
use crate::error::{ErrorKind, ImageError, While};
use crate::name::{Digest, ImageName};
use crate::store::{ImageStore, StoredImage};

use registry::{Descriptor, Manifest, Registry};

/// As Docker's default: more connections than this gain nothing and are taken for abuse.
const LAYERS_AT_ONCE: usize = 3;
/// The specification's bound is far higher, overlayfs takes 500; Docker stops at 127.
const MOST_LAYERS: usize = 127;

/// Asked before a registry, for that registry's images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// The registry it stands for: `docker.io`.
    pub of: String,
    /// Where it is: `HOST[:PORT]`.
    pub at: String,
}

/// How registries are reached.
#[derive(Debug, Clone, Default)]
pub struct PullOptions {
    /// Asked in this order, the registry itself last.
    pub mirrors: Vec<Mirror>,
    /// `HOST[:PORT]` spoken to without TLS, besides those of this machine.
    pub insecure: Vec<String>,
    /// More certificate authorities to trust, PEM.
    pub authorities: Vec<Vec<u8>>,
    /// Docker's `config.json`; `None`: where `docker login` of this process's user writes it.
    pub credentials: Option<PathBuf>,
}

/// Pulls images into one store.
#[derive(Debug, Clone)]
pub struct Puller {
    store: ImageStore,
    options: Arc<PullOptions>,
}

impl Puller {
    /// A puller for this store.
    pub fn new(store: ImageStore, options: PullOptions) -> Self {
        // Fails when one is installed already, which is all that is wanted.
        drop(rustls::crypto::ring::default_provider().install_default());
        Self { store, options: Arc::new(options) }
    }

    /// Fetches what is missing of the image and lets the name mean it.
    ///
    /// # Errors
    /// `Unavailable` and `Exhausted` are worth another try; `NotFound`, `Denied` and `Invalid` not
    /// until something changes outside. When mirrors failed too, the message names each.
    pub async fn pull(
        &self,
        name: &ImageName,
        progress: ProgressSink,
    ) -> Result<StoredImage, ImageError> {
        let mirrors = self.options.mirrors.iter().filter(|mirror| mirror.of == name.registry());
        let mut failures = Vec::new();
        for mirror in mirrors {
            let registry = Registry::open(name, Some(&mirror.at), &self.options).await?;
            match self.pull_from(&registry, name, &progress).await {
                Ok(image) => return Ok(image),
                Err(error) if error.kind == ErrorKind::Exhausted => return Err(error),
                Err(error) => failures.push(format!("mirror {}: {error}", mirror.at)),
            }
        }
        let registry = Registry::open(name, None, &self.options).await?;
        self.pull_from(&registry, name, &progress).await.map_err(|mut error| {
            for failure in &failures {
                error.message = format!("{}; {failure}", error.message);
            }
            error
        })
    }

    async fn pull_from(
        &self,
        registry: &Registry,
        name: &ImageName,
        progress: &ProgressSink,
    ) -> Result<StoredImage, ImageError> {
        registry.log_in().await?;
        let manifest = registry.manifest().await?;
        let ParsedConfig { config, diff_ids } = self.config(registry, &manifest).await?;
        if diff_ids.len() != manifest.layers.len() || diff_ids.len() > MOST_LAYERS {
            let message = format!(
                "the image names {} layers and {} contents; they must be as many, at most \
                 {MOST_LAYERS}",
                manifest.layers.len(),
                diff_ids.len()
            );
            return Err(ImageError::invalid("InvalidImage", message));
        }
        progress(Progress::Resolved { digest: manifest.digest.clone(), layers: diff_ids.len() });

        let downloads = manifest.layers.iter().map(|layer| layer.digest.clone());
        let _claim = self.store.claim(downloads.chain(diff_ids.iter().cloned()).collect());
        self.layers(registry, &manifest.layers, &diff_ids, progress).await?;

        let store = self.store.clone();
        let name = name.clone();
        blocking(move || {
            let layers: Result<Vec<_>, ImageError> = diff_ids
                .iter()
                .map(|diff_id| {
                    let layer = store.layer(diff_id)?;
                    layer.ok_or_else(|| ImageError::not_found(format!("layer {diff_id} is gone")))
                })
                .collect();
            let image = StoredImage {
                id: manifest.config.digest,
                manifests: BTreeSet::from([manifest.digest]),
                config,
                layers: layers?,
                stored_at_ms: 0,
            };
            store.put(&image, Some(&name))
        })
        .await
    }

    async fn config(
        &self,
        registry: &Registry,
        manifest: &Manifest,
    ) -> Result<ParsedConfig, ImageError> {
        if manifest.config.bytes > config::MAX_DOCUMENT_BYTES as u64 {
            return Err(ImageError::invalid(
                "InvalidImage",
                "the image's configuration is longer than 4 MiB",
            ));
        }
        let _turn = self.store.turn(&manifest.config.digest).await;
        let path = self.download(registry, &manifest.config, &progress::silent()).await?;
        blocking(move || {
            let bytes = std::fs::read(&path).when("a configuration is not readable")?;
            std::fs::remove_file(&path).when("a download could not be removed")?;
            config::parse(&bytes)
        })
        .await
    }

    /// Every layer that is not here: downloaded, unpacked, put in its place as soon as it is whole,
    /// so that a pull that ends half-way has not worked for nothing.
    async fn layers(
        &self,
        registry: &Registry,
        layers: &[Descriptor],
        diff_ids: &[Digest],
        progress: &ProgressSink,
    ) -> Result<(), ImageError> {
        let mut wanted: Vec<(usize, &Descriptor, &Digest)> = Vec::new();
        for (index, (layer, diff_id)) in layers.iter().zip(diff_ids).enumerate() {
            if self.store.layer(diff_id)?.is_some() {
                progress(Progress::Here { layer: index });
            } else if wanted.iter().all(|(_, _, known)| *known != diff_id) {
                wanted.push((index, layer, diff_id));
            }
        }
        stream::iter(wanted)
            .map(|(index, layer, diff_id)| self.layer(registry, index, layer, diff_id, progress))
            .buffer_unordered(LAYERS_AT_ONCE)
            .try_collect()
            .await
    }

    async fn layer(
        &self,
        registry: &Registry,
        index: usize,
        layer: &Descriptor,
        diff_id: &Digest,
        progress: &ProgressSink,
    ) -> Result<(), ImageError> {
        let _turn = self.store.turn(&layer.digest).await;
        if self.store.layer(diff_id)?.is_some() {
            progress(Progress::Here { layer: index });
            return Ok(());
        }
        let path = self
            .download(registry, layer, &progress::of_layer(progress.clone(), index, layer.bytes))
            .await?;
        progress(Progress::Unpacking { layer: index });
        let (store, diff_id) = (self.store.clone(), diff_id.clone());
        blocking(move || {
            let new = store.unpack(File::open(&path).when("a layer is not readable")?, &diff_id);
            // Whole or wrong, the download has served: a layer that cannot be unpacked is not kept
            // to fail again. On a full disk it is room.
            std::fs::remove_file(&path).when("a download could not be removed")?;
            store.settle(new?)
        })
        .await?;
        progress(Progress::Here { layer: index });
        Ok(())
    }
}

/// Work that waits for the disk, on a thread that may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ImageError::io("work on an image ended", &std::io::Error::other(error))),
    }
}
