//! Faults on the real embedded driver. Each is healed with no verb; the time it took is printed,
//! and the work is what it was.

use std::path::PathBuf;
use std::process::Stdio;

use sandkeep_e2e::home::kill;
use sandkeep_e2e::leftovers::supervisors;
use sandkeep_e2e::{Home, until};
use serde_json::Value;

/// A home with one sandbox that has done some work and runs a command.
fn working(home: &Home, name: &str) {
    home.run(&["create", "--name", name, "--", "sh", "-c", "while :; do sleep 1000; done"]).ok();
    home.run(&[
        "exec",
        name,
        "--",
        "sh",
        "-c",
        "echo kept >/workspace/work; echo root >/usr/local/share/mark",
    ])
    .ok();
}

#[track_caller]
fn work_is_there(home: &Home, name: &str) {
    let script = "cat /workspace/work /usr/local/share/mark";
    let seen = home.run(&["exec", name, "--", "sh", "-c", script]).ok();
    assert_eq!(seen.text(), "kept\nroot", "workspace and root file system of {name}");
}

fn incarnation(home: &Home, name: &str) -> u64 {
    home.get(name)["incarnation"].as_u64().expect("a number")
}

/// Waits for Ready in a higher incarnation than `before`, and prints how long it took.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "the time a user waits")]
fn recovers(home: &Home, name: &str, before: u64, what: &str) {
    let begin = std::time::Instant::now();
    let there = until(60, || {
        let sandbox: Value = home.get(name);
        sandbox["phase"] == "Ready" && sandbox["incarnation"].as_u64() > Some(before)
    });
    assert!(there, "{what}: {}", home.run(&["explain", name]).text());
    println!("{what}: Ready again after {:?}", begin.elapsed());
}

#[test]
fn a_killed_supervisor_comes_back_with_its_command_and_its_files() {
    let home = Home::new();
    working(&home, "one");
    let before = incarnation(&home, "one");
    let found = supervisors(home.path());
    assert_eq!(found.len(), 1);
    kill(found[0]);
    recovers(&home, "one", before, "kill -9 of one supervisor");
    work_is_there(&home, "one");
    let sandbox = home.get("one");
    assert_eq!(sandbox["restarts"].as_u64(), Some(1));
    let told = home.run(&["events", "one"]).ok().text();
    assert!(told.contains("BackingExited"), "{told}");
}

#[test]
fn all_supervisors_killed_at_once_come_back() {
    let home = Home::new();
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        working(&home, name);
    }
    let before: Vec<u64> = names.iter().map(|name| incarnation(&home, name)).collect();
    for pid in supervisors(home.path()) {
        kill(pid);
    }
    for (name, before) in names.iter().zip(before) {
        recovers(&home, name, before, "kill -9 of all supervisors");
        work_is_there(&home, name);
    }
}

#[test]
fn error_at_gateway_start_backing_exited_143_still_on_disk() {
    let home = Home::new();
    working(&home, "lab");
    let before = incarnation(&home, "lab");
    home.kill_gateway();
    for pid in supervisors(home.path()) {
        kill(pid);
    }
    assert!(until(20, || supervisors(home.path()).is_empty()));
    // Any command starts a gateway; none of the verbs that change anything is used.
    recovers(&home, "lab", before, "gateway and backing down, gateway started");
    work_is_there(&home, "lab");
}

#[test]
fn a_killed_gateway_leaves_running_commands_alone_and_takes_them_over() {
    let home = Home::new();
    working(&home, "calm");
    let before = home.get("calm");
    let pids = supervisors(home.path());
    home.kill_gateway();
    assert_eq!(supervisors(home.path()), pids, "nothing was stopped");
    home.wait_for_phase("calm", "Ready");
    let after = home.get("calm");
    assert_eq!(after["incarnation"], before["incarnation"], "the same run of the backing");
    assert_eq!(after["restarts"], before["restarts"]);
    assert_eq!(supervisors(home.path()), pids);
    work_is_there(&home, "calm");
}

