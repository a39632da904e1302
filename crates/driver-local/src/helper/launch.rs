//! One launch: lock, look, assemble, make PID 1, put it on record, let it go.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use libcontainer::container::Container;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::syscall::syscall::SyscallType;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use rustix::thread::set_thread_groups;

use super::ask::{Answer, Failure, Launch, While};
use super::assemble::{Staged, assemble};
use crate::cgroup::{Group, Hierarchies};
use crate::config::{Guard, Step};
use crate::home::{Durable, absent_is_done, write_json};
use crate::process::{Birth, Process};
use crate::record::RunRecord;
use crate::sys;
use crate::tenant::Directory;

/// Descriptors that a PID 1 without the guard against them is given.
const MANY_DESCRIPTORS: i32 = 1000;

pub(super) fn launch(launch: &Launch) -> Answer {
    match try_launch(launch) {
        Ok(answer) => answer,
        Err(failure) => Answer::Failed(failure),
    }
}

fn try_launch(launch: &Launch) -> Result<Answer, Failure> {
    let lock = launch.sandbox_dir.join("lock");
    let lock = OpenOptions::new().write(true).open(&lock).when("the sandbox is gone")?;
    // Held until this process ends.
    if !sys::lock(lock.as_fd()).when("the sandbox could not be locked")? {
        return Ok(Answer::Busy { message: "another start of it is under way".to_owned() });
    }
    die_at(launch, Step::Locked);
    if launch.guards(Guard::Groups) {
        // A login brings groups along (root's own, adm, docker), and no user namespace takes them
        // away: PID 1 would read on the host what they may read. This process has one thread.
        set_thread_groups(&[]).when("its groups could not be left")?;
    }
    let hierarchies = Hierarchies::of_this_machine().when("control groups")?;
    let group = hierarchies.group(launch.cgroup.clone());
    group.make().when("its control group could not be made")?;
    if !group.pids().when("its control group could not be read")?.is_empty() {
        return Ok(Answer::Busy { message: "something of it is alive".to_owned() });
    }
    let leftover = launch.runtime_dir.join(&launch.id);
    absent_is_done(fs::remove_dir_all(leftover)).when("old runtime state is in the way")?;

    let staged = assemble(launch)?;
    die_at(launch, Step::Mounted);
    // Before anything is forked: libcontainer's processes wait for ever when this one dies, and are
    // found by the group they are in.
    let own_group = hierarchies.group(super::helper_group(&launch.cgroup));
    own_group.enter(std::process::id()).when("the helper's control group")?;
    // PID 1 inherits the writing end and loses it when it calls `exec`.
    let (before_exec, held) = pipe_with(PipeFlags::CLOEXEC).when("a pipe")?;
    let mut container = make(launch, &staged)?;
    drop(held);
    die_at(launch, Step::Made);
    match let_go(launch, &mut container, before_exec.as_fd()) {
        Ok(birth) => Ok(Answer::Launched { birth }),
        Err(failure) => {
            end(&container, &group);
            Err(failure)
        }
    }
}

/// Has libcontainer make PID 1, which then waits to be let go.
fn make(launch: &Launch, staged: &Staged) -> Result<Container, Failure> {
    let null = || OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    let log = File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(launch.sandbox_dir.join("boot.log"))
        .when("boot.log could not be opened")?;
    let failed = |error: libcontainer::error::LibcontainerError| {
        Failure::internal("start", format!("PID 1 could not be made: {}", chain(&error)))
    };
    // All of them: more than there are.
    let passed_on = if launch.guards(Guard::Descriptors) { 0 } else { MANY_DESCRIPTORS };
    allow_core_limit();
    ContainerBuilder::new(launch.id.clone(), SyscallType::default())
        .with_root_path(launch.runtime_dir.clone())
        .map_err(failed)?
        .with_stdin(null().when("/dev/null")?)
        .with_stdout(null().when("/dev/null")?)
        .with_stderr(log)
        .with_preserved_fds(passed_on)
        .as_init(&staged.bundle)
        .with_systemd(false)
        .build()
        .map_err(failed)
}

/// The supervisor sets the limit of core dumps to 1 (see its guard `core-dumps`), which it may not
/// do when this process was started with 0. Where root may not either, the supervisor says so.
fn allow_core_limit() {
    let at_most_one = Rlimit { current: Some(0), maximum: Some(1) };
    if let Err(error) = setrlimit(Resource::Core, at_most_one) {
        tracing::debug!(%error, "the limit of core dumps could not be set");
    }
}

fn let_go(
    launch: &Launch,
    container: &mut Container,
    before_exec: BorrowedFd<'_>,
) -> Result<Birth, Failure> {
    let pid = container.pid().map(|pid| pid.as_raw());
    let process = pid.and_then(Process::open);
    let process = process.ok_or_else(|| Failure::internal("start", "PID 1 ended at once"))?;
    let birth = process.birth(&launch.boot_id);
    let birth = birth.ok_or_else(|| Failure::internal("start", "PID 1 ended at once"))?;

    let record = launch.sandbox_dir.join("runtime.json");
    let session = fs::metadata(launch.sandbox_dir.join("run")).when("the session directory")?;
    let sandbox = Directory::at(&launch.sandbox_dir).when("the directory of the sandbox")?;
    let run = RunRecord {
        birth: birth.clone(),
        generation: launch.generation,
        session_dir: Directory::from(&session),
        sandbox_dir: Some(sandbox),
        oom: false,
    };
    write_json(&record, &run, Durable::No).when("the run could not be recorded")?;
    die_at(launch, Step::Recorded);

    if launch.guards(Guard::Network) {
        sys::setns(process.pidfd.as_fd(), libc::CLONE_NEWNET).when("its network")?;
        sys::interface_up(c"lo").when("its loopback interface could not be brought up")?;
    }
    container.start().map_err(|error| {
        Failure::internal("start", format!("PID 1 could not be let go: {}", chain(&error)))
    })?;
    die_at(launch, Step::LetGo);
    // The lock is held until PID 1 is the supervisor: whoever sees it in between sees a start under
    // way, not the remains of one.
    let ended = rustix::io::read(before_exec, &mut [0_u8]).when("waiting for the supervisor")?;
    if ended != 0 || !process.is_alive() {
        let log = fs::read_to_string(launch.sandbox_dir.join("boot.log")).unwrap_or_default();
        let message = format!("the supervisor ended at once {}", log.trim());
        return Err(Failure::internal("start", message));
    }
    Ok(birth)
}

/// Ends what a failed launch has made. Whatever is left the driver finds by the control group.
fn end(container: &Container, group: &Group) {
    if let Some(process) = container.pid().and_then(|pid| Process::open(pid.as_raw())) {
        if let Err(error) = process.signal(Signal::KILL) {
            tracing::warn!(%error, "PID 1 of a failed start could not be ended");
        }
        process.ended_within_ms(5_000);
    }
    if let Err(error) = group.remove() {
        tracing::warn!(%error, "the control group of a failed start is left");
    }
}

/// The whole cause: libcontainer keeps it in the chain of sources.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A failpoint: this process ends here as if it had been killed.
fn die_at(launch: &Launch, step: Step) {
    if launch.dies_at == Some(step) {
        let pid = rustix::process::getpid();
        let killed = rustix::process::kill_process(pid, Signal::KILL);
        debug_assert!(killed.is_ok());
    }
}
