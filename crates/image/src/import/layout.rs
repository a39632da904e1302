//! An OCI image layout: `index.json` leads by digests to everything, all of it in `blobs/`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Found;
use super::source::Source;
use crate::config::architecture;
use crate::error::ImageError;
use crate::name::{Digest, ImageName};

/// A list may name a list once; what goes deeper goes round.
const DEEPEST_LIST: usize = 2;
/// containerd's annotation bears the whole name; the specification's only a tag.
const NAME: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    manifests: Vec<Pointer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    #[serde(default)]
    media_type: String,
    digest: Digest,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    platform: Option<Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Pointer,
    #[serde(default)]
    layers: Vec<Pointer>,
}

/// The images of a layout; none when it is not one.
pub(super) fn images(source: &Source) -> Result<Vec<Found>, ImageError> {
    let Some(bytes) = source.optional("index.json")? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for pointer in read::<Index>(&bytes, "index.json")?.manifests {
        follow(source, &pointer, &names(&pointer), 0, &mut found)?;
    }
    Ok(found)
}

fn follow(
    source: &Source,
    pointer: &Pointer,
    names: &[ImageName],
    depth: usize,
    found: &mut Vec<Found>,
) -> Result<(), ImageError> {
    if !for_this_machine(pointer) {
        return Ok(());
    }
    let bytes = blob(source, &pointer.digest)?;
    let list = pointer.media_type.contains("index") || pointer.media_type.contains("manifest.list");
    if list {
        if depth == DEEPEST_LIST {
            return Err(ImageError::invalid("InvalidImage", "its lists of manifests go too deep"));
        }
        for below in read::<Index>(&bytes, "a list of manifests")?.manifests {
            follow(source, &below, names, depth + 1, found)?;
        }
        return Ok(());
    }
    let manifest: Manifest = read(&bytes, "a manifest")?;
    found.push(Found {
        manifest: Some(pointer.digest.clone()),
        config: path(&manifest.config.digest),
        id: Some(manifest.config.digest),
        layers: manifest.layers.iter().map(|layer| path(&layer.digest)).collect(),
        names: names.to_vec(),
    });
    Ok(())
}

/// One that says no platform is taken: most layouts hold one image and say nothing.
fn for_this_machine(pointer: &Pointer) -> bool {
    pointer
        .platform
        .as_ref()
        .is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture())
}

/// A tag alone (`latest`) names no image and is left out.
fn names(pointer: &Pointer) -> Vec<ImageName> {
    let annotation = |key: &&str| pointer.annotations.as_ref()?.get(*key).cloned();
    let name = NAME.iter().find_map(annotation);
    let whole = name.filter(|name| name.contains([':', '/']));
    whole.and_then(|name| name.parse().ok()).into_iter().collect()
}

fn blob(source: &Source, digest: &Digest) -> Result<Vec<u8>, ImageError> {
    let bytes = source.document(&path(digest))?;
    if Digest::of(&bytes) == *digest {
        Ok(bytes)
    } else {
        Err(ImageError::invalid("WrongDigest", format!("{} is damaged", path(digest))))
    }
}

fn path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, ImageError> {
    serde_json::from_slice(bytes).map_err(|error| {
        ImageError::invalid("InvalidImage", format!("{what} is not valid: {error}"))
    })
}
