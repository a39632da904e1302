//! Every verb in every phase: answered, idempotent, ends where it was asked to.

use std::fs;
use std::path::Path;

use sandkeep_e2e::home::kill;
use sandkeep_e2e::leftovers::{leftovers, supervisors};
use sandkeep_e2e::{Home, until};

/// Brings a new sandbox `name` into a phase and keeps it there.
fn bring_into(home: &Home, name: &str, phase: &str) {
    match phase {
        "Ready" => drop(home.run(&["create", "--name", name]).ok()),
        "Stopped" => {
            home.run(&["create", "--name", name]).ok();
            home.run(&["stop", name]).ok();
        }
        "Completed" => {
            home.run(&["create", "--name", name, "--restart", "never", "--no-wait", "--", "true"])
                .ok();
        }
        "Error" => {
            let failing =
                ["create", "--name", name, "--restart", "never", "--no-wait", "--", "false"];
            home.run(&failing).ok();
        }
        // A workspace that another sandbox holds: waited for as long as it takes.
        "Provisioning" => {
            let holder = format!("{name}-holder");
            home.run(&["create", "--name", &holder]).ok();
            home.run(&["create", "--name", name, "--workspace", &holder, "--no-wait"]).ok();
        }
        // Told to stop, and its command takes its time.
        "Stopping" => {
            let deaf = "trap '' TERM; while :; do sleep 1; done";
            home.run(&["create", "--name", name, "--", "sh", "-c", deaf]).ok();
            home.run(&["stop", name, "--no-wait"]).ok();
        }
        "Deleting" => {
            let deaf = "trap '' TERM; while :; do sleep 1; done";
            home.run(&["create", "--name", name, "--", "sh", "-c", deaf]).ok();
            home.run(&["delete", name, "--no-wait"]).ok();
        }
        other => panic!("no way into {other}"),
    }
    home.wait_for_phase(name, phase);
}

fn verbs_of(phase: &str) -> Vec<(&'static str, i32, &'static str)> {
    // A workspace that is held elsewhere is waited for: the verb says so at its time-out.
    let held = phase == "Provisioning";
    let deleting = phase == "Deleting";
    let up = if held { 6 } else { 0 };
    let refused = |code: i32| if deleting { 4 } else { code };
    let end = |there: &'static str| if deleting { "gone" } else { there };
    vec![
        ("start", refused(up), end(if held { "Provisioning" } else { "up" })),
        ("restart", refused(up), end(if held { "Provisioning" } else { "up" })),
        ("stop", refused(0), end("Stopped")),
        ("delete", 0, "gone"),
    ]
}

fn every_verb_in(phase: &str) {
    let home = Home::new();
    for (verb, code, end) in verbs_of(phase) {
        let name = format!("{}-{verb}", phase.to_lowercase());
        bring_into(&home, &name, phase);
        let mut args = vec![verb, name.as_str()];
        if code == 6 {
            args.extend(["--timeout", "2s"]);
        }
        let first = home.run(&args);
        let accepted = first.code == code || (first.code == 1 && phase == "Error");
        assert!(accepted, "{verb} in {phase}: {} {}", first.code, first.stderr);
        let reached = until(60, || {
            let now = home.phase(&name);
            match end {
                "up" => ["Ready", "Completed", "Error"].contains(&now.as_str()),
                other => now == other,
            }
        });
        assert!(reached, "{verb} in {phase}: {}", home.run(&["explain", &name]).text());
        // Once more: the same end.
        let again = home.run(&args);
        match (verb, end) {
            (_, "gone") => assert_eq!(again.code, 3, "{verb} of what is gone: {}", again.stderr),
            ("stop", _) => assert_eq!(again.code, 0, "{}", again.stderr),
            _ => assert!([0, 1, 6].contains(&again.code), "{verb} again: {}", again.stderr),
        }
    }
}

macro_rules! in_phase {
    ($($name:ident $phase:literal;)*) => {
        $(#[test]
        fn $name() {
            every_verb_in($phase);
        })*
    };
}

in_phase! {
    every_verb_is_answered_when_ready "Ready";
    every_verb_is_answered_when_stopped "Stopped";
    every_verb_is_answered_when_completed "Completed";
    every_verb_is_answered_in_error "Error";
    every_verb_is_answered_while_provisioning "Provisioning";
    every_verb_is_answered_while_stopping "Stopping";
    every_verb_is_answered_while_deleting "Deleting";
}

#[test]
fn twenty_clients_at_once_leave_what_was_asked_last_and_nothing_else() {
    let home = Home::new();
    home.run(&["create", "--name", "busy"]).ok();
    home.run(&["exec", "busy", "--", "sh", "-c", "echo kept >/workspace/work"]).ok();
    let before = leftovers(&home);
    std::thread::scope(|scope| {
        for client in 0..20 {
            let home = &home;
            scope.spawn(move || {
                for step in 0..6 {
                    let verb = ["start", "stop", "restart"][(client + step) % 3];
                    let answered = home.run(&[verb, "busy", "--no-wait"]);
                    assert_eq!(answered.code, 0, "{verb}: {}", answered.stderr);
                    assert!(supervisors(home.path()).len() <= 1, "at most one live backing");
                }
            });
        }
    });
    home.run(&["stop", "busy"]).ok();
    assert_eq!(home.phase("busy"), "Stopped");
    assert!(supervisors(home.path()).is_empty());
    home.run(&["start", "busy"]).ok();
    let kept = home.run(&["exec", "busy", "--", "cat", "/workspace/work"]).ok();
    assert_eq!(kept.text(), "kept");
    let after = leftovers(&home);
    assert_eq!(after.supervisors.len(), before.supervisors.len());
    assert_eq!(after.mounts, before.mounts);
    assert_eq!(after.cgroups, before.cgroups);
    assert_eq!(after.directories, before.directories);
    home.run(&["delete", "busy", "--discard-workspace"]).ok();
    assert!(supervisors(home.path()).is_empty());
    assert!(leftovers(&home).directories.is_empty());
    assert!(leftovers(&home).cgroups.len() <= 2, "at most the gateways own group is left");
}

