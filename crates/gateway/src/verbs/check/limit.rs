//! Resource limits: large enough to be lived with, and enforced by the driver or accepted as not.

use sandkeep_core::Limits;
use sandkeep_driver::Capabilities;

use super::refuse;
use crate::refusal::Refusal;

/// A hundredth of a core: below it a kernel's accounting period grants nothing.
const CPU_MIN_MILLIS: u64 = 10;
/// More cores than any machine has; larger numbers are a slip of the unit.
const CPU_MAX_MILLIS: u64 = 4096 * 1000;
/// The supervisor and a shell fit in.
const MEMORY_MIN_BYTES: u64 = 16 << 20;
/// The supervisor, its threads, and a shell with a pipeline.
const PIDS_MIN: u32 = 8;
/// `PID_MAX_LIMIT` of Linux.
const PIDS_MAX: u32 = 4 << 20;
/// A workspace with one small repository.
const DISK_MIN_BYTES: u64 = 16 << 20;
/// An exbibyte: beyond it sums over sandboxes would overflow.
const BYTES_MAX: u64 = 1 << 60;

pub(super) fn check(
    limits: &Limits,
    capabilities: &Capabilities,
    unenforced: bool,
) -> Result<(), Refusal> {
    if let Some(cpu) = limits.cpu_millis
        && !(CPU_MIN_MILLIS..=CPU_MAX_MILLIS).contains(&cpu)
    {
        return Err(out_of_bounds("--cpus", &cores(cpu), "0.01", "4096"));
    }
    if let Some(memory) = limits.memory_bytes
        && !(MEMORY_MIN_BYTES..=BYTES_MAX).contains(&memory)
    {
        return Err(out_of_bounds("--memory", &format!("{memory} bytes"), "16 MiB", "1 EiB"));
    }
    if let Some(pids) = limits.pids
        && !(PIDS_MIN..=PIDS_MAX).contains(&pids)
    {
        return Err(out_of_bounds("--pids", &pids.to_string(), "8", "4194304"));
    }
    if let Some(disk) = limits.disk_bytes
        && !(DISK_MIN_BYTES..=BYTES_MAX).contains(&disk)
    {
        return Err(out_of_bounds("--disk", &format!("{disk} bytes"), "16 MiB", "1 EiB"));
    }
    if unenforced { Ok(()) } else { enforced(limits, capabilities) }
}

fn enforced(limits: &Limits, capabilities: &Capabilities) -> Result<(), Refusal> {
    let asked = [
        ("--cpus", limits.cpu_millis.is_some(), capabilities.cpu_limit),
        ("--memory", limits.memory_bytes.is_some(), capabilities.memory_limit),
        ("--pids", limits.pids.is_some(), capabilities.pids_limit),
        ("--disk", limits.disk_bytes.is_some(), capabilities.disk_limit),
    ];
    let missing: Vec<&str> = asked
        .into_iter()
        .filter(|(_, asked, can)| *asked && !*can)
        .map(|(option, ..)| option)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(refuse(
        "LimitsNotEnforceable",
        format!("this driver cannot enforce {} here", missing.join(", ")),
        "leave the limit out, or accept that it does not hold with --unenforced",
    ))
}

fn out_of_bounds(option: &str, given: &str, least: &str, most: &str) -> Refusal {
    refuse(
        "InvalidLimit",
        format!("{option} {given} is out of bounds"),
        format!("give {option} between {least} and {most}"),
    )
}

fn cores(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}
