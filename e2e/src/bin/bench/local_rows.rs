//! Rows about one sandbox on the embedded driver, through the command line.

use std::process::{Command, Stdio};

use anyhow::Context;
use sandkeep_e2e::leftovers::supervisors;
use sandkeep_e2e::{Home, until};

use crate::docker::{Docker, IMAGE};
use crate::measure::{milliseconds, ratio, run, time, times};
use crate::report::Report;

/// Measures them all.
pub(crate) fn measure(
    report: &mut Report,
    docker: Option<&Docker>,
    quick: bool,
) -> anyhow::Result<()> {
    let rounds = if quick { 5 } else { 40 };
    let home = Home::new();
    run(&mut home.command(&["list"]))?;
    first_command(report, &home, docker, rounds)?;
    stop_and_start(report, &home, rounds)?;
    exec_of_true(report, &home, docker, if quick { 20 } else { 200 })?;
    streams(report, &home, docker, if quick { 100 } else { 1000 })?;
    killed(report, &home, rounds)?;
    supervisor_memory(report, &home)?;
    writes_of_a_create(report, &home)
}

fn first_command(
    report: &mut Report,
    home: &Home,
    docker: Option<&Docker>,
    rounds: usize,
) -> anyhow::Result<()> {
    let ours = times(rounds, |_| run(&mut home.command(&["run", "--", "true"])))?;
    let floor = times(rounds, |_| run(&mut Command::new("/bin/true")))?;
    let mut compared = format!("/bin/true: {}", floor.text());
    if let Some(docker) = docker {
        let args = ["run", "--rm", "--network", "none", IMAGE, "true"];
        let theirs = times(rounds.min(15), |_| run(&mut docker.command(&args)))?;
        compared = format!(
            "docker run --rm: {}; ratio {:.2}",
            theirs.text(),
            ratio(ours.median(), theirs.median())
        );
    }
    let target = "≤ 60 ms median, ≤ 200 ms p99; ≤ 0.3 × docker run";
    let measured = format!("{}; {}", ours.text(), ours.tail());
    report.row("create → first command done (`run -- true`)", target, measured, compared);
    Ok(())
}

fn stop_and_start(report: &mut Report, home: &Home, rounds: usize) -> anyhow::Result<()> {
    let create = times(rounds, |round| {
        run(&mut home.command(&["create", "--name", &format!("create-{round}")]))
    })?;
    run(&mut home.command(&["create", "--name", "again"]))?;
    let mut starts = Vec::new();
    let both = times(rounds, |_| {
        run(&mut home.command(&["stop", "again"]))?;
        starts.push(time(|| run(&mut home.command(&["start", "again"])))?);
        Ok(())
    })?;
    starts.sort();
    let start = starts[starts.len() / 2];
    let measured =
        format!("start: median {}; stop and start: {}", milliseconds(start), both.text());
    let compared = format!("create: {}; ratio {:.2}", create.text(), ratio(start, create.median()));
    report.row("stop → start", "≤ create", measured, compared);
    home.delete_all();
    Ok(())
}

fn exec_of_true(
    report: &mut Report,
    home: &Home,
    docker: Option<&Docker>,
    rounds: usize,
) -> anyhow::Result<()> {
    run(&mut home.command(&["create", "--name", "exec"]))?;
    let ours = times(rounds, |_| run(&mut home.command(&["exec", "exec", "--", "true"])))?;
    let floor = times(rounds, |_| run(&mut Command::new("/bin/true")))?;
    let mut compared = format!("/bin/true: {}", floor.text());
    if let Some(docker) = docker {
        let name = "sandkeep-bench-exec";
        let up =
            ["run", "-d", "--rm", "--network", "none", "--name", name, IMAGE, "sleep", "10000"];
        run(&mut docker.command(&up))?;
        let theirs = times(rounds.min(30), |_| run(&mut docker.command(&["exec", name, "true"])))?;
        run(&mut docker.command(&["rm", "-f", name]))?;
        compared = format!(
            "docker exec: {}; ratio {:.2}; {compared}",
            theirs.text(),
            ratio(ours.median(), theirs.median())
        );
    }
    report.row("exec of `true`", "≤ 5 ms, ≤ 0.2 × docker exec", ours.text(), compared);
    Ok(())
}

