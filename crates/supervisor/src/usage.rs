//! What the sandbox uses, read from /proc.

use std::fs;

use sandkeep_frames::message::Usage;

/// Everything but what only the supervisor knows (`attached_execs`, `now_ms`).
pub fn measure() -> Usage {
    let ticks_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let page_bytes = rustix::param::page_size() as u64;
    let mut usage = Usage { cpu_us: reaped_cpu_us(), ..Usage::default() };
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_pid = name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        // A process may end between the two looks.
        let Some(stat) = is_pid.then(|| fs::read_to_string(entry.path().join("stat")).ok()) else {
            continue;
        };
        if let Some(process) = stat.as_deref().and_then(read_stat) {
            usage.processes += 1;
            usage.cpu_us += process.ticks.saturating_mul(ticks_us);
            usage.memory_bytes += process.pages.saturating_mul(page_bytes);
        }
    }
    usage
}

struct Stat {
    ticks: u64,
    pages: u64,
}

/// Fields after the name, which may hold anything, parentheses included.
fn read_stat(line: &str) -> Option<Stat> {
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    // utime and stime are fields 14 and 15 of the line, rss is 24; the state is 3.
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let pages = fields.nth(8)?.parse().ok()?;
    Some(Stat { ticks: user + system, pages })
}

fn reaped_cpu_us() -> u64 {
    // SAFETY: a zeroed rusage is valid and outlives the call that fills it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let micros = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    micros(usage.ru_utime) + micros(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_a_hostile_name_is_read() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 11 22 0 0 20 0 1 0 99 4096 33 \
                    18446744073709551615 1 1";
        let stat = read_stat(line).unwrap();
        assert_eq!((stat.ticks, stat.pages), (33, 33));
        assert!(read_stat("7 (a").is_none());
    }

    #[test]
    fn this_process_is_counted() {
        let usage = measure();
        assert!(usage.processes >= 1 && usage.memory_bytes > 0, "{usage:?}");
    }
}
