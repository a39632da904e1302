//! Which system calls are denied, and with which arguments. The rest is allowed: agents run
//! anything, and a call that is missing looks to them like a broken machine.

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

type Rules = Vec<SeccompRule>;
type Made<T> = Result<T, seccompiler::BackendError>;

/// Denied whatever the arguments.
const ALWAYS: &[libc::c_long] = &[
    // Other namespaces and mounts.
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    SYS_OPEN_TREE_ATTR,
    // Kernel interfaces whose faults were ways out.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    // The machine's affairs.
    libc::SYS_kexec_load,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_nfsservctl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Not in libc yet; the same on all architectures.
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;

/// `CLONE_NEWTIME`: a signal number's place in `clone`, so it means a namespace in `unshare` only.
const CLONE_NEWTIME: u64 = 0x80;

const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Families of sockets that a sandbox may open. Denied with all others: VSOCK (the hypervisor),
/// PACKET, ALG, XDP, TIPC, BLUETOOTH.
const SOCKET_FAMILIES: [libc::c_int; 4] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// All denied calls with their rules; no rules: always.
pub(super) fn rules() -> Made<Vec<(libc::c_long, Rules)>> {
    let mut all: Vec<_> = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    all.push((libc::SYS_clone, namespace_flags()?));
    let mut unshare = namespace_flags()?;
    unshare.push(rule(vec![has_bits(0, CLONE_NEWTIME)?])?);
    all.push((libc::SYS_unshare, unshare));
    all.push((libc::SYS_socket, sockets()?));
    all.push((libc::SYS_ioctl, terminal_injection()?));
    Ok(all)
}

fn namespace_flags() -> Made<Rules> {
    NAMESPACES.iter().map(|flag| rule(vec![has_bits(0, u64::from(flag.unsigned_abs()))?])).collect()
}

fn sockets() -> Made<Rules> {
    let other_family = SOCKET_FAMILIES
        .iter()
        .map(|family| compare(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())))
        .collect::<Made<Vec<_>>>()?;
    let netlink = u64::from(libc::AF_NETLINK.unsigned_abs());
    let route = u64::from(libc::NETLINK_ROUTE.unsigned_abs());
    let other_netlink =
        vec![compare(0, SeccompCmpOp::Eq, netlink)?, compare(2, SeccompCmpOp::Ne, route)?];
    Ok(vec![rule(other_family)?, rule(other_netlink)?])
}

/// Typing into a terminal that somebody else reads.
fn terminal_injection() -> Made<Rules> {
    let requests = [libc::TIOCSTI, libc::TIOCLINUX];
    #[allow(clippy::unnecessary_cast, reason = "its type differs between libcs")]
    requests.iter().map(|it| rule(vec![compare(1, SeccompCmpOp::Eq, *it as u64)?])).collect()
}

fn rule(conditions: Vec<SeccompCondition>) -> Made<SeccompRule> {
    SeccompRule::new(conditions)
}

fn has_bits(argument: u8, bits: u64) -> Made<SeccompCondition> {
    compare(argument, SeccompCmpOp::MaskedEq(bits), bits)
}

/// The low half of an argument: all compared ones are of 32 bits, and the kernel looks no further.
fn compare(argument: u8, operation: SeccompCmpOp, value: u64) -> Made<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)
}
