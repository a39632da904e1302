//! Processes by name and birth: a bare pid is never trusted.
//!
//! A pid is reused; a pid with its start time is not within one boot, and the boot id tells boots
//! apart. What was found is held by a pidfd, which stays with that one process.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One life of one process on one boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Birth {
    /// `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot_id: String,
    /// As the host counts.
    pub(crate) pid: i32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub(crate) start_time: u64,
}

impl Birth {
    /// The driver's name of a run: `BOOT:PID:START`.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}:{}", self.boot_id, self.pid, self.start_time)
    }

    /// The birth with that [`Birth::name`].
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.rsplitn(3, ':');
        let start_time = parts.next()?.parse().ok()?;
        let pid = parts.next()?.parse().ok()?;
        Some(Self { boot_id: parts.next()?.to_owned(), pid, start_time })
    }

    /// The process, if it is this very one and alive.
    pub(crate) fn find(&self, boot_id: &str) -> Option<Process> {
        if self.boot_id != boot_id {
            return None;
        }
        let process = Process::open(self.pid)?;
        let same = start_time(self.pid).is_ok_and(|seen| seen == self.start_time);
        (same && process.is_alive()).then_some(process)
    }
}

/// A process held by a pidfd.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

impl Process {
    /// Whatever has that pid now.
    pub(crate) fn open(pid: i32) -> Option<Self> {
        // A number from a file: what is no pid at all is no process.
        let number = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).ok()?;
        Some(Self { pid, pidfd })
    }

    /// Not ended; a zombie has.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended_within_ms(0)
    }

    /// Waits at most `ms` for the end.
    pub(crate) fn ended_within_ms(&self, ms: u32) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let limit =
            Timespec { tv_sec: (ms / 1000).into(), tv_nsec: (ms % 1000 * 1_000_000).into() };
        matches!(poll(&mut fds, Some(&limit)), Ok(n) if n > 0)
    }

    /// Sends a signal to this very process; one that has ended already is fine.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(self.pidfd.as_fd(), signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Its birth, read while the pidfd proves that the pid is still its own.
    pub(crate) fn birth(&self, boot_id: &str) -> Option<Birth> {
        let start_time = start_time(self.pid).ok()?;
        let birth = Birth { boot_id: boot_id.to_owned(), pid: self.pid, start_time };
        self.is_alive().then_some(birth)
    }
}

/// Field 22 of `/proc/PID/stat`. The name in field 2 may hold anything, so fields are counted from
/// the last parenthesis.
pub(crate) fn start_time(pid: i32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_start_time(&stat).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is odd")))
}

fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The pid that a process has in its innermost pid namespace.
pub(crate) fn innermost_pid(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// Whether the process is one that libcontainer prepares and has not let go yet; it names them so.
pub(crate) fn is_unborn(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("youki:"))
}

/// The kernel's id of this boot.
pub(crate) fn kernel_boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let fields: Vec<String> = (3..=24).map(|n| n.to_string()).collect();
        let stat = format!("17 (a ) (b) {}", fields.join(" "));
        assert_eq!(parse_start_time(&stat), Some(22));
    }

    #[test]
    fn a_birth_comes_back_from_its_name_and_finds_only_that_very_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let me = Birth { boot_id: "b:1".into(), pid, start_time: start_time(pid).unwrap() };
        assert_eq!(Birth::parse(&me.name()), Some(me.clone()));
        assert!(me.find("b:1").is_some());
        assert!(me.find("another boot").is_none());
        let reused = Birth { start_time: me.start_time + 1, ..me };
        assert!(reused.find("b:1").is_none());
    }

    /// Every line that is too short, cut within a number, or has something else in the place of one.
    #[test]
    fn a_line_that_is_no_stat_gives_no_start_time() {
        let fields: Vec<String> = (3..=24).map(|n| n.to_string()).collect();
        let whole = format!("17 (sh) {}", fields.join(" "));
        for end in 0..whole.len() {
            let seen = parse_start_time(&whole[..end]);
            assert!(matches!(seen, None | Some(2 | 22)), "{:?}: {seen:?}", &whole[..end]);
        }
        for other in ["-22", "22.0", "99999999999999999999", "x", "\u{fffd}"] {
            assert_eq!(parse_start_time(&whole.replace("22", other)), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_is_no_birth_is_none() {
        for odd in ["", ":", "::", "b:1", "b:x:2", "b:1:x", "b:1:-2", "b:99999999999:2"] {
            assert_eq!(Birth::parse(odd), None, "{odd}");
        }
        // Numbers that no process has are births that are never found.
        for never in ["b:0:1", "b:-1:1", "b:2147483647:18446744073709551615"] {
            assert!(Birth::parse(never).unwrap().find("b").is_none(), "{never}");
        }
    }

    #[test]
    fn a_zombie_counts_as_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::open(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(process.ended_within_ms(10_000));
        assert!(!process.is_alive());
        child.wait().unwrap();
    }
}
