//! What the sandbox uses, read from /proc.

use std::fs;
use std::path::Path;

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
        if let Some(process) = is_pid.then(|| stat_of(&entry.path())).flatten() {
            usage.processes += 1;
            let (cpu_us, bytes) =
                (process.ticks.saturating_mul(ticks_us), process.pages.saturating_mul(page_bytes));
            usage.cpu_us = usage.cpu_us.saturating_add(cpu_us);
            usage.memory_bytes = usage.memory_bytes.saturating_add(bytes);
        }
    }
    usage
}

struct Stat {
    ticks: u64,
    pages: u64,
}

/// Of the process below this directory. It gives itself any name, also one that is no text.
fn stat_of(process: &Path) -> Option<Stat> {
    let line = fs::read(process.join("stat")).ok()?;
    read_stat(&String::from_utf8_lossy(&line))
}

/// Fields after the name, which may hold anything, parentheses included.
fn read_stat(line: &str) -> Option<Stat> {
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    // utime and stime are fields 14 and 15 of the line, rss is 24; the state is 3.
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let pages = fields.nth(8)?.parse().ok()?;
    Some(Stat { ticks: user.saturating_add(system), pages })
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
        let numbers = line.replace(" 11 22 ", &format!(" {0} {0} ", u64::MAX));
        assert_eq!(read_stat(&numbers).unwrap().ticks, u64::MAX);
        for odd in ["", "7 (a", "7 (a)", "7 (a) S", &line[..60], &line.replace("22", "-2")] {
            assert!(read_stat(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn a_process_whose_name_is_no_text_is_counted() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(OsStr::from_bytes(b"\xff) 1 2"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("1000").spawn().unwrap();
        let process = Path::new("/proc").join(child.id().to_string());
        // The kernel lets the parent go on a moment before it gives the new name.
        while fs::read(process.join("comm")).unwrap() != b"\xff) 1 2\n" {
            assert!(child.try_wait().unwrap().is_none(), "it ended without the name");
            std::thread::yield_now();
        }
        let stat = stat_of(&process);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stat.is_some());
    }

    #[test]
    fn this_process_is_counted() {
        let usage = measure();
        assert!(usage.processes >= 1 && usage.memory_bytes > 0, "{usage:?}");
    }
}
