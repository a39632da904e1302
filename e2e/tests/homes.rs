//! A home that is copied, moved or replaced: nothing of another home is ever touched, and nothing
//! goes on in the wrong place unsaid.

use std::fs;
use std::path::Path;
use std::process::Command;

use sandkeep_e2e::home::is_dead;
use sandkeep_e2e::leftovers::supervisors;
use sandkeep_e2e::{Home, until};
use serde_json::Value;

fn ready(home: &Home, name: &str) {
    home.run(&["create", "--name", name]).ok();
    home.run(&["exec", name, "--", "sh", "-c", "echo kept >/workspace/work"]).ok();
}

/// `cp -a`: owners, modes and attributes are kept, inode numbers are not.
#[track_caller]
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(copied.success());
}

fn hold(home: &Home) -> Value {
    home.run(&["gateway", "status", "-o", "json"]).ok().json()["hold"].clone()
}

fn workspace_path(home: &Home, name: &str) -> String {
    home.get(name)["workspace"]["path"].as_str().unwrap_or_default().to_owned()
}

fn condition(home: &Home, name: &str, kind: &str) -> Value {
    let seen = home.get(name);
    let all = seen["conditions"].as_array().expect("conditions");
    all.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}

#[test]
fn a_copied_home_asks_first_and_never_touches_the_sandboxes_of_the_original() {
    let home = Home::new();
    ready(&home, "lab");
    home.run(&["gateway", "stop"]).ok();
    let other = home.scratch().join("copy");
    copy(home.path(), &other);
    let running = supervisors(home.path());
    assert_eq!(running.len(), 1);
    let copied = Home::at(other);

    copied.run(&["stop", "lab", "--no-wait"]).ok();
    assert_eq!(hold(&copied)["reason"], "HomeCopied");
    let told = copied.run(&["gateway", "status"]).ok().text();
    assert!(told.contains("gateway adopt") && told.contains("gateway disown"), "{told}");
    assert_eq!(supervisors(home.path()), running);
    copied.run(&["gateway", "restart"]).ok();
    assert_eq!(hold(&copied)["reason"], "HomeCopied", "it is asked again");

    // The copy is a home of its own now, and still nothing of the original's.
    copied.run(&["gateway", "adopt"]).ok();
    copied.wait_for_phase("lab", "Stopped");
    assert_eq!(supervisors(home.path()), running);
    copied.run(&["start", "lab", "--no-wait"]).ok();
    let told = || copied.run(&["explain", "lab"]).ok().text();
    assert!(until(30, || told().contains("another home")), "{}", told());
    copied.run(&["stop", "lab"]).ok();
    assert_eq!(supervisors(home.path()), running);
    home.wait_for_phase("lab", "Ready");
    assert_eq!(home.run(&["exec", "lab", "--", "cat", "/workspace/work"]).ok().text(), "kept");
    assert!(hold(&home).is_null());

    // As soon as the original's is down, the copy's comes up.
    home.run(&["stop", "lab"]).ok();
    copied.run(&["start", "lab", "--timeout", "60s"]).ok();
    copied.wait_for_phase("lab", "Ready");
    assert_eq!(copied.run(&["exec", "lab", "--", "cat", "/workspace/work"]).ok().text(), "kept");
    home.run(&["delete", "lab", "--discard-workspace"]).ok();
    assert_eq!(copied.phase("lab"), "Ready");
}

#[test]
fn a_stopped_home_that_is_renamed_goes_on_without_asking_and_shows_its_true_paths() {
    let home = Home::new();
    ready(&home, "lab");
    ready(&home, "down");
    home.run(&["stop", "down"]).ok();
    let before = workspace_path(&home, "lab");
    assert!(before.starts_with(&*home.path().to_string_lossy()), "{before}");
    let running = supervisors(home.path());
    home.run(&["gateway", "stop"]).ok();

    let place = home.scratch().join("renamed");
    fs::rename(home.path(), &place).expect("renamed");
    let renamed = Home::at(place.clone());
    renamed.wait_for_phase("lab", "Ready");
    assert!(hold(&renamed).is_null());
    assert_eq!(supervisors(&place), running, "the same process");
    for name in ["lab", "down"] {
        let shown = || workspace_path(&renamed, name);
        let below = |path: String| path.starts_with(&*place.to_string_lossy());
        assert!(until(20, || below(shown())), "{}", shown());
    }
    renamed.delete_all();
}

#[test]
fn a_gateway_whose_home_is_moved_away_ends_and_the_next_one_goes_on_at_the_new_place() {
    let home = Home::new();
    ready(&home, "lab");
    let running = supervisors(home.path());
    let first = home.gateway_pid().expect("a gateway");
    let place = home.scratch().join("moved");
    fs::rename(home.path(), &place).expect("moved");

    assert!(until(20, || is_dead(first)), "the gateway goes on without its home");
    assert_eq!(supervisors(&place), running, "sandboxes are left alone");
    let log = fs::read_to_string(place.join("gateway.log")).expect("its log");
    assert!(log.contains("was moved or replaced"), "{log}");
    assert!(!home.path().exists(), "nothing is made in its old place");

    // Another home in the old place is nothing to those of the new place.
    ready(&home, "other");
    let moved = Home::at(place);
    moved.wait_for_phase("lab", "Ready");
    assert!(hold(&moved).is_null());
    assert_eq!(moved.run(&["exec", "lab", "--", "cat", "/workspace/work"]).ok().text(), "kept");
    moved.run(&["restart", "lab"]).ok();
    moved.wait_for_phase("lab", "Ready");
    assert_eq!(moved.run(&["exec", "lab", "--", "cat", "/workspace/work"]).ok().text(), "kept");
    assert_eq!(moved.run(&["list", "-o", "name"]).ok().text(), "lab");
    assert_eq!(home.run(&["list", "-o", "name"]).ok().text(), "other");
}

#[test]
fn a_workspace_that_is_replaced_under_a_running_sandbox_is_told() {
    let home = Home::new();
    ready(&home, "lab");
    assert_eq!(condition(&home, "lab", "WorkspaceBound")["status"], "True");
    let running = supervisors(home.path());
    let workspaces = home.path().join("local/workspaces");
    let (aside, saved) = (home.scratch().join("aside"), home.scratch().join("saved"));
    copy(&workspaces, &saved);
    fs::rename(&workspaces, &aside).expect("moved aside");
    fs::rename(&saved, &workspaces).expect("put in its place");

    home.run(&["gateway", "restart"]).ok();
    let seen = || condition(&home, "lab", "WorkspaceBound");
    assert!(until(30, || seen()["reason"] == "WorkspaceReplaced"), "{}", seen());
    assert_eq!(seen()["status"], "False");
    assert_eq!(supervisors(home.path()), running, "it runs on");
    let told = home.run(&["explain", "lab"]).ok().text();
    assert!(told.contains("was replaced"), "{told}");
    home.run(&["exec", "lab", "--", "true"]).ok();
    // A restart uses what lies in the home; then all is well again.
    home.run(&["restart", "lab"]).ok();
    assert!(until(30, || seen()["status"] == "True"), "{}", seen());
}
