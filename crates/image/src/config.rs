//! What an image says about how its program is run.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ImageError;
use crate::name::Digest;

/// Larger configurations are refused: the specification's own bound for a manifest.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// The part of an image's configuration that Sandkeep honours.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageConfig {
    /// `name|uid[:group|gid]`; empty: root.
    #[serde(deserialize_with = "null_as_default")]
    pub user: String,
    /// `KEY=VALUE`, in the image's order.
    #[serde(deserialize_with = "null_as_default")]
    pub env: Vec<String>,
    /// What always runs; the command is appended to it.
    #[serde(deserialize_with = "null_as_default")]
    pub entrypoint: Vec<String>,
    /// What runs when the user names no command.
    #[serde(deserialize_with = "null_as_default")]
    pub cmd: Vec<String>,
    /// Empty: none given.
    #[serde(deserialize_with = "null_as_default")]
    pub working_dir: String,
    /// A name (`SIGQUIT`) or a number; empty: SIGTERM.
    #[serde(deserialize_with = "null_as_default")]
    pub stop_signal: String,
    /// Paths that the image wants as places of their own.
    #[serde(deserialize_with = "keys")]
    pub volumes: Vec<String>,
    /// `PORT/PROTOCOL` that it serves.
    #[serde(deserialize_with = "keys")]
    pub exposed_ports: Vec<String>,
    /// The image's labels.
    #[serde(deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
}

impl ImageConfig {
    /// The whole argv: the image's entry point, then `command` or, when that is empty, the image's.
    pub fn argv(&self, command: &[String]) -> Vec<String> {
        let rest = if command.is_empty() { &self.cmd } else { command };
        self.entrypoint.iter().chain(rest).cloned().collect()
    }
}

/// A configuration with the digests of the layers' contents, lowest first.
#[derive(Debug)]
pub(crate) struct ParsedConfig {
    pub(crate) config: ImageConfig,
    pub(crate) diff_ids: Vec<Digest>,
}

/// Reads the JSON that the manifest names.
pub(crate) fn parse(bytes: &[u8]) -> Result<ParsedConfig, ImageError> {
    #[derive(Deserialize)]
    struct Document {
        #[serde(default, deserialize_with = "null_as_default")]
        os: String,
        #[serde(default, deserialize_with = "null_as_default")]
        architecture: String,
        #[serde(default, deserialize_with = "null_as_default")]
        config: ImageConfig,
        rootfs: Rootfs,
    }
    #[derive(Deserialize)]
    struct Rootfs {
        #[serde(default, deserialize_with = "null_as_default")]
        diff_ids: Vec<Digest>,
    }

    let document: Document = serde_json::from_slice(bytes).map_err(|error| {
        ImageError::invalid(
            "InvalidImage",
            format!("the image's configuration is not valid: {error}"),
        )
    })?;
    if !document.os.is_empty() && document.os != "linux" {
        let message = format!("the image is for {}, not for Linux", document.os);
        return Err(ImageError::invalid("WrongPlatform", message));
    }
    if !document.architecture.is_empty() && document.architecture != architecture() {
        let message = format!(
            "the image is for the {} architecture; this machine is {}",
            document.architecture,
            architecture()
        );
        return Err(ImageError::invalid("WrongPlatform", message));
    }
    Ok(ParsedConfig { config: document.config, diff_ids: document.rootfs.diff_ids })
}

/// This machine's architecture as images name it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Docker writes sets as maps to empty objects; our own records as lists.
fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Set {
        Map(BTreeMap<String, serde_json::Value>),
        List(Vec<String>),
    }
    Ok(match Option::deserialize(deserializer)? {
        Some(Set::Map(map)) => map.into_keys().collect(),
        Some(Set::List(list)) => list,
        None => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockers_nulls_and_maps_are_read() {
        let parsed = parse(
            br#"{"os":"linux","config":{"User":"1000:10","Env":null,"Cmd":["sh"],"Entrypoint":null,
                "Volumes":{"/data":{}},"ExposedPorts":null},"rootfs":{"type":"layers","diff_ids":[]}}"#,
        )
        .unwrap();
        assert_eq!(parsed.config.user, "1000:10");
        assert_eq!(parsed.config.volumes, ["/data"]);
        assert_eq!(parsed.config.argv(&[]), ["sh"]);
    }

    #[test]
    fn a_record_of_ours_reads_back_as_it_was() {
        let config = ImageConfig {
            volumes: vec!["/v".into()],
            entrypoint: vec!["/run".into()],
            ..ImageConfig::default()
        };
        let text = serde_json::to_vec(&config).unwrap();
        assert_eq!(serde_json::from_slice::<ImageConfig>(&text).unwrap(), config);
        assert_eq!(config.argv(&["a".into()]), ["/run", "a"]);
    }

    #[test]
    fn another_platform_is_told_by_name() {
        let error = parse(br#"{"os":"windows","rootfs":{}}"#).unwrap_err();
        assert!(error.message.contains("windows"), "{error}");
        assert!(parse(br#"{"os":"linux","architecture":"s390x","rootfs":{}}"#).is_err());
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic() {
        for bad in [&b""[..], b"{}", b"[]", b"{\"rootfs\":{\"diff_ids\":[\"sha256:x\"]}}", b"\xff"]
        {
            assert!(parse(bad).is_err());
        }
    }
}
