//! What a spec may ask of this driver, and what of it is enforced on this machine.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use sandkeep_core::{Image, Limits, Mount, Spec};
use sandkeep_driver::DriverError;

use crate::cgroup::Hierarchies;
use crate::failure::invalid;
use crate::helper::Enforced;

/// Processes and threads of a sandbox that asks for no limit of its own: room for a large build,
/// and a fork bomb ends long before the host does.
pub(crate) const DEFAULT_PIDS: u32 = 4096;

/// Less cannot hold a supervisor and a shell.
const LEAST_MEMORY_BYTES: u64 = 8 * 1024 * 1024;

/// Less and PID 1 has no room for a first exec.
const LEAST_PIDS: u32 = 8;

/// The kernel takes no smaller part of a period.
const LEAST_CPU_MILLIS: u64 = 10;

/// Where engines listen: whoever can talk to one owns the host.
const ENGINE_SOCKETS: &[&str] = &[
    "buildkitd.sock",
    "containerd.sock",
    "crio.sock",
    "cri-dockerd.sock",
    "docker.sock",
    "dockershim.sock",
    "gateway.sock",
    "podman.sock",
];

/// Host directories that are never shown, nor is anything above them.
const REFUSED: &[&str] = &["/dev", "/proc", "/run", "/sys", "/var/run"];

/// Places inside that belong to the sandbox itself.
const TAKEN: &[&str] = &[
    "",
    "bin",
    "dev",
    "etc",
    "lib",
    "lib64",
    "proc",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "workspace",
];

/// Refuses what cannot be done here; nothing has been made yet.
pub(crate) fn check(spec: &Spec, here: &Hierarchies, home: &Path) -> Result<(), DriverError> {
    check_limits(spec, here)?;
    match &spec.image {
        Image::Host => {}
        Image::Directory(path) => check_image(Path::new(path), home)?,
        Image::Oci(reference) => {
            let message = format!("the local driver cannot run the OCI image {reference} yet");
            return Err(invalid("create", "ImageNotSupported", message));
        }
    }
    for mount in &spec.mounts {
        check_source(&mount.source, home)?;
        check_target(mount)?;
    }
    for tool in &spec.tools {
        check_source(tool, home)?;
        let own_place = Mount { source: tool.clone(), target: tool.clone(), read_only: true };
        check_target(&own_place)?;
    }
    Ok(())
}

fn check_limits(spec: &Spec, here: &Hierarchies) -> Result<(), DriverError> {
    let limits = &spec.limits;
    let small = |name: &str, least: String| {
        invalid("create", "LimitTooSmall", format!("the {name} limit is below {least}"))
    };
    if limits.memory_bytes.is_some_and(|bytes| bytes < LEAST_MEMORY_BYTES) {
        return Err(small("memory", format!("{} MiB", LEAST_MEMORY_BYTES >> 20)));
    }
    if limits.pids.is_some_and(|pids| pids < LEAST_PIDS) {
        return Err(small("process", LEAST_PIDS.to_string()));
    }
    if limits.cpu_millis.is_some_and(|millis| millis < LEAST_CPU_MILLIS) {
        return Err(small("CPU", format!("{LEAST_CPU_MILLIS} thousandths of a core")));
    }
    let missing = unenforced(limits, here);
    if !missing.is_empty() && !spec.unenforced {
        let message = format!(
            "this machine cannot enforce the limit on {}; --unenforced accepts that",
            missing.join(", ")
        );
        return Err(invalid("create", "LimitNotEnforceable", message));
    }
    Ok(())
}

/// The limits that are asked for and not enforced here, by name.
pub(crate) fn unenforced(limits: &Limits, here: &Hierarchies) -> Vec<String> {
    let asked = [
        ("cpu", limits.cpu_millis.is_some(), here.has("cpu")),
        ("memory", limits.memory_bytes.is_some(), here.has("memory")),
        ("pids", limits.pids.is_some(), here.has("pids")),
        ("disk", limits.disk_bytes.is_some(), false),
    ];
    let missing = asked.into_iter().filter(|(_, asked, can)| *asked && !can);
    missing.map(|(name, ..)| name.to_owned()).collect()
}

/// The limits to set.
pub(crate) fn enforced(limits: &Limits, here: &Hierarchies, default_pids: bool) -> Enforced {
    let default = default_pids.then_some(DEFAULT_PIDS);
    Enforced {
        pids: limits.pids.or(default).filter(|_| here.has("pids")),
        memory_bytes: limits.memory_bytes.filter(|_| here.has("memory")),
        swap: here.limits_swap(),
        cpu_millis: limits.cpu_millis.filter(|_| here.has("cpu")),
    }
}

