//! Labels follow the rules of Kubernetes, so that every backend can carry them.

use std::collections::BTreeMap;

use super::{quoted, refuse};
use crate::refusal::Refusal;

/// More than anybody tells apart, few enough for every backend's annotations.
const LABELS_MAX: usize = 64;

const PART_MAX_BYTES: usize = 63;
const PREFIX_MAX_BYTES: usize = 253;

/// What Sandkeep itself writes on backends.
const OWN_PREFIX: &str = "sandkeep";

pub(super) fn check(labels: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if labels.len() > LABELS_MAX {
        return Err(refuse(
            "TooManyLabels",
            format!("{} labels are given; at most {LABELS_MAX} are allowed", labels.len()),
            "keep what is not used for selecting in a file in /workspace",
        ));
    }
    for (key, value) in labels {
        check_key(key)?;
        if !value.is_empty() && !is_part(value) {
            return Err(refuse(
                "InvalidLabel",
                format!("the label {} cannot have the value {}", quoted(key), quoted(value)),
                "a value has up to 63 of A-Z, a-z, 0-9, -, _ and ., a letter or digit at both ends",
            ));
        }
    }
    Ok(())
}

fn check_key(key: &str) -> Result<(), Refusal> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix == Some(OWN_PREFIX) {
        return Err(refuse(
            "InvalidLabel",
            format!("the label {} is Sandkeep's own", quoted(key)),
            "use another prefix, or none",
        ));
    }
    if is_part(name) && prefix.is_none_or(is_domain) {
        return Ok(());
    }
    Err(refuse(
        "InvalidLabel",
        format!("{} cannot be the key of a label", quoted(key)),
        "a key has up to 63 of A-Z, a-z, 0-9, -, _ and ., a letter or digit at both ends; \
         a domain and / may stand before it",
    ))
}

fn is_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= PART_MAX_BYTES
        && text.bytes().all(inner)
        && ends.iter().all(|end| end.is_some_and(|b| b.is_ascii_alphanumeric()))
}

fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= PREFIX_MAX_BYTES && text.split('.').all(label)
}
