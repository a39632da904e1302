//! Bad input from the command line: a clear error in three parts with the right exit code, and
//! nothing is stored.

use sandkeep_e2e::Home;

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
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    println!("gateway's peak memory: {peak_kb} kB");
    assert!(peak_kb < 150_000, "{peak_kb} kB");
    // Another exec is not held up by the one that nobody reads.
    home.run(&["exec", "loud", "--", "true"]).ok();
    flood.kill().expect("killed");
    flood.wait().expect("reaped");
}
