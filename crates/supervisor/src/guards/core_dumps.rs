//! Core dumps: none. Where `kernel.core_pattern` names a program, the host's root runs it for
//! whatever crashes in a sandbox, on memory of the agent's making; many of these programs could be
//! fooled.
//!
//! A limit of 0 does not stop that: to a program the limit means nothing, except 1, at which the
//! kernel gives up (core(5), `fs/coredump.c`). And a file that may hold one byte is not written.
//! The seccomp filter keeps the limit from being lowered to 0.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// The one limit at which the kernel neither writes a file nor runs a program.
const NEITHER: u64 = 1;

/// For this process and what it starts. The error: whoever started it allows only 0.
pub(super) fn leave_none() -> io::Result<()> {
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(NEITHER), maximum: Some(NEITHER) })?)
}
