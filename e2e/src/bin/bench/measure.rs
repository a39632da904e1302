//! Times and their medians.

use std::process::Command;
use std::time::{Duration, Instant};

/// Sorted times of one thing done many times, and which of them took longest, counted from 1.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    sorted: Vec<Duration>,
    slowest: usize,
}

impl Times {
    /// The middle one.
    pub(crate) fn median(&self) -> Duration {
        self.sorted[self.sorted.len() / 2]
    }

    /// The one that 99 of 100 do not exceed.
    pub(crate) fn p99(&self) -> Duration {
        self.sorted[(self.sorted.len() * 99 / 100).min(self.sorted.len() - 1)]
    }

    /// `median 4.2 ms, p99 9.1 ms, n = 40`.
    pub(crate) fn text(&self) -> String {
        format!(
            "median {}, p99 {}, n = {}",
            milliseconds(self.median()),
            milliseconds(self.p99()),
            self.sorted.len()
        )
    }

    /// `slowest number 1, then 40.1 ms`: one sample that stands out is told from a slow tail.
    pub(crate) fn tail(&self) -> String {
        let second = self.sorted[self.sorted.len().saturating_sub(2)];
        format!("slowest number {}, then {}", self.slowest, milliseconds(second))
    }
}

/// `4.2 ms`.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// Does it `count` times; what it takes each time.
pub(crate) fn times(
    count: usize,
    mut act: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Times> {
    let mut all = Vec::with_capacity(count);
    for round in 0..count {
        all.push(time(|| act(round))?);
    }
    let slowest = all.iter().enumerate().max_by_key(|(_, took)| **took);
    let slowest = slowest.map_or(0, |(index, _)| index + 1);
    all.sort();
    Ok(Times { sorted: all, slowest })
}

/// What it takes once.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn time(act: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    act()?;
    Ok(begin.elapsed())
}

/// Runs a command to its end; an error unless it ends with 0.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    anyhow::ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// How many times as long.
pub(crate) fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
