//! Rows about a gateway with many sandboxes.

use std::time::Duration;

use anyhow::Context;
use sandkeep_e2e::leftovers::supervisors;
use sandkeep_e2e::{Home, until};

use crate::measure::{milliseconds, run, time};
use crate::report::Report;

/// Measures them all.
pub(crate) fn measure(report: &mut Report, quick: bool) -> anyhow::Result<()> {
    let many = if quick { 40 } else { 1000 };
    let home = Home::new();
    run(&mut home.command(&["list"]))?;
    memory(report, &home, if quick { 20 } else { 100 })?;
    fill(&home, many)?;
    at_rest(report, &home, many, if quick { 10 } else { 60 })?;
    killed(report, &home, many)?;
    home.delete_all();
    Ok(())
}

fn memory(report: &mut Report, home: &Home, count: usize) -> anyhow::Result<()> {
    fill(home, count)?;
    let measured = format!("{} with {count} sandboxes", resident(home)?);
    report.row("gateway memory", "≤ 30 MB with 100 sandboxes", measured, String::new());
    Ok(())
}

fn resident(home: &Home) -> anyhow::Result<String> {
    Ok(format!("RSS {} kB", resident_kb(home)?))
}

/// Memory of the gateway that is resident, in kB.
pub(crate) fn resident_kb(home: &Home) -> anyhow::Result<u64> {
    let pid = home.gateway_pid().context("a gateway")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.context("a number of kB")
}

/// Makes sandboxes until there are `count`, four at a time.
fn fill(home: &Home, count: usize) -> anyhow::Result<()> {
    let there = home.run(&["list", "-o", "name"]).text().lines().count();
    let names: Vec<String> = (there..count).map(|n| format!("many-{n}")).collect();
    std::thread::scope(|scope| {
        let chunks = names.chunks(names.len().div_ceil(4).max(1));
        let makers: Vec<_> = chunks
            .map(|chunk| {
                scope.spawn(move || {
                    chunk.iter().try_for_each(|name| {
                        run(&mut home.command(&["create", "--name", name, "--timeout", "120s"]))
                    })
                })
            })
            .collect();
        makers
            .into_iter()
            .try_for_each(|maker| maker.join().map_err(|_| anyhow::anyhow!("a maker stopped"))?)
    })
}

/// Clock ticks of processor time that a process has used (Linux counts 100 a second).
fn ticks(pid: i32) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = stat.rsplit_once(')').context("a stat line")?.1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

fn at_rest(report: &mut Report, home: &Home, count: usize, seconds: u64) -> anyhow::Result<()> {
    let pid = home.gateway_pid().context("a gateway")?;
    let database = home.path().join("gateway.db-wal");
    let quiet = until(180, || {
        let before = ticks(pid).unwrap_or(0);
        std::thread::park_timeout(Duration::from_secs(5));
        ticks(pid).unwrap_or(0) - before < 25
    });
    let written = || std::fs::metadata(&database).and_then(|meta| meta.modified()).ok();
    let (before, wal) = (ticks(pid)?, written());
    std::thread::park_timeout(Duration::from_secs(seconds));
    let used = ticks(pid)? - before;
    let writes = if written() == wal { "no store write" } else { "the store was written" };
    let share = used as f64 / seconds as f64;
    let settled = if quiet { "" } else { "; it had not come to rest" };
    let measured = format!("{share:.2} % of a core over {seconds} s, {writes}{settled}");
    let what = format!("at rest, {count} sandboxes with live sessions");
    report.row(&what, "0 store writes, ≤ 1 % of a core", measured, resident(home)?);
    Ok(())
}

fn killed(report: &mut Report, home: &Home, count: usize) -> anyhow::Result<()> {
    let pids = supervisors(home.path());
    anyhow::ensure!(pids.len() == count, "{} supervisors of {count}", pids.len());
    home.kill_gateway();
    let mut start = home.command(&["gateway", "start"]);
    let serving = time(|| run(&mut start))?;
    let all_ready = |home: &Home| {
        let listed = home.run(&["list", "-o", "json"]);
        let list: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        let sandboxes = list["sandboxes"].as_array().cloned().unwrap_or_default();
        sandboxes.len() == count && sandboxes.iter().all(|sandbox| sandbox["phase"] == "Ready")
    };
    let adopted = time(|| {
        anyhow::ensure!(until(120, || all_ready(home)), "not all are Ready");
        Ok(())
    })?;
    anyhow::ensure!(supervisors(home.path()) == pids, "a workload was touched");
    let measured = format!(
        "serving after {}, all Ready {} later, the same {count} processes",
        milliseconds(serving),
        milliseconds(adopted)
    );
    let what = format!("gateway killed with {count} sandboxes");
    report.row(&what, "serving ≤ 300 ms, all adopted ≤ 5 s", measured, String::new());
    Ok(())
}
