//! A real Debian 12: systemd, cgroup v2 alone, a kernel of its own. What Sandkeep does to such a
//! machine, and the machine to Sandkeep, while it is up. How it goes down: `guest_goes_down.rs`.

use sandkeep_e2e::{Guest, until};

/// Runs as long as its sandbox.
const STAYS: &str = "sh -c 'while :; do sleep 1000; done'";

/// One file of the control group of the only sandbox of this home.
fn group_file(guest: &Guest, file: &str) -> String {
    let script = format!(
        "id=$(sandkeep gateway status -o json | sed -n 's/.*\"gateway_id\": *\"\\([^\"]*\\)\".*/\\1/p')
         cat /sys/fs/cgroup/sandkeep/$id/*/{file}"
    );
    guest.run(&script).ok().text()
}

fn supervisors(guest: &Guest) -> String {
    guest.run("pgrep -f ^/run/sandkeep/bin/sandkeep-supervisor").text()
}

#[track_caller]
fn is_ready_and_was_never_down(guest: &Guest, name: &str) {
    let ready = until(60, || guest.get(name).is_some_and(|sandbox| sandbox["phase"] == "Ready"));
    let sandbox = guest.get(name).expect("it is there");
    assert!(ready, "{sandbox:#}");
    assert_eq!(sandbox["incarnation"], 1, "{sandbox:#}");
    assert_eq!(sandbox["restarts"], 0, "{sandbox:#}");
}

#[test]
fn on_version_two_alone_each_limit_holds() {
    let Some(guest) = Guest::with_home("limits") else { return };
    assert_eq!(guest.run("stat -fc %T /sys/fs/cgroup").ok().text(), "cgroup2fs");
    let create = "sandkeep create --name tight --memory 64m --pids 40 --cpus 0.2";
    guest.run(&format!("{create} -- {STAYS}")).ok();

    let eat = "python3 -c 'x = bytearray(200 << 20)'";
    guest.run(&format!("sandkeep exec tight -- {eat}")).code(137);
    let kills = group_file(&guest, "memory.events");
    assert!(kills.contains("oom_kill 1"), "{kills}");

    // Each child stays, so the parent comes to the limit; the machine itself has far more.
    let bomb = "import os, time
born = 0
try:
    while os.fork():
        born += 1
    time.sleep(1000)
except BlockingIOError:
    print(born)";
    let born = guest.run(&format!("sandkeep exec tight -- python3 -c '{bomb}'")).ok().text();
    let born: u32 = born.parse().unwrap_or_else(|_| panic!("a number: {born}"));
    assert!((10..40).contains(&born), "{born} children");
    guest.run("sandkeep restart tight").ok();

    // Two that want a core each: together they get a fifth of one.
    let burn = "import os, time
begin, child = time.monotonic(), os.fork()
before = sum(os.times()[:2])
while time.monotonic() < begin + 4: pass
if not child: os._exit(0)
os.wait()
print((sum(os.times()[:4]) - before) / (time.monotonic() - begin))";
    let share = guest.run(&format!("sandkeep exec tight -- python3 -c '{burn}'")).ok().text();
    let share: f64 = share.parse().unwrap_or_else(|_| panic!("a number: {share}"));
    println!("{share:.2} of a processor with a limit of 0.2");
    assert!((0.02..0.6).contains(&share), "{share} of a processor");
    let stat = group_file(&guest, "cpu.stat");
    assert!(!stat.contains("nr_throttled 0"), "{stat}");
}

#[test]
fn a_login_that_ends_takes_neither_gateway_nor_sandboxes_along() {
    let Some(guest) = Guest::with_home("login") else { return };
    let script = format!(
        "sleep 1000 <&- >&- 2>&- & echo $XDG_SESSION_ID $!
         sandkeep create --name stays -- {STAYS} >/dev/null; sandkeep gateway status -o json"
    );
    let told = guest.login(&script).ok().text();
    let (first, status) = told.split_once('\n').expect("two answers");
    let (session, left) = first.split_once(' ').expect("a session and a process");
    let status: serde_json::Value = serde_json::from_str(status).expect("a document");
    let before = supervisors(&guest);
    // What is left of the login is killed, as some machines do it at each logout.
    guest.run(&format!("systemctl kill --signal=KILL session-{session}.scope")).ok();
    let gone = format!("! kill -0 {left} 2>/dev/null && ! loginctl show-session {session} 2>&1");
    assert!(until(60, || guest.run(&gone).code == 0), "the session stays");

    is_ready_and_was_never_down(&guest, "stays");
    assert_eq!(supervisors(&guest), before);
    let now = guest.run("SANDKEEP_NO_AUTOSTART=1 sandkeep gateway status -o json").ok().json();
    assert_eq!(now["pid"], status["pid"], "the same gateway");
}

#[test]
fn a_service_that_ends_takes_no_sandbox_along() {
    let Some(guest) = Guest::with_home("service") else { return };
    // systemd's default: whatever is in the service's control group is killed.
    let start = "systemd-run --quiet --collect --unit=gateway --setenv=SANDKEEP_HOME=$SANDKEEP_HOME \
                 --property=KillMode=control-group /host/sandkeep gateway run";
    guest.run(start).ok();
    guest.run(&format!("sandkeep create --name stays --pids 77 -- {STAYS}")).ok();
    assert!(guest.run("systemctl is-active gateway").ok().text() == "active");
    let before = supervisors(&guest);
    for end in ["systemctl stop gateway", "systemctl kill --signal=KILL gateway"] {
        guest.run(end).ok();
        assert!(until(60, || guest.run("systemctl is-active gateway").code != 0), "{end}");
        assert_eq!(supervisors(&guest), before, "{end}");
        guest.run(start).ok();
        let answers = "SANDKEEP_NO_AUTOSTART=1 sandkeep gateway status";
        assert!(until(60, || guest.run(answers).code == 0), "it does not come up after {end}");
        is_ready_and_was_never_down(&guest, "stays");
    }
    // systemd makes anew what it knows of, and leaves alone what is ours.
    guest.run("systemctl daemon-reload && systemctl daemon-reexec").ok();
    assert_eq!(group_file(&guest, "pids.max"), "77");
    guest.run("systemctl stop gateway").ok();
}
