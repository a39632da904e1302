//! Signals as things to read, and which of them PID 1 obeys.
//!
//! Everything is blocked and read from a signalfd, so no handler ever runs. Obeyed are SIGCHLD
//! (look for ended children) and SIGTERM from outside the sandbox: the kernel then gives pid 0 as
//! the sender and `SI_USER` as the code. A process inside can send SIGTERM too, and can forge the
//! pid with `rt_sigqueueinfo`, but never together with that code.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Reads of a full buffer before other work has its turn.
const READS_AT_ONCE: usize = 8;

/// What came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Children may have ended.
    pub child: bool,
    /// Someone who may says: stop.
    pub stop: bool,
    /// There are more to be read.
    pub more: bool,
}

/// All signals, as a descriptor.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    anyone_may_stop: bool,
}

impl Signals {
    /// Blocks all signals of this process and opens the descriptor. With `anyone_may_stop` every
    /// SIGTERM is obeyed: the process is then not PID 1 and has no outside.
    pub fn open(anyone_may_stop: bool) -> io::Result<Self> {
        let all = full_set();
        // SAFETY: `all` is a valid set; a null old set is allowed.
        if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) } != 0
        {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `all` is a valid set; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const all, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, anyone_may_stop })
    }

    /// The descriptor to watch.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads what is pending, a bounded part of it: whoever is inside can queue signals faster than
    /// they are read.
    pub fn take(&self) -> Arrived {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut arrived = Arrived::default();
        let mut buffer = [0; SIZE * 16];
        for _ in 0..READS_AT_ONCE {
            let count = match rustix::io::read(&self.fd, &mut buffer) {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(_) => return arrived,
            };
            for record in buffer[..count].chunks_exact(SIZE) {
                // SAFETY: the kernel writes whole records; the type is plain data.
                let info = unsafe {
                    std::ptr::read_unaligned(record.as_ptr().cast::<libc::signalfd_siginfo>())
                };
                self.note(&info, &mut arrived);
            }
            if count < buffer.len() {
                return arrived;
            }
        }
        arrived.more = true;
        arrived
    }

    fn note(&self, info: &libc::signalfd_siginfo, arrived: &mut Arrived) {
        let from_outside = info.ssi_pid == 0 && info.ssi_code == libc::SI_USER;
        match i32::try_from(info.ssi_signo) {
            Ok(libc::SIGCHLD) => arrived.child = true,
            Ok(libc::SIGTERM) if from_outside || self.anyone_may_stop => arrived.stop = true,
            _ => {}
        }
    }
}

/// For a child, before it runs its program: nothing blocked, everything as the kernel's default.
pub fn reset_in_child() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default action needs no handler; wrong numbers are refused by the kernel.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an all-zero set is filled by sigemptyset before use.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Sends a signal to a process group. A group that is gone is no error.
pub fn signal_group(leader: i32, signal: i32) {
    if leader > 1 && (1..=libc::SIGRTMAX()).contains(&signal) {
        // SAFETY: kill has no memory effects; the group is our own child's. A child that was just
        // forked has no group of its own yet; it finds the signal once it unblocks signals.
        unsafe {
            if libc::kill(-leader, signal) < 0 {
                libc::kill(leader, signal);
            }
        }
    }
}

fn full_set() -> libc::sigset_t {
    // SAFETY: an all-zero set is filled by sigfillset before use.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        all
    }
}