fn streams(
    report: &mut Report,
    home: &Home,
    docker: Option<&Docker>,
    megabytes: u64,
) -> anyhow::Result<()> {
    let count = format!("count={megabytes}");
    let give = ["dd", "if=/dev/zero", "bs=1M", &count, "status=none"];
    let out_args: Vec<&str> = ["exec", "exec", "--"].into_iter().chain(give).collect();
    let out = rate(megabytes, home.command(&out_args), false)?;
    let into = rate(megabytes, home.command(&["exec", "-i", "exec", "--", "cat"]), true)?;
    let mut compared = String::new();
    if let Some(docker) = docker {
        let name = "sandkeep-bench-stream";
        let up =
            ["run", "-d", "--rm", "--network", "none", "--name", name, IMAGE, "sleep", "10000"];
        run(&mut docker.command(&up))?;
        let give = ["dd", "if=/dev/zero", "bs=1M", &count];
        let out_args: Vec<&str> = ["exec", name].into_iter().chain(give).collect();
        let their_out = rate(megabytes, docker.command(&out_args), false)?;
        let their_in = rate(megabytes, docker.command(&["exec", "-i", name, "cat"]), true)?;
        run(&mut docker.command(&["rm", "-f", name]))?;
        compared = format!(
            "docker exec: out {their_out:.0} MB/s (ratio {:.1}), in {their_in:.0} MB/s (ratio {:.1})",
            out / their_out,
            into / their_in
        );
    }
    let measured = format!("out {out:.0} MB/s, in {into:.0} MB/s");
    report.row("stream through exec", "≥ 2 × docker exec, 500 MB/s the aim", measured, compared);
    run(&mut home.command(&["delete", "exec", "--discard-workspace"]))
}

/// MB/s of a command that gives its output, or takes its input, to or from /dev/null and a dd.
fn rate(megabytes: u64, mut command: Command, input: bool) -> anyhow::Result<f64> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut source = None;
    if input {
        let count = format!("count={megabytes}");
        let mut dd = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", &count, "status=none"])
            .stdout(Stdio::piped())
            .spawn()?;
        command.stdin(dd.stdout.take().context("a pipe")?);
        source = Some(dd);
    }
    let took = time(|| {
        let status = command.status()?;
        anyhow::ensure!(status.success(), "{command:?} ended with {status}");
        Ok(())
    })?;
    if let Some(mut source) = source {
        source.wait()?;
    }
    Ok(megabytes as f64 * 1.048_576 / took.as_secs_f64())
}

fn killed(report: &mut Report, home: &Home, rounds: usize) -> anyhow::Result<()> {
    run(&mut home.command(&["create", "--name", "mortal"]))?;
    let mut incarnation = home.get("mortal")["incarnation"].as_u64().unwrap_or(0);
    let mut all = Vec::new();
    for _ in 0..rounds.min(5) {
        let pids = supervisors(home.path());
        anyhow::ensure!(pids.len() == 1, "one supervisor: {pids:?}");
        all.push(time(|| {
            sandkeep_e2e::home::kill(pids[0]);
            let back = until(60, || {
                let now = home.get("mortal");
                now["phase"] == "Ready" && now["incarnation"].as_u64() > Some(incarnation)
            });
            anyhow::ensure!(back, "it does not come back");
            Ok(())
        })?);
        incarnation = home.get("mortal")["incarnation"].as_u64().unwrap_or(0);
    }
    all.sort();
    let measured = format!(
        "first {}, slowest of {} in a row {} (backoff between repeated losses; asked every 50 ms)",
        milliseconds(all[0]),
        all.len(),
        milliseconds(all[all.len() - 1])
    );
    report.row("main process killed → Ready", "≤ 1 s", measured, String::new());
    Ok(())
}

fn supervisor_memory(report: &mut Report, home: &Home) -> anyhow::Result<()> {
    let pids = supervisors(home.path());
    let pid = pids.first().context("a supervisor")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let measured = format!("RSS {}, of it anonymous {}", value("VmRSS:"), value("RssAnon:"));
    report.row("supervisor memory", "≤ 4 MB RSS", measured, String::new());
    run(&mut home.command(&["delete", "mortal", "--discard-workspace"]))
}

fn writes_of_a_create(report: &mut Report, home: &Home) -> anyhow::Result<()> {
    let pid = home.gateway_pid().context("a gateway")?;
    let strace = Command::new("strace")
        .args([
            "-f",
            "-c",
            "-U",
            "calls,name",
            "-e",
            "trace=fsync,fdatasync",
            "-p",
            &pid.to_string(),
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(strace) = strace else {
        let measured = "not measured: strace is not installed".to_owned();
        report.row("durable writes per create", "≤ 4", measured, String::new());
        return Ok(());
    };
    let attached = until(20, || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    });
    anyhow::ensure!(attached, "strace does not attach");
    for n in 0..10 {
        run(&mut home.command(&["create", "--name", &format!("sync-{n}")]))?;
    }
    let tracer = i32::try_from(strace.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(tracer) = tracer {
        rustix::process::kill_process(tracer, rustix::process::Signal::INT)?;
    }
    let output = strace.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let calls: u64 = text
        .lines()
        .filter(|line| line.trim_end().ends_with("sync"))
        .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    let measured = format!("{:.1} fsync or fdatasync in the gateway", calls as f64 / 10.0);
    report.row("durable writes per create", "≤ 4", measured, "strace, 10 creates".to_owned());
    home.delete_all();
    Ok(())
}
