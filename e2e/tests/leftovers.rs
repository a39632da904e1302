//! Twenty lives of a sandbox leave what was there before: processes, mounts, control groups,
//! directories, templates and supervisors are counted.

use sandkeep_e2e::home::kill;
use sandkeep_e2e::leftovers::{Leftovers, leftovers, supervisors};
use sandkeep_e2e::{Home, until};

const ROUNDS: usize = 20;

/// One life: made, used, killed in a different way each time, stopped, deleted.
fn live(home: &Home, round: usize) {
    home.run(&["create", "--name", "one", "--", "sleep", "1000"]).ok();
    home.run(&["exec", "one", "--", "sh", "-c", "echo x >/workspace/x; echo x >/tmp/x"]).ok();
    let before = home.get("one")["incarnation"].as_u64();
    match round % 4 {
        0 => drop(home.run(&["kill", "one"])),
        1 => home.kill_gateway(),
        2 => {
            for pid in supervisors(home.path()) {
                kill(pid);
            }
            let again = || home.get("one")["incarnation"].as_u64() > before;
            assert!(until(60, again), "{}", home.run(&["explain", "one"]).text());
        }
        _ => {
            // The gateway dies while a verb is under way; the next one finishes it.
            let mut stop = home.spawn(&["stop", "one"]);
            home.kill_gateway();
            stop.wait().expect("it ends");
        }
    }
    home.run(&["stop", "one"]).ok();
    home.run(&["delete", "one", "--discard-workspace"]).ok();
}

#[test]
fn twenty_lives_of_a_sandbox_leave_what_was_there_before() {
    let home = Home::new();
    // The first one makes what all share.
    live(&home, 0);
    let before = leftovers(&home);
    assert_eq!((before.templates.len(), before.unpacked.len()), (1, 1), "{before:?}");
    let nothing = Leftovers {
        templates: before.templates.clone(),
        unpacked: before.unpacked.clone(),
        ..Leftovers::default()
    };
    assert_eq!(before, nothing);
    for round in 0..ROUNDS {
        live(&home, round);
        // A delete is answered when nothing of the sandbox is left.
        assert_eq!(leftovers(&home), before, "round {round}");
    }
}
