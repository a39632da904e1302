//! What comes of a command: that it started, its log as it is followed, and readers that take
//! nothing.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use sandkeep_e2e::{Home, until};

#[test]
fn thousands_of_short_lines_come_out_and_the_command_ends() {
    let home = Home::new();
    home.run(&["create", "--name", "lab"]).ok();
    // One write for each line, slow enough to be a piece of its own on its way.
    let lines = "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); echo $i; sleep 0; done";
    let told = home.run(&["exec", "lab", "--", "sh", "-c", lines]).ok();
    assert_eq!(told.text().lines().count(), 6000);
    assert_eq!(told.text().lines().last(), Some("6000"));
}

#[test]
fn a_detached_exec_that_cannot_be_started_is_no_success() {
    let home = Home::new();
    home.run(&["create", "--name", "lab"]).ok();
    for (args, code, why) in [
        (&["no-such-program"][..], 127, "no-such-program: No such file"),
        (&["/etc/passwd"], 126, "Permission denied"),
        (&["--workdir", "/no", "--", "true"], 126, "working directory /no"),
        (&["--user", "nobody-here", "--", "true"], 126, "there is no user nobody-here"),
    ] {
        let args = [&["exec", "-d", "lab"], args].concat();
        let done = home.run(&args).code(code);
        assert_eq!(done.text(), "", "{}", done.args);
        for part in ["error: the command was not run in sandbox \"lab\"", why, "  next: "] {
            assert!(done.stderr.contains(part), "{}: {}", done.args, done.stderr);
        }
    }
    let id = home.run(&["exec", "-d", "lab", "--", "sh", "-c", "echo on; sleep 1000"]).ok().text();
    assert!(until(30, || home.run(&["logs", "lab", "--source", &id]).text() == "on"));
}

fn followed(follower: &mut Child, until: &str) -> String {
    let mut lines = BufReader::new(follower.stdout.as_mut().unwrap());
    let mut seen = String::new();
    while !seen.contains(until) {
        assert!(lines.read_line(&mut seen).unwrap() > 0, "it ended after {seen:?}");
    }
    assert!(lines.buffer().is_empty(), "more came than was waited for");
    seen
}

#[test]
fn following_a_log_goes_on_over_restarts_and_ends_with_the_command() {
    let home = Home::new();
    // Fails twice, and each time only once it is told to go on.
    let script = "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; echo run $n; \
                  until [ -e go$n ]; do sleep 0.05; done; [ $n -ge 3 ]";
    home.run(&["create", "--name", "lab", "--restart", "on-failure", "--", "sh", "-c", script])
        .ok();
    let mut follower = home.spawn(&["logs", "-f", "lab"]);
    for number in 1..=3 {
        followed(&mut follower, &format!("run {number}\n"));
        home.run(&["exec", "lab", "--", "touch", &format!("/workspace/go{number}")]).ok();
    }
    let mut rest = String::new();
    follower.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), follower.wait().unwrap().code()), ("", Some(0)));
    // Of a command that has ended: all, at once.
    let all = home.run(&["logs", "-f", "lab"]).ok();
    assert_eq!(all.text(), "run 1\nrun 2\nrun 3");
}

#[test]
fn following_a_log_ends_when_the_sandbox_is_stopped_or_deleted() {
    let home = Home::new();
    for end in ["stop", "delete"] {
        home.run(&["create", "--name", end, "--", "sh", "-c", "echo up; sleep 1000"]).ok();
        let mut follower = home.spawn(&["logs", "-f", end]);
        followed(&mut follower, "up\n");
        home.run(&[end, end]).ok();
        assert_eq!(follower.wait().unwrap().code(), Some(0), "{end}");
    }
}

#[test]
fn following_waits_for_whom_the_command_left_behind() {
    let home = Home::new();
    let script = "(until [ -e go ]; do sleep 0.05; done; echo later) & echo now";
    home.run(&[
        "create",
        "--name",
        "lab",
        "--restart",
        "never",
        "--no-wait",
        "--",
        "sh",
        "-c",
        script,
    ])
    .ok();
    home.wait_for_phase("lab", "Completed");
    let mut follower = home.spawn(&["logs", "-f", "lab"]);
    followed(&mut follower, "now\n");
    home.run(&["exec", "lab", "--", "touch", "/workspace/go"]).ok();
    followed(&mut follower, "later\n");
    assert_eq!(follower.wait().unwrap().code(), Some(0));
}

#[test]
fn a_gateway_goes_on_although_nobody_reads_its_log() {
    let home = Home::new().env("RUST_LOG", "trace");
    let mut command = home.command(&["gateway", "run"]);
    let mut gateway = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let unread = gateway.stderr.take().unwrap();
    assert!(until(30, || home.gateway_pid().is_some()));
    home.run(&["create", "--name", "lab"]).ok();
    // Far more lines than a pipe and the queue before it have room for.
    let enough = || rustix::io::ioctl_fionread(&unread).unwrap_or(0) >= 60 * 1024;
    while !enough() {
        home.run(&["exec", "lab", "--", "true"]).ok();
    }
    for _ in 0..20 {
        home.run(&["exec", "lab", "--", "true"]).ok();
    }
    home.run(&["delete", "lab"]).ok();
    home.run(&["gateway", "stop"]).ok();
    assert!(gateway.wait().unwrap().success());
    drop(unread);
}

#[test]
fn what_the_supervisor_says_of_its_guards_is_shown() {
    let home = Home::new();
    home.run(&["create", "--name", "lab"]).ok();
    let shown = home.get("lab");
    let conditions = shown["conditions"].as_array().unwrap();
    let guarded = conditions.iter().find(|condition| condition["type"] == "Guarded").unwrap();
    let (status, message) = (guarded["status"].as_str().unwrap(), guarded["message"].as_str());
    assert_eq!(status == "True", message == Some(""), "{guarded}");
    if status == "False" {
        let explained = home.run(&["explain", "lab"]).ok().text();
        assert!(explained.contains("these guards are not up inside"), "{explained}");
    }
}
