//! Starts that are refused: each says what, why and what to do, and destroys nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::child::Gateway;
use crate::client::{create_many, list};

/// Starts a gateway, expects this refusal and exit code.
#[track_caller]
fn refused(home: &Path, reason: &str, code: i32) -> String {
    let (ended, words) = Gateway::spawn(home).ended();
    let line = words.lines().find(|line| line.starts_with(reason));
    let line = line.unwrap_or_else(|| panic!("{reason} is not in {words}"));
    assert_eq!(ended.code(), Some(code), "{words}");
    assert!(line.split(" | ").all(|part| !part.trim().is_empty()), "{line}");
    line.to_owned()
}

#[test]
fn a_home_that_others_could_read_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let (ended, words) = Gateway::serving(&home).stop();
    assert!(ended.success(), "{words}");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refused(&home, "HomeTooOpen", 7).contains("chmod 700"));
}

#[test]
fn a_home_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    refused(file.path(), "HomeUnusable", 1);
}

#[test]
fn a_damaged_store_is_refused_and_left_as_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let gateway = Gateway::serving(&home);
    create_many(&home, 2);
    let (ended, words) = gateway.stop();
    assert!(ended.success(), "{words}");
    let database = home.join("gateway.db");
    let good = fs::read(&database).unwrap();
    let damaged = b"this is no database at all, whoever wrote it".repeat(100);
    fs::write(&database, &damaged).unwrap();
    refused(&home, "StoreDamaged", 1);
    assert_eq!(fs::read(&database).unwrap(), damaged);
    fs::write(&database, good).unwrap();
    let _gateway = Gateway::serving(&home);
    assert_eq!(list(&home).len(), 2);
}

#[test]
fn something_else_in_place_of_the_socket_is_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("gateway.sock"), "precious").unwrap();
    refused(&home, "SocketUnusable", 1);
    assert_eq!(fs::read_to_string(home.join("gateway.sock")).unwrap(), "precious");
}