#[test]
fn an_exec_survives_a_gateway_that_is_killed_in_the_middle() {
    let home = Home::new();
    home.run(&["create", "--name", "long"]).ok();
    let script = "for n in $(seq 1 200); do echo line $n; sleep 0.02; done; exit 7";
    let child = home.spawn(&["exec", "long", "--", "sh", "-c", script]);
    assert!(until(30, || home.run(&["exec", "long", "--", "pgrep", "-f", "seq 1 200"]).code == 0
        || !home
            .run(&["exec", "long", "--", "sh", "-c", "ls /proc | grep -c '^[0-9]'"])
            .text()
            .is_empty()));
    home.kill_gateway();
    home.run(&["list"]).ok();
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let expected: Vec<String> = (1..=200).map(|n| format!("line {n}")).collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "no byte lost, none twice");
    assert_eq!(output.status.code(), Some(7));
}

/// Kills the gateway at one place of one verb, starts it again, and sees the verb through.
fn verb_survives(stage: &str, moment: &str, verb: &[&str], end: &str) {
    let home = Home::new();
    if verb[0] != "create" {
        working(&home, "lab");
        if verb[0] == "start" {
            home.run(&["stop", "lab"]).ok();
        }
        home.run(&["gateway", "stop"]).ok();
    }
    let place = format!("{stage}:{moment}");
    let mut first = home.command(&["gateway", "start"]);
    first.env("SANDKEEP_FAILPOINT", &place);
    let started = first.output().expect("the binary runs");
    assert!(started.status.success(), "{place}: {}", String::from_utf8_lossy(&started.stderr));
    let pid = home.gateway_pid().expect("a gateway");
    let mut asked = home.command(verb);
    asked.env("SANDKEEP_NO_AUTOSTART", "1");
    let mut asked = asked.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let died = until(30, || sandkeep_e2e::home::is_dead(pid));
    assert!(died, "{place} was not reached by {verb:?}");
    // It would wait for a gateway to come back; here the user has given up on it.
    asked.kill().expect("killed");
    asked.wait().expect("reaped");
    // A client that got no answer asks again; one that got it may rely on it.
    if moment == "before" && stage.starts_with("verb-") {
        home.run(verb).ok();
    }
    let reached = until(60, || home.phase("lab") == end);
    assert!(reached, "{place} of {verb:?}: {}", home.run(&["explain", "lab"]).text());
    if end == "Ready" && verb[0] != "create" {
        work_is_there(&home, "lab");
    }
    if end == "gone" {
        let kept = home.run(&["create", "--name", "again", "--workspace", "lab"]);
        kept.ok();
        let seen = home.run(&["exec", "again", "--", "cat", "/workspace/work"]).ok();
        assert_eq!(seen.text(), "kept");
    }
}

macro_rules! killed_at {
    ($($name:ident: $stage:literal $moment:literal, $verb:expr, $end:literal;)*) => {
        $(#[test]
        fn $name() {
            verb_survives($stage, $moment, &$verb, $end);
        })*
    };
}

const CREATE: [&str; 7] = ["create", "--name", "lab", "--", "sleep", "1000", ""];

