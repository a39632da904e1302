//! The JSON contract, held against files: a change shows as a diff there.

use super::*;
use crate::render::golden::{check, full_sandbox};

#[test]
fn the_json_of_a_sandbox_is_as_in_the_contract() {
    let document = Sandbox::from(full_sandbox());
    check("sandbox.json", &serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn what_is_not_known_of_a_sandbox_is_null() {
    let document = Sandbox::from(v1::Sandbox { name: "new".into(), ..v1::Sandbox::default() });
    check("sandbox_bare.json", &serde_json::to_string_pretty(&document).unwrap());
}