#[test]
fn the_name_of_a_deleted_sandbox_is_free_at_once() {
    let home = Home::new();
    let deaf = "trap '' TERM; while :; do sleep 1; done";
    home.run(&["create", "--name", "twin", "--", "sh", "-c", deaf]).ok();
    let old = home.get("twin")["id"].as_str().expect("an id").to_owned();
    home.run(&["delete", "twin", "--no-wait"]).ok();
    home.run(&["create", "--name", "twin", "--new-workspace"]).ok();
    let new = home.get("twin")["id"].as_str().expect("an id").to_owned();
    assert_ne!(old, new, "the newest of a name is meant");
    assert!(until(60, || home.phase(&old) == "gone"));
    assert_eq!(home.phase("twin"), "Ready");
}

#[test]
fn run_removes_what_it_made_and_gives_the_commands_own_code() {
    let home = Home::new();
    let hello =
        home.run(&["run", "--", "sh", "-c", "echo hello from $(hostname); echo err >&2; exit 3"]);
    assert_eq!(hello.code, 3, "{}", hello.stderr);
    assert!(hello.text().starts_with("hello from "), "{}", hello.text());
    assert!(hello.stderr.contains("err"));
    assert!(until(30, || home.run(&["list", "-o", "name"]).text().is_empty()));
    assert!(until(30, || home.run(&["workspace", "list", "-o", "name"]).text().is_empty()));
    home.run(&["run", "--", "/no/such/program"]).code(127);
    home.run(&["run", "--", "/etc/hostname"]).code(126);
    home.run(&["run", "--", "sh", "-c", "kill -9 $$"]).code(137);
    let kept = home.run(&["run", "--name", "stays", "--", "sh", "-c", "echo x >/workspace/y"]);
    kept.ok();
    assert_eq!(home.phase("stays"), "Completed");
}

#[test]
fn exec_returns_the_commands_code_whatever_its_input_is() {
    let home = Home::new();
    home.run(&["create", "--name", "codes"]).ok();
    for code in [0, 1, 42, 255] {
        let script = format!("exit {code}");
        home.run(&["exec", "codes", "--", "sh", "-c", &script]).code(code);
    }
    // An input that nobody closes, and one that is closed before.
    let mut open = home.spawn(&["exec", "-i", "codes", "--", "sh", "-c", "exit 9"]);
    let stdin = open.stdin.take();
    assert_eq!(open.wait().expect("it ends").code(), Some(9));
    drop(stdin);
    home.run(&["exec", "-i", "codes", "--", "sh", "-c", "exit 9"]).code(9);
    // A grandchild that keeps the output open does not keep the exec.
    home.run(&["exec", "codes", "--", "sh", "-c", "sleep 1000 & exit 5"]).code(5);
    home.run(&["exec", "codes", "--", "/no/such"]).code(127);
    home.run(&["exec", "codes", "--", "/etc/passwd"]).code(126);
    home.run(&["exec", "nobody", "--", "true"]).code(125);
    home.run(&["stop", "codes"]).ok();
    let stopped = home.run(&["exec", "codes", "--", "true"]);
    assert_eq!(stopped.code, 1, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("sandkeep start codes"), "{}", stopped.stderr);
}

#[test]
fn logs_outlive_the_sandboxs_stop_and_the_gateways_crash() {
    let home = Home::new();
    let script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done; sleep 1000";
    home.run(&["create", "--name", "talk", "--", "sh", "-c", script]).ok();
    assert!(until(30, || home.run(&["logs", "talk"]).text().contains("out 3")));
    home.kill_gateway();
    home.run(&["stop", "talk"]).ok();
    let logs = home.run(&["logs", "talk"]).ok();
    for n in 1..=3 {
        assert!(logs.text().contains(&format!("out {n}")));
        assert!(logs.stderr.contains(&format!("err {n}")));
    }
    assert!(Path::new(&home.path().join("logs")).is_dir());
}

#[test]
fn an_orphan_of_a_killed_helper_is_found_and_nothing_is_doubled() {
    let home = Home::new();
    for round in 0..5 {
        let name = format!("round-{round}");
        home.run(&["create", "--name", &name, "--no-wait"]).ok();
        // Whatever the gateway was doing right now is cut off.
        home.kill_gateway();
        home.wait_for_phase(&name, "Ready");
        assert_eq!(supervisors(home.path()).len(), round + 1);
    }
    for pid in supervisors(home.path()) {
        kill(pid);
    }
    home.delete_all();
    assert!(supervisors(home.path()).is_empty());
    let left = fs::read_dir(home.path().join("local/workspaces")).map(Iterator::count).unwrap_or(0);
    assert_eq!(left, 0, "discarded workspaces are gone");
}
