//! The few system calls that no safe wrapper exists for. The only file of this crate with
//! `unsafe`; it knows nothing of sandboxes.
#![allow(unsafe_code, reason = "raw system calls live here and nowhere else in this crate")]

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Attributes for [`mount_setattr`].
pub(crate) const ATTR_RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(crate) const ATTR_NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(crate) const ATTR_NODEV: u64 = libc::MOUNT_ATTR_NODEV;
pub(crate) const ATTR_NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sets attributes of the mount behind `mount` (an `open_tree` clone), and with `userns` maps the
/// ids of its files through that user namespace.
pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    attributes: u64,
    userns: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let idmap = if userns.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let attr = libc::mount_attr {
        attr_set: attributes | idmap,
        attr_clr: 0,
        propagation: 0,
        userns_fd: userns.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    // SAFETY: `attr` and the empty path live over the call, and the size is that of `attr`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            mem::size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// Moves this process into the namespaces of `kind` (`CLONE_NEW…` bits) of the process behind
/// `pidfd`. The caller has one thread.
pub(crate) fn setns(pidfd: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: takes two integers.
    check(unsafe { libc::setns(pidfd.as_raw_fd(), kind) }.into()).map(drop)
}

/// Moves this process into new namespaces of `kind`. The caller has one thread.
pub(crate) fn unshare(kind: libc::c_int) -> io::Result<()> {
    // SAFETY: takes an integer; files and memory stay shared, so no Rust object is split.
    check(unsafe { libc::unshare(kind) }.into()).map(drop)
}

/// Brings the network interface `name` of this process's network namespace up.
pub(crate) fn interface_up(name: &CStr) -> io::Result<()> {
    // SAFETY: takes integers; the descriptor that comes back is nobody else's.
    let socket = unsafe {
        let fd =
            check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?)
    };
    // SAFETY: `ifreq` is plain data, all zeroes is a valid value of it.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
    // SAFETY: `request` is an initialised `ifreq`, as SIOCSIFFLAGS expects, alive over the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(result.into()).map(drop)
}

/// Takes the write lock on `file` for this process, without waiting. `Ok(false)`: another process
/// has it. A record lock: not inherited by children, gone with the process.
pub(crate) fn lock(file: BorrowedFd<'_>) -> io::Result<bool> {
    take(file, libc::F_SETLK)
}

/// Takes the same lock for as long as `file` stays open, without waiting; for a process with
/// threads, in which closing any other descriptor of the file would give a [`lock`] away.
pub(crate) fn lock_while_open(file: BorrowedFd<'_>) -> io::Result<bool> {
    take(file, libc::F_OFD_SETLK)
}

fn take(file: BorrowedFd<'_>, command: libc::c_int) -> io::Result<bool> {
    let wish = whole_file_write_lock();
    // SAFETY: `wish` is an initialised `flock`, alive over the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const wish) };
    match check(result.into()) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The process that has the write lock on `file`, if one has by [`lock`].
pub(crate) fn lock_holder(file: BorrowedFd<'_>) -> io::Result<Option<Pid>> {
    let mut asked = whole_file_write_lock();
    // SAFETY: `asked` is an initialised `flock`, alive and writable over the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut asked) };
    check(result.into())?;
    if i32::from(asked.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    // One that is held by `lock_while_open` belongs to no process: its pid is told as -1.
    let pid = Some(asked.l_pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    Ok(pid.filter(|pid| !pid.is_init()))
}

fn whole_file_write_lock() -> libc::flock {
    // SAFETY: `flock` is plain data, all zeroes is a valid value of it (from the start, to the
    // end).
    let mut lock: libc::flock = unsafe { mem::zeroed() };
    lock.l_type = i16::try_from(libc::F_WRLCK).unwrap_or(1);
    lock.l_whence = i16::try_from(libc::SEEK_SET).unwrap_or(0);
    lock
}

/// Forks a child that stays in a new user namespace until the returned pipe end is dropped, and
/// does nothing else. `owner`: the user that owns the namespace. The caller has one thread, and
/// reaps the child.
pub(crate) fn fork_into_user_namespace(owner: u32) -> io::Result<(Pid, OwnedFd)> {
    let (ready_read, ready_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (hold_read, hold_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the process has one thread, so the child's memory is consistent; the child calls
    // only system calls and `_exit`.
    let child = check(unsafe { libc::fork() }.into())?;
    if child == 0 {
        drop((ready_read, hold_write));
        // SAFETY: system calls on descriptors this process owns; never returns.
        unsafe {
            // The effective user becomes the owner. It keeps its powers where that is allowed, so
            // that what hosts forbid to ordinary users does not get in the way.
            let keep = libc::c_ulong::from(libc::SECBIT_NO_SETUID_FIXUP.unsigned_abs());
            libc::prctl(libc::PR_SET_SECUREBITS, keep, 0, 0, 0);
            if libc::syscall(libc::SYS_setresuid, -1, owner, -1) != 0
                || libc::unshare(libc::CLONE_NEWUSER) != 0
            {
                libc::_exit(1);
            }
            libc::write(ready_write.as_raw_fd(), c"r".as_ptr().cast(), 1);
            let mut byte = 0_u8;
            libc::read(hold_read.as_raw_fd(), (&raw mut byte).cast(), 1);
            libc::_exit(0)
        }
    }
    drop((ready_write, hold_read));
    let mut byte = [0_u8];
    if rustix::io::read(ready_read.as_fd(), &mut byte)? != 1 {
        return Err(io::Error::other("a user namespace could not be made"));
    }
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or_else(|| io::Error::other("fork gave no pid"))?, hold_write))
}

/// Has the runtime tell when `fd` becomes readable.
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps its one descriptor open until it is dropped, and the `AsyncFd`
    // owns it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(io::Error::from)
}
