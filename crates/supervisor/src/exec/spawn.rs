//! Fork: from a plan to a process and our ends of its streams.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use sandkeep_frames::CHUNK_BYTES;
use sandkeep_frames::message::Process;

use super::child::{self, Stdio};
use super::plan::{NotStarted, Plan};
use super::terminal::Terminal;
use crate::limits::ChildLimits;

/// A process that runs, and our ends.
#[derive(Debug)]
pub struct Spawned {
    /// Its pid, also its process group and session.
    pub pid: i32,
    /// `None`: it reads nothing.
    pub stdin: Option<OwnedFd>,
    /// With a terminal: everything.
    pub stdout: OwnedFd,
    /// `None`: with a terminal.
    pub stderr: Option<OwnedFd>,
    /// Has the reason if the program could not be run; empty and ended if it could.
    pub failure: OwnedFd,
}

struct Ends {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
}

/// Starts a process. Only from the one thread that there is.
pub fn spawn(process: &Process, limits: &ChildLimits) -> Result<Spawned, NotStarted> {
    let plan = Plan::of(process)?;
    let no_room = |error: io::Error| NotStarted::Exhausted(format!("no room for it: {error}"));
    let (ends, stdio) = streams(process, &plan).map_err(no_room)?;
    let (failure, failure_in_child) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
        .map_err(|error| no_room(error.into()))?;
    // SAFETY: this process has one thread, so the child may run any code until it execs.
    match unsafe { libc::fork() } {
        0 => child::become_process(&plan, &stdio, limits, &failure_in_child),
        pid if pid > 0 => {
            let Ends { stdin, stdout, stderr } = ends;
            Ok(Spawned { pid, stdin, stdout, stderr, failure })
        }
        _ => Err(no_room(io::Error::last_os_error())),
    }
}

fn streams(process: &Process, plan: &Plan) -> io::Result<(Ends, Stdio)> {
    if process.tty {
        return terminal_streams(process, plan);
    }
    let (stdin, child_stdin) = if process.stdin {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        (Some(ours(write)?), read)
    } else {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        (None, rustix::fs::open("/dev/null", flags, Mode::empty())?)
    };
    let (stdout, child_stdout) = output_pipe()?;
    let (stderr, child_stderr) = output_pipe()?;
    Ok((
        Ends { stdin, stdout, stderr: Some(stderr) },
        Stdio {
            stdin: child_stdin,
            stdout: child_stdout,
            stderr: Some(child_stderr),
            terminal: false,
        },
    ))
}

fn terminal_streams(process: &Process, plan: &Plan) -> io::Result<(Ends, Stdio)> {
    let Terminal { master, slave } =
        Terminal::open(plan.identity.uid, process.rows, process.columns)?;
    let ends = Ends { stdin: Some(master.try_clone()?), stdout: master, stderr: None };
    let stdout = slave.try_clone()?;
    Ok((ends, Stdio { stdin: slave, stdout, stderr: None, terminal: true }))
}

fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // More at once is faster; where the user's quota of pipe memory is used up it works without.
    let _ = rustix::pipe::fcntl_setpipe_size(&read, CHUNK_BYTES);
    Ok((ours(read)?, write))
}

/// Only our end is non-blocking: programs do not expect that of theirs.
fn ours(fd: OwnedFd) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}
