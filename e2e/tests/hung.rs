//! What hangs, as opposed to what is dead: a gateway, a supervisor or a client that is stopped in
//! the middle of its work and perhaps goes on later.

use sandkeep_e2e::home::is_dead;
use sandkeep_e2e::{Home, until};

fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a real pid");
    rustix::process::kill_process(pid, signal).expect("signalled");
}

#[test]
fn a_gateway_that_hangs_is_told_of_and_can_be_replaced_and_nothing_is_lost() {
    let home = Home::new();
    home.run(&["create", "--name", "lab", "--", "sleep", "1000"]).ok();
    let before = home.get("lab");
    let hung = home.gateway_pid().expect("a gateway");
    signal(hung, rustix::process::Signal::STOP);
    let listed = home.run(&["list"]).code(5);
    assert!(listed.stderr.contains("no sign of life"), "{}", listed.stderr);
    assert!(listed.stderr.contains("--force"), "{}", listed.stderr);
    let stopped = home.run(&["gateway", "stop", "--timeout", "200ms"]).code(6);
    assert!(stopped.stderr.contains("--force"), "{}", stopped.stderr);
    home.run(&["gateway", "restart", "--force", "--timeout", "200ms"]).ok();
    assert!(until(20, || is_dead(hung)), "the old gateway is still there");
    home.wait_for_phase("lab", "Ready");
    let after = home.get("lab");
    assert_eq!(after["incarnation"], before["incarnation"]);
    assert_eq!(after["intent"]["run"], before["intent"]["run"]);
}

#[test]
fn a_gateway_that_hangs_for_a_while_goes_on_where_it_was() {
    let home = Home::new();
    home.run(&["create", "--name", "lab"]).ok();
    let exec = home.spawn(&["exec", "lab", "--", "sh", "-c", "sleep 2; echo done; exit 7"]);
    let pid = home.gateway_pid().expect("a gateway");
    let running = until(20, || {
        let shown = home.run(&["exec", "lab", "--", "ps", "ax"]).ok();
        shown.text().contains("sleep 2")
    });
    assert!(running, "the command was not started");
    signal(pid, rustix::process::Signal::STOP);
    let listed = home.spawn(&["list", "-o", "name"]);
    std::thread::sleep(std::time::Duration::from_secs(4));
    signal(pid, rustix::process::Signal::CONT);
    let listed = listed.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), "lab");
    let exec = exec.wait_with_output().expect("it ends");
    assert_eq!(exec.status.code(), Some(7), "{}", String::from_utf8_lossy(&exec.stderr));
    assert_eq!(String::from_utf8_lossy(&exec.stdout), "done\n");
}

#[test]
fn an_exec_while_the_gateway_is_restarted_over_and_over_is_run() {
    let home = Home::new();
    home.run(&["create", "--name", "lab"]).ok();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..12 {
                home.run(&["gateway", "restart"]).ok();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let done = home.run(&["exec", "lab", "--", "echo", "here"]).ok();
            assert_eq!(done.text(), "here");
        }
    });
}
