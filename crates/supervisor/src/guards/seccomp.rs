//! The seccomp filters. Installed by PID 1 for itself, inherited by all, and never lifted.
//!
//! - Denied calls answer `EPERM`; a few answer that they are done (see [`denied::pretended`]).
//! - `clone3` answers `ENOSYS`: its flags lie in memory that a filter cannot read; every libc then
//!   falls back to `clone`, whose flags are checked.
//! - The x32 calls of x86_64 answer `ENOSYS`: the same calls under other numbers.
//! - A call of another architecture (32-bit programs) ends the process: numbers mean other things
//!   there.

use std::io;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

use super::denied;

/// Installs the filters. They cannot be taken back.
pub fn install() -> io::Result<()> {
    for program in programs().map_err(io::Error::other)? {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The programs, each allowing all that it does not speak of.
fn programs() -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = |rules, answer: i32| -> Result<BpfProgram, seccompiler::BackendError> {
        let answer = SeccompAction::Errno(answer.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()
    };
    let denied = filter(denied::rules()?.into_iter().collect(), libc::EPERM)?;
    let clone3 = filter([(libc::SYS_clone3, Vec::new())].into(), libc::ENOSYS)?;
    let pretended = filter(denied::pretended()?.into_iter().collect(), 0)?;
    // Of two that answer with an error, the one installed last counts: a denial.
    let mut programs = vec![clone3, pretended, denied];
    if cfg!(target_arch = "x86_64") {
        programs.push(x32());
    }
    Ok(programs)
}

/// Calls with bit 30 set: x32.
fn x32() -> BpfProgram {
    use libc::{BPF_ABS, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    const X32_BIT: u32 = 0x4000_0000;
    let op = |code: u32, jt, jf, k| seccompiler::sock_filter {
        // Sums of small constants.
        code: u16::try_from(code).unwrap_or(0),
        jt,
        jf,
        k,
    };
    vec![
        // The call's number is the first word of what a filter sees.
        op(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        op(BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT),
        op(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        op(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile_and_fit() {
        let programs = programs().unwrap();
        // The kernel takes at most 4096 instructions each.
        assert!(programs.iter().all(|program| (1..=4096).contains(&program.len())));
    }
}
