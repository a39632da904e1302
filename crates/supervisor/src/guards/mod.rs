//! Guards: what PID 1 takes from itself, and so from everything that it starts.
//!
//! | name | what it stops |
//! |---|---|
//! | `descriptors` | reaching what whoever started PID 1 had open |
//! | `state-hidden` | reaching results and logs: the state mount is detached |
//! | `dumpable` | tracing PID 1, reading its memory, its descriptors and its root through /proc |
//! | `core-dumps` | the host's handler of crashes being run for a process in here |
//! | `capabilities` | any power of root inside the user namespace |
//! | `no-new-privs` | gaining powers by setuid programs and file capabilities |
//! | `landlock` | making device nodes; mounts once more |
//! | `seccomp` | system calls that are attack surface and that no work needs |
//!
//! One that cannot be put up stops the start, except `landlock`, which many kernels lack, and
//! `core-dumps`, which whoever started PID 1 may have made impossible. All that are missing are
//! named in `Hello`.
//!
//! Landlock and seccomp themselves set no-new-privs: leaving `no-new-privs` out shows something
//! only together with them.

pub mod capabilities;
mod core_dumps;
mod denied;
pub(crate) mod descriptors;
pub mod landlock;
pub mod seccomp;

use std::io;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::options::{ALLOW_MISSING_GUARDS, Options, StatePlace};

/// One guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// See the table above; likewise the others.
    Descriptors,
    /// Results and logs.
    StateHidden,
    /// Tracing of PID 1.
    Dumpable,
    /// The host's handler of crashes.
    CoreDumps,
    /// Capabilities.
    Capabilities,
    /// Setuid programs.
    NoNewPrivs,
    /// Device nodes.
    Landlock,
    /// System calls.
    Seccomp,
}

/// In this order: each may need what the later ones take away.
const ORDER: [Guard; 8] = [
    Guard::Descriptors,
    Guard::StateHidden,
    Guard::Dumpable,
    Guard::CoreDumps,
    Guard::Capabilities,
    Guard::NoNewPrivs,
    Guard::Landlock,
    Guard::Seccomp,
];

/// Puts all guards up. Gives the names of those that are missing; the error is one that must not.
pub fn put_up(options: &Options) -> io::Result<Vec<String>> {
    let may_miss = std::env::var_os(ALLOW_MISSING_GUARDS).is_some();
    let mut missing = Vec::new();
    for guard in ORDER {
        let name = guard.name().to_owned();
        if options.without_guards.contains(&name) {
            missing.push(name);
            continue;
        }
        match guard.put_up(options) {
            Ok(()) => {}
            Err(_) if may_miss || guard.may_miss() => missing.push(name),
            Err(error) => {
                let sentence = format!("the guard {name} cannot be put up: {error}");
                return Err(io::Error::new(error.kind(), sentence));
            }
        }
    }
    Ok(missing)
}

impl Guard {
    /// As in `--without-guard` and `Hello`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::StateHidden => "state-hidden",
            Self::Dumpable => "dumpable",
            Self::CoreDumps => "core-dumps",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "no-new-privs",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
        }
    }

    /// Whether a start goes on where the machine does not have what it needs.
    fn may_miss(self) -> bool {
        matches!(self, Self::Landlock | Self::CoreDumps)
    }

    fn put_up(self, options: &Options) -> io::Result<()> {
        match self {
            Self::Descriptors => descriptors::close_on_exec(),
            Self::StateHidden => match &options.state {
                StatePlace::Directory(path) => {
                    Ok(unmount(path.as_path(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
                }
                // Who hands a descriptor over need not have mounted it at all.
                StatePlace::Descriptor(_) => Ok(()),
            },
            Self::Dumpable => Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?),
            Self::CoreDumps => core_dumps::leave_none(),
            Self::Capabilities => capabilities::keep_few(),
            Self::NoNewPrivs => Ok(rustix::thread::set_no_new_privs(true)?),
            Self::Landlock => landlock::restrict(),
            Self::Seccomp => seccomp::install(),
        }
    }
}
