//! The table that docs/benchmarks.md holds.

use std::fmt::Write;

/// Rows as they are measured.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<[String; 4]>,
}

impl Report {
    /// Empty.
    pub(crate) fn begin() -> Self {
        Self { rows: Vec::new() }
    }

    /// One line of the table; printed at once, too.
    pub(crate) fn row(&mut self, what: &str, target: &str, measured: String, compared: String) {
        println!("{what}: {measured} {compared}");
        self.rows.push([what.to_owned(), target.to_owned(), measured, compared]);
    }

    /// The page.
    pub(crate) fn markdown(&self) -> String {
        let mut page = String::from(
            "# Benchmarks\n\nMade by `cargo xtask bench`; targets are those of the design. Everything in one \
             run on one machine:\nread the ratios, not the milliseconds.\n\n",
        );
        writeln!(page, "Machine: {}\n", machine()).expect("a string takes text");
        page.push_str("| what | target | measured | compared with |\n|---|---|---|---|\n");
        for [what, target, measured, compared] in &self.rows {
            writeln!(page, "| {what} | {target} | {measured} | {compared} |").expect("a string");
        }
        page
    }
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory_kb: u64 = read("/proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let cgroups = if std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        "cgroup v2"
    } else {
        "cgroup v1"
    };
    format!(
        "{cores} cores, {} GiB, Linux {}, {cgroups}, load before the run {}",
        memory_kb >> 20,
        kernel.trim(),
        load.split(' ').next().unwrap_or_default()
    )
}
