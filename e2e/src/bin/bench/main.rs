//! Measures the local and gateway rows of the numbers to reach, and writes docs/benchmarks.md.
//!
//! Run by `cargo xtask bench`. Prints ratios from one run, with what was compared and on what
//! machine; nothing here is an assertion, since machines are shared and noisy. `--quick` does less of
//! everything, `--only local|gateway|list` some of the rows.

mod docker;
mod gateway_rows;
mod list_rows;
mod local_rows;
mod measure;
mod report;

use report::Report;

fn main() -> anyhow::Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let mut report = Report::begin();
    let only = after("--only");
    let wanted = |rows: &str| only.as_ref().is_none_or(|only| only == rows);
    if wanted("local") {
        let docker = docker::Docker::start();
        let docker = docker.map_err(|error| eprintln!("no docker: {error:#}")).ok();
        local_rows::measure(&mut report, docker.as_ref(), quick)?;
    }
    if wanted("gateway") {
        gateway_rows::measure(&mut report, quick)?;
    }
    if wanted("list") {
        list_rows::measure(&mut report, quick)?;
    }
    match after("--out") {
        Some(path) => std::fs::write(path, report.markdown())?,
        None => println!("{}", report.markdown()),
    }
    Ok(())
}

/// What follows an argument of the command line.
fn after(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}
