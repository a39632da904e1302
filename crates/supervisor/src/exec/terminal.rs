//! Pseudo-terminals: made for a process, resized, handed over in the child.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const DEFAULT_ROWS: u16 = 24;
const DEFAULT_COLUMNS: u16 = 80;

/// Both ends: the master for us, the other for the process.
#[derive(Debug)]
pub struct Terminal {
    /// Not blocking.
    pub master: OwnedFd,
    /// The process's stdin, stdout and stderr.
    pub slave: OwnedFd,
}

impl Terminal {
    /// A new terminal of that size (0: the default), owned by `uid`.
    pub fn open(uid: u32, rows: u32, columns: u32) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = as_file_owner(uid, || openpt(flags))??;
        unlockpt(&master)?;
        // Through the master itself: right also where /dev/pts is not the one that it belongs to.
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        resize(&master, rows, columns)?;
        Ok(Self { master, slave })
    }
}

/// Sets the size; 0 means the default.
pub fn resize(master: impl AsFd, rows: u32, columns: u32) -> io::Result<()> {
    let or = |value, default| match u16::try_from(value) {
        Ok(0) => default,
        Ok(value) => value,
        Err(_) => u16::MAX,
    };
    let size = Winsize {
        ws_row: or(rows, DEFAULT_ROWS),
        ws_col: or(columns, DEFAULT_COLUMNS),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(master, size)?)
}

/// A terminal belongs to whoever opens it; the process must be able to open it again by name.
///
/// Whenever that id changes the kernel makes the process as dumpable as `fs.suid_dumpable` says,
/// which may be more than the guard left: so what was before is put back.
fn as_file_owner<T>(uid: u32, open: impl FnOnce() -> T) -> io::Result<T> {
    if rustix::process::geteuid().as_raw() == uid {
        return Ok(open());
    }
    let dumpable = match dumpable_behavior()? {
        DumpableBehavior::Dumpable => DumpableBehavior::Dumpable,
        _ => DumpableBehavior::NotDumpable,
    };
    // SAFETY: setfsuid has no memory effects; it changes this one thread, and is changed back.
    let before = unsafe { libc::setfsuid(uid) };
    let result = open();
    // SAFETY: as above; the value came from the kernel.
    #[allow(clippy::cast_sign_loss, reason = "a uid that libc returns as int")]
    unsafe {
        libc::setfsuid(before as libc::uid_t)
    };
    set_dumpable_behavior(dumpable)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_dumpable_stays_so_when_a_terminal_is_opened_for_another() {
        // Only root can open one for another; for anybody else the id does not change at all.
        for behavior in [DumpableBehavior::Dumpable, DumpableBehavior::NotDumpable] {
            set_dumpable_behavior(behavior).unwrap();
            as_file_owner(1234, || {}).unwrap();
            assert_eq!(dumpable_behavior().unwrap(), behavior);
        }
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
}
