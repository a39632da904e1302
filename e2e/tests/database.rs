//! What happens to the database happens to it alone: a clear refusal, nothing destroyed, and a
//! store from yesterday changes nothing on backends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandkeep_e2e::leftovers::supervisors;
use sandkeep_e2e::{Home, until};

fn database(home: &Home) -> PathBuf {
    home.path().join("gateway.db")
}

fn ready(home: &Home, name: &str) {
    home.run(&["create", "--name", name]).ok();
    home.run(&["exec", name, "--", "sh", "-c", "echo kept >/workspace/work"]).ok();
}

/// A gateway that cannot start says why in three parts, and leaves the file as it is.
#[track_caller]
fn refuses(home: &Home, words: &[&str]) {
    let before = fs::read(database(home)).expect("the database");
    let refused = home.run(&["gateway", "start"]);
    assert_ne!(refused.code, 0, "{}", refused.text());
    for part in ["error: ", "why: ", "next: "] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    for word in words {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    assert_eq!(fs::read(database(home)).expect("the database"), before, "untouched");
}

#[test]
fn a_truncated_database_is_refused_and_kept() {
    let home = Home::new();
    ready(&home, "lab");
    home.run(&["gateway", "stop"]).ok();
    let whole = fs::read(database(&home)).expect("the database");
    fs::write(database(&home), &whole[..whole.len() / 2]).expect("written");
    refuses(&home, &["damaged"]);
    assert_eq!(supervisors(home.path()).len(), 1, "the sandbox runs on");
    fs::write(database(&home), &whole).expect("written");
    home.wait_for_phase("lab", "Ready");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_kept() {
    let home = Home::new();
    fs::write(database(&home), b"this is not a database, it is a letter").expect("written");
    refuses(&home, &["damaged"]);
    fs::remove_file(database(&home)).expect("removed");
}

#[test]
fn a_database_of_a_newer_sandkeep_is_refused_and_kept() {
    let home = Home::new();
    ready(&home, "lab");
    home.run(&["gateway", "stop"]).ok();
    let known = set_version(&home, 99);
    refuses(&home, &["newer"]);
    assert_eq!(supervisors(home.path()).len(), 1, "the sandbox runs on");
    set_version(&home, known);
    home.wait_for_phase("lab", "Ready");
}

/// Sets the number of the schema as a build of another time would, and gives the one before.
fn set_version(home: &Home, version: u32) -> u32 {
    let program = "import sqlite3, sys\n\
                   db = sqlite3.connect(sys.argv[1])\n\
                   print(db.execute('PRAGMA user_version').fetchone()[0])\n\
                   db.execute('PRAGMA user_version = ' + sys.argv[2])\n\
                   db.commit()\n\
                   db.execute('PRAGMA wal_checkpoint(TRUNCATE)')";
    let (database, version) = (database(home), version.to_string());
    let output = Command::new("python3")
        .args(["-c", program])
        .args([database.as_os_str(), version.as_ref()])
        .output()
        .expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

#[test]
fn a_home_on_a_read_only_file_system_is_refused_and_kept() {
    let home = Home::new();
    ready(&home, "lab");
    home.run(&["gateway", "stop"]).ok();
    let mounted = ReadOnly::mount(home.path());
    refuses(&home, &["read-only"]);
    assert_eq!(supervisors(home.path()).len(), 1, "the sandbox runs on");
    drop(mounted);
    home.wait_for_phase("lab", "Ready");
}

/// A directory over itself, read-only; dropped, it is as before.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn mount(at: &Path) -> Self {
        let mount = |options: &str| {
            let status = Command::new("mount").args(["-o", options]).args([at, at]).status();
            assert!(status.expect("mount").success(), "mount -o {options}");
        };
        mount("bind");
        let mounted = Self(at.to_owned());
        mount("remount,bind,ro");
        mounted
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.0).status();
        assert!(status.expect("umount").success(), "umount {}", self.0.display());
    }
}

#[test]
fn a_database_that_another_process_holds_names_it() {
    let home = Home::new();
    ready(&home, "lab");
    let pid = home.gateway_pid().expect("a gateway").to_string();
    let second = home.run(&["gateway", "run"]);
    assert_ne!(second.code, 0);
    assert!(second.stderr.contains(&pid), "{}", second.stderr);
    home.wait_for_phase("lab", "Ready");
}

#[test]
fn a_store_from_yesterday_puts_the_gateway_into_hold_until_it_is_adopted() {
    let home = Home::new();
    ready(&home, "old");
    home.run(&["gateway", "stop"]).ok();
    let copy = home.scratch().join("yesterday.db");
    fs::copy(database(&home), &copy).expect("copied");
    ready(&home, "new");
    home.run(&["gateway", "stop"]).ok();
    restore(&home, &copy);
    let running = supervisors(home.path());
    assert_eq!(running.len(), 2);

    home.run(&["gateway", "start"]).ok();
    let held =
        until(30, || !home.run(&["gateway", "status", "-o", "json"]).json()["hold"].is_null());
    assert!(held, "{}", home.run(&["gateway", "status"]).text());
    assert_eq!(home.run(&["list", "-o", "name"]).text(), "old");
    // Since when is told, and another gateway process does not begin it anew.
    let since =
        || home.run(&["gateway", "status", "-o", "json"]).ok().json()["hold"]["since"].clone();
    let told = since();
    assert!(told.is_string(), "{told}");
    home.run(&["gateway", "restart"]).ok();
    assert_eq!(since(), told);
    // Verbs are answered, and nothing is changed on backends.
    home.run(&["stop", "old", "--no-wait"]).ok();
    home.run(&["start", "old", "--no-wait"]).ok();
    assert_eq!(supervisors(home.path()), running);

    home.run(&["gateway", "adopt"]).ok();
    home.wait_for_phase("new", "Ready");
    home.wait_for_phase("old", "Ready");
    for name in ["new", "old"] {
        let kept = home.run(&["exec", name, "--", "cat", "/workspace/work"]).ok();
        assert_eq!(kept.text(), "kept");
    }
}

#[test]
fn what_is_disowned_is_left_alone() {
    let home = Home::new();
    ready(&home, "old");
    home.run(&["gateway", "stop"]).ok();
    let copy = home.scratch().join("yesterday.db");
    fs::copy(database(&home), &copy).expect("copied");
    ready(&home, "new");
    let id = home.get("new")["id"].as_str().expect("an id").to_owned();
    home.run(&["gateway", "stop"]).ok();
    restore(&home, &copy);
    let running = supervisors(home.path());

    home.run(&["gateway", "start"]).ok();
    assert!(until(30, || !home.run(&["gateway", "status", "-o", "json"]).json()["hold"].is_null()));
    home.run(&["gateway", "disown"]).ok();
    home.wait_for_phase("old", "Ready");
    home.run(&["gateway", "restart"]).ok();
    home.wait_for_phase("old", "Ready");
    assert!(home.run(&["gateway", "status", "-o", "json"]).json()["hold"].is_null());
    assert_eq!(supervisors(home.path()), running, "it runs on, untouched");
    // The test tidies up what it made the gateway forget.
    for pid in running {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        if table.contains(&id) {
            sandkeep_e2e::home::kill(pid);
        }
    }
}

/// Puts an older copy in the database's place, as a restore from a backup does.
fn restore(home: &Home, copy: &std::path::Path) {
    for suffix in ["-wal", "-shm"] {
        let mut side = database(home).into_os_string();
        side.push(suffix);
        fs::remove_file(side).ok();
    }
    fs::copy(copy, database(home)).expect("copied");
}
