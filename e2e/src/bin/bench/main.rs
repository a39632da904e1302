//! Measures the local and gateway rows of the numbers to reach, and writes docs/benchmarks.md.
//!
//! Run by `cargo xtask bench`. Prints ratios from one run, with what was compared and on what
//! machine; nothing here is an assertion, since machines are shared and noisy.

mod docker;
mod gateway_rows;
mod local_rows;
mod measure;
mod report;

use report::Report;

fn main() -> anyhow::Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let mut report = Report::begin();
    let docker = docker::Docker::start().map_err(|error| eprintln!("no docker: {error:#}")).ok();
    local_rows::measure(&mut report, docker.as_ref(), quick)?;
    gateway_rows::measure(&mut report, quick)?;
    drop(docker);
    let path = std::env::args().skip_while(|argument| argument != "--out").nth(1);
    match path {
        Some(path) => std::fs::write(path, report.markdown())?,
        None => println!("{}", report.markdown()),
    }
    Ok(())
}
