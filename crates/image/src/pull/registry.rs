//! One registry, or a mirror of it, asked for one image.

use std::time::Duration;

use oci_client::client::{Certificate, CertificateEncoding, Client, ClientConfig, ClientProtocol};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, ImageIndexEntry,
    OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciManifest,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, RegistryOperation};

use super::{PullOptions, blocking, credentials, failure, progress};
use crate::config::architecture;
use crate::error::ImageError;
use crate::name::{Digest, ImageName};

/// A registry that says nothing for so long is taken for gone. Not a bound on the whole.
const SILENCE: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(15);
const USER_AGENT: &str = concat!("sandkeep/", env!("CARGO_PKG_VERSION"));

pub(super) struct Registry {
    pub(super) client: Client,
    pub(super) reference: Reference,
    auth: RegistryAuth,
}

/// What the registry says an image is.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) digest: Digest,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

/// One download.
#[derive(Debug, Clone)]
pub(super) struct Descriptor {
    pub(super) digest: Digest,
    pub(super) bytes: u64,
}

impl Registry {
    /// Nothing is sent yet. `mirror`: asked in place of the name's own registry.
    pub(super) async fn open(
        name: &ImageName,
        mirror: Option<&str>,
        options: &PullOptions,
    ) -> Result<Self, ImageError> {
        let mut reference = name.reference().clone();
        if let Some(mirror) = mirror {
            reference.set_mirror_registry(mirror.to_owned());
        }
        let host = reference.resolve_registry().to_owned();
        let auth = {
            let host = mirror.map_or_else(|| name.registry().to_owned(), str::to_owned);
            let file = options.credentials.clone();
            blocking(move || credentials::of(&host, file.as_deref())).await?
        };
        let plain = is_this_machine(&host) || options.insecure.contains(&host);
        let authorities = options
            .authorities
            .iter()
            .map(|pem| Certificate { encoding: CertificateEncoding::Pem, data: pem.clone() });
        let config = ClientConfig {
            protocol: if plain { ClientProtocol::Http } else { ClientProtocol::Https },
            extra_root_certificates: authorities.collect(),
            read_timeout: Some(SILENCE),
            connect_timeout: Some(CONNECT),
            user_agent: USER_AGENT,
            ..ClientConfig::default()
        };
        let client = Client::try_from(config)
            .map_err(|error| failure::of("the registry client could not be set up", &error))?;
        Ok(Self { client, reference, auth })
    }

    /// Fetches a token where the registry wants one, so that a refusal is told as one.
    pub(super) async fn log_in(&self) -> Result<(), ImageError> {
        let answer = self.client.auth(&self.reference, &self.auth, RegistryOperation::Pull).await;
        answer.map(drop).map_err(|error| {
            failure::of(
                &format!("{} refuses the log-in", self.reference.resolve_registry()),
                &error,
            )
        })
    }

    /// The manifest for this machine, by the registry's list where the image has many.
    pub(super) async fn manifest(&self) -> Result<Manifest, ImageError> {
        let (manifest, digest) = self.document(&self.reference).await?;
        match manifest {
            OciManifest::Image(image) => described(digest, &image.config, &image.layers),
            OciManifest::ImageIndex(index) => {
                let ours = for_this_machine(&index.manifests)?;
                let reference = self.reference.clone_with_digest(ours.to_string());
                match self.document(&reference).await? {
                    (OciManifest::Image(image), digest) => {
                        described(digest, &image.config, &image.layers)
                    }
                    (OciManifest::ImageIndex(_), _) => Err(ImageError::invalid(
                        "InvalidImage",
                        "the registry's list of manifests names another list",
                    )),
                }
            }
        }
    }

    async fn document(&self, reference: &Reference) -> Result<(OciManifest, Digest), ImageError> {
        const ACCEPTED: &[&str] = &[
            OCI_IMAGE_MEDIA_TYPE,
            IMAGE_MANIFEST_MEDIA_TYPE,
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        ];
        let doing = format!("{} gave no manifest", reference.whole());
        let (bytes, digest) = super::blob::patiently(&progress::silent(), || async {
            let answer = self.client.pull_manifest_raw(reference, &self.auth, ACCEPTED).await;
            answer.map_err(|error| failure::of(&doing, &error))
        })
        .await?;
        let manifest = serde_json::from_slice(&bytes).map_err(|error| {
            ImageError::invalid("InvalidImage", format!("the manifest is not valid: {error}"))
        })?;
        Ok((manifest, digest.parse()?))
    }
}

/// Registries of this machine speak plain HTTP, as Docker takes it.
fn is_this_machine(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn for_this_machine(manifests: &[ImageIndexEntry]) -> Result<Digest, ImageError> {
    let fits = |entry: &&ImageIndexEntry| {
        entry.platform.as_ref().is_some_and(|platform| {
            platform.os.to_string() == "linux"
                && platform.architecture.to_string() == architecture()
        })
    };
    let entry = manifests.iter().find(fits).ok_or_else(|| {
        let message = format!("the image has no manifest for linux/{}", architecture());
        ImageError::invalid("WrongPlatform", message)
    })?;
    entry.digest.parse()
}

fn described(
    digest: Digest,
    config: &OciDescriptor,
    layers: &[OciDescriptor],
) -> Result<Manifest, ImageError> {
    let one = |descriptor: &OciDescriptor| -> Result<Descriptor, ImageError> {
        let bytes = u64::try_from(descriptor.size).map_err(|_| {
            ImageError::invalid("InvalidImage", "the manifest gives a size below zero")
        })?;
        Ok(Descriptor { digest: descriptor.digest.parse()?, bytes })
    };
    let layers: Result<Vec<_>, _> = layers.iter().map(one).collect();
    Ok(Manifest { digest, config: one(config)?, layers: layers? })
}
