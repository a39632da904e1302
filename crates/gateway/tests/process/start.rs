//! Starting: one per home, at any path, soon, and over what a killed one left.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::process::Signal;
use sandkeep_gateway::home::{holder, socket_of};

use crate::child::Gateway;
use crate::client::{create_many, list, status};

#[test]
fn a_second_gateway_is_told_who_holds_the_home_and_the_first_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let first = Gateway::serving(&home);
    let (ended, words) = Gateway::spawn(&home).ended();
    assert_eq!(ended.code(), Some(4), "{words}");
    let pid = first.process.id().to_string();
    assert!(words.contains("HomeHeld") && words.contains(&pid), "{words}");
    assert_eq!(status(&home).pid, first.process.id());
    assert_eq!(holder(&home).unwrap().pid, Some(first.process.id()));
}

#[test]
fn home_and_socket_are_private() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let _gateway = Gateway::serving(&home);
    assert_eq!(fs::metadata(&home).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(socket_of(&home)).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(home.join("gateway.db")).unwrap().mode() & 0o077, 0);
}

#[test]
fn a_home_with_a_path_of_two_hundred_bytes_serves() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("d".repeat(100)).join("e".repeat(100));
    let gateway = Gateway::serving(&home);
    assert_eq!(status(&home).home, home.display().to_string());
    let (ended, words) = gateway.stop();
    assert!(ended.success(), "{words}");
}

#[test]
fn what_a_killed_gateway_left_is_taken_over() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let first = Gateway::serving(&home);
    create_many(&home, 3);
    let before = status(&home).gateway_id;
    first.signal(Signal::KILL);
    first.ended();
    assert!(socket_of(&home).exists());
    let second = Gateway::serving(&home);
    assert_eq!(status(&home).pid, second.process.id());
    assert_eq!((list(&home).len(), status(&home).gateway_id), (3, before));
}

/// The aim is 300 ms from the start of the process with 1,000 records. The bound here leaves room
/// for a machine that builds beside it. `SANDKEEP_TEST_RECORDS` sets another number of records.
#[test]
fn a_thousand_records_are_served_soon() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    let first = Gateway::serving(&home);
    let records = std::env::var("SANDKEEP_TEST_RECORDS").ok();
    let records = records.map_or(1000, |records| records.parse().unwrap());
    create_many(&home, records);
    let (ended, words) = first.stop();
    assert!(ended.success(), "{words}");
    let started = tokio::time::Instant::now();
    let _second = Gateway::serving(&home);
    let served = started.elapsed();
    let asked = tokio::time::Instant::now();
    let listed = list(&home).len();
    println!("serving after {served:?}, {listed} listed within {:?}", asked.elapsed());
    assert_eq!(listed, records);
    assert!(served.as_millis() < 3000, "{served:?}");
}
