//! Bad input from the command line: a clear error in three parts with the right exit code, and
//! nothing is stored.

use std::io::Write as _;

use sandkeep_e2e::Home;
use sandkeep_e2e::leftovers::supervisors;

/// (arguments, exit code, a word of the message)
const REFUSED: &[(&[&str], i32, &str)] = &[
    (&["create", "--name", "UPPER"], 2, "UPPER"),
    (&["create", "--name=-dash"], 2, "dash"),
    (&["create", "--name", "a/b"], 2, "a/b"),
    (
        &["create", "--name", "0123456789012345678901234567890123456789012345678901234567890123"],
        2,
        "63",
    ),
    (&["create", "--name", "x", "--memory", "lots"], 2, "lots"),
    (&["create", "--name", "x", "--memory", "1"], 2, "memory"),
    (&["create", "--name", "x", "--cpus=-1"], 2, "cpus"),
    (&["create", "--name", "x", "--cpus", "nan"], 2, "cpus"),
    (&["create", "--name", "x", "--pids", "0"], 2, "pids"),
    (&["create", "--name", "x", "--env", "=novalue"], 2, "env"),
    (&["create", "--name", "x", "--label", "no-value"], 2, "label"),
    (&["create", "--name", "x", "--restart", "sometimes"], 2, "sometimes"),
    (&["create", "--name", "x", "--workdir", "relative"], 2, "absolute"),
    (&["create", "--name", "x", "--mount", "/:/host"], 2, "mount"),
    (&["create", "--name", "x", "--mount", "/proc:/host"], 2, "mount"),
    (&["create", "--name", "x", "--mount", "/var/run/docker.sock:/d"], 2, "mount"),
    (&["create", "--name", "x", "--image", "dir:/"], 2, "image"),
    (&["create", "--name", "x", "--image", "dir:relative"], 2, "image"),
    (&["create", "--name", "x", "--driver", "nowhere"], 2, "nowhere"),
    (&["create", "--name", "x", "--workspace", "missing"], 3, "missing"),
    (&["get", "missing"], 3, "missing"),
    (&["start", "missing"], 3, "missing"),
    (&["delete", "missing"], 3, "missing"),
    (&["exec", "missing", "--", "true"], 125, "missing"),
    (&["logs", "missing"], 3, "missing"),
    (&["frobnicate"], 2, "frobnicate"),
    (&["get"], 2, "NAME"),
    (&["wait", "missing", "--for", "happiness"], 2, "happiness"),
    (&["workspace", "delete", "missing"], 3, "missing"),
];