fn check_image(path: &Path, home: &Path) -> Result<(), DriverError> {
    let bad = |why: &str| {
        let message = format!("{} cannot be a root file system: {why}", path.display());
        Err(invalid("create", "ImageUnusable", message))
    };
    if !path.is_absolute() {
        return bad("its path is not absolute");
    }
    let Ok(real) = fs::canonicalize(path) else { return bad("it is not there") };
    if !real.is_dir() {
        return bad("it is not a directory");
    }
    if real == Path::new("/") {
        return bad("it is the whole host; use --image host");
    }
    if real.starts_with(home) || home.starts_with(&real) {
        return bad("Sandkeep's own files are in it");
    }
    Ok(())
}

fn check_source(source: &str, home: &Path) -> Result<(), DriverError> {
    let refuse = |why: &str| {
        Err(invalid("create", "MountRefused", format!("{source} is not shown inside: {why}")))
    };
    let path = Path::new(source);
    if !path.is_absolute() {
        return refuse("its path is not absolute");
    }
    let Ok(real) = fs::canonicalize(path) else { return refuse("it is not there") };
    if real == Path::new("/") {
        return refuse("it is the whole host");
    }
    if real.starts_with(home) || home.starts_with(&real) {
        return refuse("Sandkeep's own files are in it");
    }
    if let Some(place) = REFUSED.iter().find(|place| real.starts_with(place)) {
        return refuse(&format!("nothing of {place} is"));
    }
    let name = real.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_socket = fs::metadata(&real).is_ok_and(|metadata| metadata.file_type().is_socket());
    if ENGINE_SOCKETS.contains(&name) || is_socket {
        return refuse("whoever can talk to a service of the host is not confined by a sandbox");
    }
    Ok(())
}

fn check_target(mount: &Mount) -> Result<(), DriverError> {
    let refuse = |why: &str| {
        let message = format!("{} cannot be a mount point: {why}", mount.target);
        Err(invalid("create", "MountRefused", message))
    };
    let target = Path::new(&mount.target);
    if !target.is_absolute() {
        return refuse("it is not absolute");
    }
    if target.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir)) {
        return refuse("it has . or .. in it");
    }
    let inside: PathBuf = target.components().skip(1).collect();
    let first = inside.components().next().map(|part| part.as_os_str().to_owned());
    let within = |place: &str| first.as_deref().is_some_and(|first| first == place);
    if TAKEN.iter().any(|place| inside == Path::new(place)) {
        return refuse("the sandbox needs that place itself");
    }
    if ["proc", "sys", "dev", "run"].into_iter().any(within) {
        return refuse("the sandbox needs that place itself");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_open_the_host_is_not_shown_inside() {
        let home = tempfile::tempdir().unwrap();
        let beside = tempfile::tempdir().unwrap();
        let inside_home = home.path().join("sandboxes");
        fs::create_dir(&inside_home).unwrap();
        let link = beside.path().join("innocent");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        let above_home = home.path().parent().unwrap();
        let refused = ["/", "/proc", "/proc/1", "/sys/fs", "/dev", "relative", "/does/not/exist"];
        for source in
            refused.into_iter().map(Path::new).chain([home.path(), &inside_home, above_home, &link])
        {
            let result = check_source(source.to_str().unwrap(), home.path());
            assert!(result.is_err(), "{}", source.display());
        }
        let socket = beside.path().join("some.sock");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(check_source(socket.to_str().unwrap(), home.path()).is_err());
        assert!(check_source(beside.path().to_str().unwrap(), home.path()).is_ok());
    }

    #[test]
    fn a_mount_may_not_take_the_place_of_what_the_sandbox_needs() {
        let at = |target: &str| {
            let mount = Mount { source: "/x".into(), target: target.into(), read_only: true };
            check_target(&mount)
        };
        for bad in ["/", "//", "/usr", "/proc/x", "/run/sandkeep/session", "x", "/a/../b", "/etc/"]
        {
            assert!(at(bad).is_err(), "{bad}");
        }
        for good in ["/data", "/workspace/data", "/opt/tool", "/etc/thing", "/root/.rustup"] {
            assert!(at(good).is_ok(), "{good}");
        }
    }
}
