//! Between fork and exec: the child becomes the process that was asked for, or says why not.
//!
//! The supervisor has one thread, so the child may allocate. Its descriptors are all
//! close-on-exec; only 0, 1 and 2 are passed on.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use super::plan::Plan;
use crate::guards::capabilities;
use crate::limits::ChildLimits;
use crate::signals;

/// Could not be run at all.
const NOT_EXECUTABLE: i32 = 126;
/// There is no such program.
const NOT_FOUND: i32 = 127;

/// What the child gets as 0, 1 and 2.
#[derive(Debug)]
pub struct Stdio {
    /// Read by the process.
    pub stdin: OwnedFd,
    /// Written by the process.
    pub stdout: OwnedFd,
    /// `None`: the same as stdout (a terminal).
    pub stderr: Option<OwnedFd>,
    /// Stdin is a terminal that becomes the controlling one.
    pub terminal: bool,
}

struct Failure {
    code: i32,
    message: String,
}

/// Never returns: the process runs, or the reason is written to `failure` and the child exits
/// with 126 or 127.
pub fn become_process(plan: &Plan, stdio: &Stdio, limits: &ChildLimits, failure: &OwnedFd) -> ! {
    let Err(reason) = try_become(plan, stdio, limits);
    // Nobody is left to tell if even this fails; the exit code says it once more.
    let _ = rustix::io::write(failure, reason.message.as_bytes());
    // SAFETY: ends this forked process without running the parent's exit handlers.
    unsafe { libc::_exit(reason.code) }
}

fn try_become(
    plan: &Plan,
    stdio: &Stdio,
    limits: &ChildLimits,
) -> Result<std::convert::Infallible, Failure> {
    let failed = |what: &str| {
        let error = std::io::Error::last_os_error();
        Failure { code: NOT_EXECUTABLE, message: format!("{what}: {error}") }
    };
    // SAFETY: none of these calls touches memory; 0 asks for the default argument.
    unsafe {
        if libc::setsid() < 0 {
            return Err(failed("setsid"));
        }
        if stdio.terminal && libc::ioctl(stdio.stdin.as_raw_fd(), libc::TIOCSCTTY, 0) < 0 {
            return Err(failed("controlling terminal"));
        }
        libc::umask(0o022);
    }
    let stderr = stdio.stderr.as_ref().unwrap_or(&stdio.stdout);
    for (fd, number) in [(&stdio.stdin, 0), (&stdio.stdout, 1), (stderr, 2)] {
        // SAFETY: 0, 1 and 2 are open in PID 1 and belong to nobody in this child.
        if unsafe { libc::dup2(fd.as_raw_fd(), number) } < 0 {
            return Err(failed("standard streams"));
        }
    }
    limits.apply();
    become_user(plan).map_err(|what| failed(&what))?;
    // Other ids make a process as dumpable as `fs.suid_dumpable` says, and until exec this one has
    // PID 1's descriptors. exec makes it ordinary again.
    let hidden = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(hidden).map_err(|error| Failure {
        code: NOT_EXECUTABLE,
        message: format!("hiding from siblings: {error}"),
    })?;
    capabilities::drop_all().map_err(|error| Failure {
        code: NOT_EXECUTABLE,
        message: format!("capabilities: {error}"),
    })?;
    signals::reset_in_child();
    // SAFETY: a valid C string.
    if unsafe { libc::chdir(plan.workdir.as_ptr()) } < 0 {
        return Err(failed(&format!("working directory {}", plan.workdir.to_string_lossy())));
    }
    Err(run(plan))
}

/// The error names what failed; errno says why.
fn become_user(plan: &Plan) -> Result<(), String> {
    let identity = &plan.identity;
    let is_now = rustix::process::getuid().as_raw() == identity.uid
        && rustix::process::getgid().as_raw() == identity.gid;
    if is_now && identity.groups.is_empty() {
        return Ok(());
    }
    // SAFETY: the pointer and the length are of one vector; the others touch no memory.
    unsafe {
        if libc::setgroups(identity.groups.len(), identity.groups.as_ptr()) < 0 {
            return Err("supplementary groups".to_owned());
        }
        if libc::setresgid(identity.gid, identity.gid, identity.gid) < 0 {
            return Err(format!("group {}", identity.gid));
        }
        if libc::setresuid(identity.uid, identity.uid, identity.uid) < 0 {
            return Err(format!("user {}", identity.uid));
        }
    }
    Ok(())
}

/// Tries the programs in order, as execvp does; comes back only if none could be run.
fn run(plan: &Plan) -> Failure {
    let argv = pointers(&plan.argv);
    let env = pointers(&plan.env);
    let mut reason = libc::ENOENT;
    for program in &plan.programs {
        // SAFETY: C strings and null-terminated arrays of them, all alive.
        unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        match std::io::Error::last_os_error().raw_os_error().unwrap_or(0) {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => reason = libc::EACCES,
            other => {
                reason = other;
                break;
            }
        }
    }
    let code = if reason == libc::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
    let error = std::io::Error::from_raw_os_error(reason);
    let name = plan.argv.first().map(|name| name.to_string_lossy().into_owned());
    Failure { code, message: format!("{}: {error}", name.unwrap_or_default()) }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}
