//! From exec to the loop, in an order that matters: descriptors first, then the state directory,
//! then what needs privileges, then the guards that take them away.

use std::io;

use crate::limits::ChildLimits;
use crate::options::Options;
use crate::signals::Signals;
use crate::state_dir::StateDir;
use crate::supervisor::{Given, Supervisor};
use crate::{guards, loopback};

/// Becomes PID 1 and stays until told to stop. The error is why it could not.
pub fn run(options: &Options) -> io::Result<()> {
    hold_standard_streams()?;
    let state = StateDir::open(&options.state)?;
    let signals = Signals::open(options.not_pid1)?;
    let limits = ChildLimits::take();
    let missing_guards = if options.not_pid1 {
        guards::descriptors::close_on_exec()?;
        // Orphans come to this process all the same.
        rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
        Vec::new()
    } else {
        become_pid1(options)?
    };
    let socket = options.socket.clone();
    Supervisor::new(Given { state, signals, limits, socket, missing_guards })?.run()
}

/// What only PID 1 of a sandbox does. Gives the names of missing guards.
fn become_pid1(options: &Options) -> io::Result<Vec<String>> {
    if std::process::id() != 1 {
        return Err(io::Error::other("this is not PID 1; for tests there is --not-pid1"));
    }
    // Without it a sandbox works, only programs that talk to themselves fail: the driver may have
    // set it up, or have left no network at all.
    drop(loopback::set_up());
    guards::put_up(options)
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
