//! From exec to the loop, in an order that matters: descriptors first, then the state directory,
//! then what needs privileges, then the guards that take them away.

use std::io;

use crate::limits::ChildLimits;
use crate::options::Options;
use crate::signals::Signals;
use crate::state_dir::StateDir;
use crate::supervisor::{Given, Supervisor};

/// Becomes PID 1 and stays until told to stop. The error is why it could not.
pub fn run(options: &Options) -> io::Result<()> {
    hold_standard_streams()?;
    close_on_exec_from_here()?;
    let state = StateDir::open(&options.state)?;
    let missing_guards = Vec::new();
    let given = Given {
        state,
        signals: Signals::open(options.not_pid1)?,
        limits: ChildLimits::take(),
        socket: options.socket.clone(),
        missing_guards,
    };
    if options.not_pid1 {
        rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    }
    Supervisor::new(given)?.run()
}

/// 0, 1 and 2 must be open, or a pipe's end would get one of these numbers and be lost in a child.
fn hold_standard_streams() -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, open};
    loop {
        let fd = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        if std::os::fd::AsRawFd::as_raw_fd(&fd) > 2 {
            return Ok(());
        }
        // Stays open for as long as the process lives.
        std::mem::forget(fd);
    }
}

/// Whatever who started us left open reaches no child.
fn close_on_exec_from_here() -> io::Result<()> {
    // SAFETY: sets a flag on descriptors, closes none.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