killed_at! {
    a_create_survives_a_crash_before_it_is_stored: "verb-create" "before", CREATE[..6], "Ready";
    a_create_survives_a_crash_after_it_is_stored: "verb-create" "stored", CREATE[..6], "Ready";
    a_create_survives_a_crash_before_the_workspace: "workspace" "before", CREATE[..6], "Ready";
    a_create_survives_a_crash_after_the_workspace: "workspace" "after", CREATE[..6], "Ready";
    a_create_survives_a_crash_before_the_backing: "create" "before", CREATE[..6], "Ready";
    a_create_survives_a_crash_after_the_backing: "create" "after", CREATE[..6], "Ready";
    a_create_survives_a_crash_before_the_start: "start" "before", CREATE[..6], "Ready";
    a_create_survives_a_crash_after_the_start: "start" "after", CREATE[..6], "Ready";
    a_create_survives_a_crash_before_go: "session" "before", CREATE[..6], "Ready";
    a_create_survives_a_crash_after_go: "session" "after", CREATE[..6], "Ready";
    a_stop_survives_a_crash_before_it_is_stored: "verb-stop" "before", ["stop", "lab"], "Stopped";
    a_stop_survives_a_crash_after_it_is_stored: "verb-stop" "stored", ["stop", "lab"], "Stopped";
    a_stop_survives_a_crash_before_the_backing_is_stopped: "stop" "before", ["stop", "lab"], "Stopped";
    a_stop_survives_a_crash_after_the_backing_is_stopped: "stop" "after", ["stop", "lab"], "Stopped";
    a_start_survives_a_crash_before_it_is_stored: "verb-start" "before", ["start", "lab"], "Ready";
    a_start_survives_a_crash_after_it_is_stored: "verb-start" "stored", ["start", "lab"], "Ready";
    a_start_survives_a_crash_before_the_backing_starts: "start" "before", ["start", "lab"], "Ready";
    a_start_survives_a_crash_after_the_backing_started: "start" "after", ["start", "lab"], "Ready";
    a_restart_survives_a_crash_before_it_is_stored: "verb-restart" "before", ["restart", "lab"], "Ready";
    a_restart_survives_a_crash_after_it_is_stored: "verb-restart" "stored", ["restart", "lab"], "Ready";
    a_restart_survives_a_crash_after_the_stop: "stop" "after", ["restart", "lab"], "Ready";
    a_restart_survives_a_crash_before_go: "session" "before", ["restart", "lab"], "Ready";
    a_delete_survives_a_crash_before_it_is_stored: "verb-delete" "before", ["delete", "lab"], "gone";
    a_delete_survives_a_crash_after_it_is_stored: "verb-delete" "stored", ["delete", "lab"], "gone";
    a_delete_survives_a_crash_before_the_removal: "remove" "before", ["delete", "lab"], "gone";
    a_delete_survives_a_crash_after_the_removal: "remove" "after", ["delete", "lab"], "gone";
    a_delete_survives_a_crash_before_the_record_goes: "forget" "before", ["delete", "lab"], "gone";
    a_delete_survives_a_crash_after_the_record_went: "forget" "after", ["delete", "lab"], "gone";
}

#[test]
fn a_hostile_process_inside_can_neither_play_nor_end_the_supervisor() {
    let home = Home::new();
    working(&home, "evil");
    let before = home.get("evil");
    let attack = r#"
import os, signal, socket
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
for _ in range(50):
    try:
        s = socket.socket(socket.AF_UNIX)
        s.connect('/run/sandkeep/session/s')
        s.sendall(b'\xf5SK\x1a' + os.urandom(4096))
        s.close()
    except OSError: pass
written = 0
for root in ('/run/sandkeep/state', '/run/sandkeep'):
    try:
        with open(root + '/fill', 'wb') as f:
            while written < 1 << 30: written += f.write(bytes(1 << 20))
    except OSError: pass
print('written', written)
try:
    with open('/proc/1/mem', 'rb') as f: print('read', len(f.read(1)))
except OSError as e: print('mem', e.errno)
"#;
    let done = home.run(&["exec", "evil", "--", "/usr/bin/python3", "-c", attack]).ok();
    assert!(done.text().contains("written 0"), "{}", done.text());
    assert!(done.text().contains("mem "), "{}", done.text());
    let after = home.get("evil");
    assert_eq!(after["incarnation"], before["incarnation"]);
    home.wait_for_phase("evil", "Ready");
    work_is_there(&home, "evil");
}

fn local_dir(home: &Home, what: &str) -> PathBuf {
    home.path().join("local").join(what)
}

#[test]
fn runtime_state_that_is_removed_while_it_runs_costs_nothing() {
    let home = Home::new();
    working(&home, "bare");
    std::fs::remove_dir_all(local_dir(&home, "runtime")).ok();
    home.kill_gateway();
    home.wait_for_phase("bare", "Ready");
    work_is_there(&home, "bare");
    home.run(&["restart", "bare"]).ok();
    work_is_there(&home, "bare");
    home.run(&["delete", "bare"]).ok();
    assert!(supervisors(home.path()).is_empty());
}

#[test]
fn a_session_directory_that_is_removed_while_it_runs_is_made_again() {
    let home = Home::new();
    working(&home, "cut");
    let before = home.get("cut");
    let id = before["id"].as_str().expect("an id");
    std::fs::remove_dir_all(local_dir(&home, "sandboxes").join(id).join("run")).expect("removed");
    home.kill_gateway();
    home.wait_for_phase("cut", "Ready");
    assert_eq!(home.get("cut")["incarnation"], before["incarnation"], "it was not restarted");
    work_is_there(&home, "cut");
}

