//! Ended children, ours and orphans, taken from the kernel so that no zombie stays.

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its pid, free for reuse from now on.
    pub pid: i32,
    /// Exit code, or 128 + signal.
    pub code: i32,
    /// The signal that ended it; 0: none.
    pub signal: i32,
}

/// The next ended child. `None`: nobody has ended, or there are no children.
pub fn next_ended() -> Option<Ended> {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid > 0 {
            return Some(Ended::from_status(pid, status));
        }
        let interrupted =
            pid < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if !interrupted {
            return None;
        }
    }
}

impl Ended {
    fn from_status(pid: i32, status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            return Self { pid, code: 128 + signal, signal };
        }
        Self { pid, code: libc::WEXITSTATUS(status), signal: 0 }
    }
}