#[test]
fn every_bad_command_line_gets_a_clear_error_and_stores_nothing() {
    let home = Home::new();
    home.run(&["list"]).ok();
    let mut wrong = Vec::new();
    for (args, code, word) in REFUSED {
        let done = home.run(args);
        let clear = done.stderr.to_lowercase().contains(&word.to_lowercase())
            && done.stderr.contains("error: ")
            && !done.stderr.contains("panicked")
            && !done.stderr.contains("Status {");
        if done.code != *code || !clear {
            wrong.push(format!("{args:?}: exit {} (not {code}): {}", done.code, done.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(home.run(&["list", "-o", "name"]).text(), "");
    assert_eq!(home.run(&["workspace", "list", "-o", "name"]).text(), "");
}

#[test]
fn a_limit_that_cannot_be_enforced_is_refused_unless_that_is_accepted() {
    let home = Home::new();
    let refused = home.run(&["create", "--name", "disk", "--disk", "1g"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--unenforced"), "{}", refused.stderr);
    home.run(&["create", "--name", "disk", "--disk", "1g", "--unenforced"]).ok();
    let conditions = home.get("disk")["conditions"].to_string();
    assert!(conditions.contains("LimitsEnforced"), "{conditions}");
}

#[test]
fn an_unknown_setting_names_the_nearest_right_one() {
    let home = Home::new();
    std::fs::write(home.path().join("config.toml"), "log_formt = \"json\"\n").expect("written");
    let refused = home.run(&["gateway", "start"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("log_format"), "{}", refused.stderr);
    std::fs::remove_file(home.path().join("config.toml")).expect("removed");
}

#[test]
fn control_characters_from_a_sandbox_are_escaped_where_they_are_not_raw_output() {
    let home = Home::new();
    home.run(&[
        "create",
        "--name",
        "esc",
        "--label",
        "k=v",
        "--restart",
        "never",
        "--no-wait",
        "--",
        "/bin/\u{1b}[31mred",
    ])
    .ok();
    home.wait_for_phase("esc", "Error");
    for args in [&["list"][..], &["get", "esc"], &["explain", "esc"], &["events", "esc"]] {
        let shown = home.run(args).ok();
        assert!(!shown.stdout.contains(&0x1b), "{args:?}: {}", shown.text());
    }
}

/// Most that a process has had in memory, in kB.
fn peak_kb(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Neither the gateway nor the one supervisor of this home has held much of what went through it.
fn assert_small(home: &Home, gateway: i32) {
    let supervisor = supervisors(home.path());
    assert_eq!(supervisor.len(), 1);
    let (gateway, supervisor) = (peak_kb(gateway), peak_kb(supervisor[0]));
    println!("peak memory: gateway {gateway} kB, supervisor {supervisor} kB");
    assert!(gateway < 100_000, "gateway: {gateway} kB");
    assert!(supervisor < 16_000, "supervisor: {supervisor} kB");
}

const GIGABYTE: usize = 1_000_000_000;

#[test]
fn a_line_of_a_gigabyte_as_input_is_held_by_nobody() {
    let home = Home::new();
    home.run(&["create", "--name", "in"]).ok();
    let gateway = home.gateway_pid().expect("a gateway");
    // One that never reads its input: the client waits, and nothing piles up before it.
    let mut deaf = home.spawn(&["exec", "-i", "in", "--", "sleep", "1000"]);
    let mut blocked = deaf.stdin.take().expect("a pipe");
    let stuffing = std::thread::spawn(move || {
        let line = vec![b'x'; 1 << 20];
        // Ends with an error once the client is killed.
        while blocked.write_all(&line).is_ok() {}
    });
    let mut counter = home.spawn(&["exec", "-i", "in", "--", "wc", "-c"]);
    let mut input = counter.stdin.take().expect("a pipe");
    let line = vec![b'x'; 1_000_000];
    for _ in 0..GIGABYTE / line.len() {
        input.write_all(&line).expect("it is taken");
    }
    drop(input);
    let counted = counter.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), GIGABYTE.to_string());
    assert_small(&home, gateway);
    deaf.kill().expect("killed");
    deaf.wait().expect("reaped");
    stuffing.join().expect("it ends");
}

#[test]
fn a_line_of_a_gigabyte_in_a_log_is_bounded_in_memory_and_on_disk() {
    let home = Home::new();
    let script = format!("head -c {GIGABYTE} /dev/zero | tr '\\0' x");
    let spec = ["create", "--name", "log", "--restart", "never", "--no-wait", "--"];
    home.run(&[&spec[..], &["sh", "-c", &script]].concat()).ok();
    let gateway = home.gateway_pid().expect("a gateway");
    // A reader that stalls: it follows, and nobody takes what it gets.
    let mut stalled = home.spawn(&["logs", "-f", "log"]);
    home.wait_for_phase("log", "Completed");
    let kept = home.run(&["logs", "log"]).ok();
    assert!(!kept.stdout.is_empty() && kept.stdout.iter().all(|byte| *byte == b'x'));
    assert!(kept.stdout.len() < 100_000_000, "{} bytes are kept", kept.stdout.len());
    assert!(kept.stderr.contains("dropped"), "{}", kept.stderr);
    // The last line is as long as what is left of it, and asking for it costs no more.
    let last = home.run(&["logs", "--tail", "1", "log"]).ok();
    assert_eq!(last.stdout.len(), kept.stdout.len());
    assert_small(&home, gateway);
    stalled.kill().expect("killed");
    stalled.wait().expect("reaped");
}

#[test]
fn output_that_nobody_reads_does_not_fill_the_gateways_memory() {
    let home = Home::new();
    home.run(&["create", "--name", "loud"]).ok();
    let mut flood = home.spawn(&["exec", "loud", "--", "cat", "/dev/zero"]);
    let pid = home.gateway_pid().expect("a gateway");
    // A line of a gigabyte, read as it comes.
    let long = ["exec", "loud", "--", "sh", "-c", "head -c 1000000000 /dev/zero | tr '\\0' x"];
    let mut reader = home.spawn(&long);
    let mut out = reader.stdout.take().expect("a pipe");
    let read = std::io::copy(&mut out, &mut std::io::sink()).expect("read");
    assert_eq!(read, 1_000_000_000);
    assert!(reader.wait().expect("it ends").success());
    assert_small(&home, pid);
    // Another exec is not held up by the one that nobody reads.
    home.run(&["exec", "loud", "--", "true"]).ok();
    flood.kill().expect("killed");
    flood.wait().expect("reaped");
}
