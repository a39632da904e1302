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

/// Protocols over IP that a sandbox may open; 0 is the usual one of the type. Denied with all
/// others: SCTP, DCCP, L2TP, SMC, whose modules the kernel would load for whoever asks.
const IP_PROTOCOLS: [libc::c_int; 6] = [
    0,
    libc::IPPROTO_ICMP,
    libc::IPPROTO_TCP,
    libc::IPPROTO_UDP,
    libc::IPPROTO_ICMPV6,
    libc::IPPROTO_MPTCP,
];

/// Types of sockets whose usual protocol over IP is one of the denied ones: SCTP and DCCP.
const DENIED_IP_TYPES: [libc::c_int; 2] = [libc::SOCK_SEQPACKET, libc::SOCK_DCCP];

/// The kernel's `SOCK_TYPE_MASK`: above lie flags.
const TYPE_BITS: u64 = 0xf;

/// The process that everything else here descends from.
const PID_1: u64 = 1;

/// All denied calls with their rules; no rules: always.
pub(super) fn rules() -> Made<Vec<(libc::c_long, Rules)>> {
    let mut all: Vec<_> = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    all.push((libc::SYS_clone, namespace_flags()?));
    let mut unshare = namespace_flags()?;
    unshare.push(rule(vec![has_bits(0, CLONE_NEWTIME)?])?);
    all.push((libc::SYS_unshare, unshare));
    all.push((libc::SYS_socket, sockets()?));
    all.push((libc::SYS_socketpair, socket_pairs()?));
    all.push((libc::SYS_prlimit64, limits_of_others()?));
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
    let mut rules = vec![rule(other_family)?, rule(other_netlink)?];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let family = || compare(0, SeccompCmpOp::Eq, u64::from(family.unsigned_abs()));
        let mut other_protocol = vec![family()?];
        for protocol in IP_PROTOCOLS {
            let protocol = u64::from(protocol.unsigned_abs());
            other_protocol.push(compare(2, SeccompCmpOp::Ne, protocol)?);
        }
        rules.push(rule(other_protocol)?);
        for kind in DENIED_IP_TYPES {
            let kind = u64::from(kind.unsigned_abs());
            let kind = compare(1, SeccompCmpOp::MaskedEq(TYPE_BITS), kind)?;
            rules.push(rule(vec![family()?, kind])?);
        }
    }
    Ok(rules)
}

/// Pairs come from the same families, and only local sockets have any that work needs.
fn socket_pairs() -> Made<Rules> {
    let local = u64::from(libc::AF_UNIX.unsigned_abs());
    Ok(vec![rule(vec![compare(0, SeccompCmpOp::Ne, local)?])?])
}

/// The limits of PID 1, which is of the same user: without them it could not hold results. And the
/// limit of core dumps together with a question for the old one, which [`pretended`] cannot answer.
fn limits_of_others() -> Made<Rules> {
    let of_pid_1 = vec![compare(0, SeccompCmpOp::Eq, PID_1)?, is_given(2)?];
    let of_core = vec![compare(1, SeccompCmpOp::Eq, CORE)?, is_given(2)?, is_given(3)?];
    Ok(vec![rule(of_pid_1)?, rule(of_core)?])
}

const CORE: u64 = libc::RLIMIT_CORE as u64;

/// Calls that answer that they are done and do nothing: the limit of core dumps stays what the
/// guard `core-dumps` made it. Programs that hold secrets forbid dumps at their start and give up
/// when they cannot; none are written anyway.
pub(super) fn pretended() -> Made<Vec<(libc::c_long, Rules)>> {
    let by_prlimit = vec![compare(1, SeccompCmpOp::Eq, CORE)?, is_given(2)?];
    let by_setrlimit = vec![compare(0, SeccompCmpOp::Eq, CORE)?];
    Ok(vec![
        (libc::SYS_prlimit64, vec![rule(by_prlimit)?]),
        (libc::SYS_setrlimit, vec![rule(by_setrlimit)?]),
    ])
}

/// A pointer that is not null.
fn is_given(argument: u8) -> Made<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)
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