#[test]
fn a_home_with_a_path_of_two_hundred_bytes_works() {
    let home = Home::with_long_path(200);
    working(&home, "far");
    home.kill_gateway();
    home.wait_for_phase("far", "Ready");
    work_is_there(&home, "far");
}

#[test]
fn a_command_that_runs_out_of_memory_is_told_and_run_again() {
    let home = Home::new();
    let eat = "import time; x = bytearray(400 << 20); time.sleep(1000)";
    home.run(&[
        "create",
        "--name",
        "hungry",
        "--memory",
        "128m",
        "--no-wait",
        "--",
        "/usr/bin/python3",
        "-c",
        eat,
    ])
    .ok();
    let told = until(60, || {
        let events = home.run(&["events", "hungry"]).text();
        events.contains("CommandEnded") || events.contains("BackingExited")
    });
    assert!(told, "{}", home.run(&["events", "hungry"]).text());
    home.run(&["stop", "hungry"]).ok();
    assert_eq!(home.phase("hungry"), "Stopped");
}

#[test]
fn a_fork_bomb_stays_inside_and_every_verb_works_beside_it() {
    let home = Home::new();
    home.run(&[
        "create",
        "--name",
        "bomb",
        "--pids",
        "100",
        "--no-wait",
        "--",
        "sh",
        "-c",
        "f() { f | f & }; f; sleep 1000",
    ])
    .ok();
    home.run(&["create", "--name", "beside"]).ok();
    home.run(&["exec", "beside", "--", "true"]).ok();
    home.run(&["stop", "bomb", "--timeout", "60s"]).ok();
    assert_eq!(home.phase("bomb"), "Stopped");
    home.run(&["delete", "bomb"]).ok();
}

#[test]
fn a_reboot_is_found_by_its_boot_id_and_heals_without_a_verb() {
    let home = Home::new().env("SANDKEEP_TEST_BOOT_ID", "before");
    working(&home, "up");
    working(&home, "down");
    home.run(&["stop", "down"]).ok();
    let before = incarnation(&home, "up");
    // The machine goes down: no process and no mount of it is left, and the boot id is another.
    home.kill_gateway();
    for pid in supervisors(home.path()) {
        kill(pid);
    }
    assert!(until(20, || supervisors(home.path()).is_empty()));
    std::fs::remove_dir_all(local_dir(&home, "runtime")).ok();
    let home = home.env("SANDKEEP_TEST_BOOT_ID", "after");
    recovers(&home, "up", before, "reboot");
    work_is_there(&home, "up");
    assert_eq!(home.phase("down"), "Stopped", "what was stopped stays so");
    assert_eq!(supervisors(home.path()).len(), 1);
}

#[test]
fn a_clock_that_jumps_both_ways_disturbs_nothing() {
    const TEN_YEARS_MS: i64 = 10 * 365 * 24 * 3600 * 1000;
    let home = Home::new();
    let shift = home.scratch().join("shift");
    let home = home.env("SANDKEEP_TEST_CLOCK_SHIFT", &shift.display().to_string());
    working(&home, "timely");
    let begun = home.get("timely");
    for jump in [TEN_YEARS_MS, -TEN_YEARS_MS, 0] {
        std::fs::write(&shift, jump.to_string()).expect("written");
        assert_eq!(home.phase("timely"), "Ready");
        work_is_there(&home, "timely");
        assert_eq!(
            home.get("timely")["incarnation"],
            begun["incarnation"],
            "nothing was restarted"
        );
    }
    for jump in [TEN_YEARS_MS, -TEN_YEARS_MS] {
        let before = incarnation(&home, "timely");
        for pid in supervisors(home.path()) {
            kill(pid);
        }
        std::fs::write(&shift, jump.to_string()).expect("written");
        recovers(&home, "timely", before, "clock jump and loss together");
        work_is_there(&home, "timely");
        home.run(&["stop", "timely"]).ok();
        home.run(&["start", "timely"]).ok();
    }
}
