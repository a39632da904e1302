//! The OCI configuration that libcontainer is given: namespaces, mounts that only the sandbox's own
//! namespaces can make, limits. Everything else is mounted already (see `assemble`).

use serde_json::{Value, json};

use super::ask::Launch;
use crate::config::Guard;

/// Where the sandbox finds its own side of Sandkeep.
pub(super) const SUPERVISOR: &str = "/run/sandkeep/bin/sandkeep-supervisor";
pub(super) const STATE_DIR: &str = "/run/sandkeep/state";

/// Length of a CPU accounting period; quotas are parts of it. The kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;

const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/cgroup",
    "/sys/kernel/security",
];

const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/pressure", "/proc/sys", "/proc/sysrq-trigger"];

/// The configuration for a root file system at `root`, with the supervisor's state at `state`.
/// `user_namespace` is the path of the one that it lives in, if that is one of its own.
pub(super) fn config(
    launch: &Launch,
    root: &str,
    state: &str,
    user_namespace: Option<&str>,
) -> Value {
    let mut args = vec![SUPERVISOR.to_owned()];
    args.extend(launch.init_args.iter().cloned());
    let (masked, read_only) =
        if launch.guards(Guard::MaskedPaths) { (MASKED, READ_ONLY) } else { (&[][..], &[][..]) };
    json!({
        "ociVersion": "1.0.2",
        "root": { "path": root, "readonly": false },
        "hostname": launch.hostname,
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "cwd": "/",
            "args": args,
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        },
        "mounts": mounts(launch, state),
        "linux": {
            "namespaces": namespaces(launch, user_namespace),
            "cgroupsPath": format!("/{}", launch.cgroup),
            "resources": resources(launch),
            "sysctl": settings(launch),
            "maskedPaths": masked,
            "readonlyPaths": read_only,
        },
    })
}

/// Root inside has no capability to open the first ports; on a network of its own anybody may.
fn settings(launch: &Launch) -> Value {
    match launch.guards(Guard::Network) {
        true => json!({ "net.ipv4.ip_unprivileged_port_start": "0" }),
        false => json!({}),
    }
}

fn namespaces(launch: &Launch, user_namespace: Option<&str>) -> Vec<Value> {
    let mut kinds = vec!["mount", "uts", "cgroup"];
    let optional = [(Guard::PidNamespace, "pid"), (Guard::Ipc, "ipc"), (Guard::Network, "network")];
    kinds.extend(optional.iter().filter(|(guard, _)| launch.guards(*guard)).map(|(_, kind)| *kind));
    let mut all: Vec<_> = kinds.into_iter().map(|kind| json!({ "type": kind })).collect();
    all.extend(user_namespace.map(|path| json!({ "type": "user", "path": path })));
    all
}

fn mounts(launch: &Launch, state: &str) -> Vec<Value> {
    let mut mounts = Vec::new();
    if launch.guards(Guard::Processes) {
        mounts.push(json!({ "destination": "/proc", "type": "proc", "source": "proc",
            "options": ["nosuid", "nodev", "noexec"] }));
    }
    if launch.guards(Guard::Network) {
        let access = if launch.guards(Guard::MaskedPaths) { "ro" } else { "rw" };
        mounts.push(json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
            "options": ["nosuid", "nodev", "noexec", access] }));
    }
    mounts.extend([
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "noexec", "strictatime", "mode=755", "size=1m"] }),
        json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"] }),
        json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
            "options": ["nosuid", "nodev", "mode=1777"] }),
        // Made by the sandbox's own namespaces, so that PID 1 can take it away again.
        json!({ "destination": STATE_DIR, "type": "bind", "source": state,
            "options": ["bind", "rw", "nosuid", "nodev", "noexec"] }),
    ]);
    mounts
}

fn resources(launch: &Launch) -> Value {
    let limits = &launch.limits;
    let mut resources = json!({});
    if let Some(pids) = limits.pids {
        resources["pids"] = json!({ "limit": pids });
    }
    if let Some(bytes) = limits.memory_bytes {
        resources["memory"] = json!({ "limit": bytes });
        if limits.swap {
            resources["memory"]["swap"] = json!(bytes);
        }
    }
    if let Some(millis) = limits.cpu_millis {
        let quota = (millis * CPU_PERIOD_US / 1000).max(1000);
        resources["cpu"] = json!({ "quota": quota, "period": CPU_PERIOD_US });
    }
    resources
}
