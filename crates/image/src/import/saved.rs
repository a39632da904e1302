//! What `docker save` and `podman save` write: `manifest.json` names everything.

use serde::Deserialize;

use super::Found;
use super::source::Source;
use crate::error::ImageError;
use crate::name::ImageName;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Vec<String>,
}

/// The images of such a file; none when it is not one.
pub(super) fn images(source: &Source) -> Result<Vec<Found>, ImageError> {
    let Some(bytes) = source.optional("manifest.json")? else {
        return Ok(Vec::new());
    };
    let items: Vec<Item> = serde_json::from_slice(&bytes).map_err(|error| {
        ImageError::invalid("InvalidImage", format!("its manifest.json is not valid: {error}"))
    })?;
    items.into_iter().map(found).collect()
}

fn found(item: Item) -> Result<Found, ImageError> {
    let names: Result<Vec<ImageName>, _> =
        item.repo_tags.unwrap_or_default().iter().map(|tag| tag.parse()).collect();
    Ok(Found { manifest: None, id: None, config: item.config, layers: item.layers, names: names? })
}
