//! Host paths: the image directory, mounts and tools. Nothing that would open a way out of the
//! sandbox or into a gateway is shown inside.

use std::path::{Component, Path, PathBuf};

use sandkeep_core::Image;
use sandkeep_driver::Capabilities;

use super::command::PATH_MAX_BYTES;
use super::{quoted, refuse};
use crate::refusal::Refusal;
use crate::verbs::wishes::Wishes;

/// Mounts and tools each; a backend's mount table is walked at every start.
const PATHS_MAX: usize = 64;

/// The longest image reference that registries take is far below this.
const IMAGE_MAX_BYTES: usize = 1024;

/// Host trees that speak to the kernel.
const KERNEL_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Whoever reaches one of these is root on the engine's host.
const ENGINE_SOCKETS: [&str; 10] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/var/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/var/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/var/run/crio/crio.sock",
    "/run/systemd/private",
    "/run/dbus/system_bus_socket",
];

/// File names of engine sockets in users' own run directories.
const ENGINE_SOCKET_NAMES: [&str; 4] =
    ["docker.sock", "podman.sock", "containerd.sock", "crio.sock"];

/// Places inside that are Sandkeep's to fill.
const OWN_TARGETS: [&str; 5] = ["/proc", "/sys", "/dev", "/run/sandkeep", "/.sandkeep"];

pub(super) fn check(
    wishes: &Wishes,
    capabilities: &Capabilities,
    home: &Path,
) -> Result<(), Refusal> {
    image(&wishes.image, capabilities, home)?;
    if wishes.mounts.len() > PATHS_MAX || wishes.tools.len() > PATHS_MAX {
        return Err(refuse(
            "TooManyMounts",
            format!("more than {PATHS_MAX} mounts or tools are given"),
            "mount a directory that holds them all",
        ));
    }
    let mut targets: Vec<PathBuf> = Vec::new();
    for mount in &wishes.mounts {
        source("--mount", &mount.source, home)?;
        let target = target(&mount.target)?;
        if targets.contains(&target) {
            return Err(refuse(
                "InvalidMount",
                format!("two mounts have the target {}", quoted(&mount.target)),
                "give each target once",
            ));
        }
        targets.push(target);
    }
    for tools in &wishes.tools {
        source("--tools", tools, home)?;
        target(tools)?;
    }
    Ok(())
}

fn image(image: &Image, capabilities: &Capabilities, home: &Path) -> Result<(), Refusal> {
    let (kind, can) = match image {
        Image::Host => ("host", capabilities.host_image),
        Image::Directory(_) => ("dir:", capabilities.directory_image),
        Image::Oci(_) => ("from a registry", capabilities.oci_image),
    };
    if !can {
        return Err(refuse(
            "ImageNotSupported",
            format!("this driver cannot use an image that is {kind}"),
            "use another image, or another driver with --driver",
        ));
    }
    match image {
        Image::Host => Ok(()),
        Image::Directory(directory) => source("--image dir:", directory, home),
        Image::Oci(reference) => {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
            let first = reference.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
            if first && reference.len() <= IMAGE_MAX_BYTES && reference.chars().all(allowed) {
                return Ok(());
            }
            Err(refuse(
                "InvalidImage",
                format!("{} is not an image reference", quoted(reference)),
                "give host, dir:/path, or a reference such as docker.io/library/debian:13",
            ))
        }
    }
}

/// A path of the host, looked at as written and with its symbolic links followed.
fn source(option: &str, path: &str, home: &Path) -> Result<(), Refusal> {
    let written = absolute(option, path)?;
    // What is not there is the driver's to tell: it may look at another host than this one.
    let real = std::fs::canonicalize(&written).unwrap_or_else(|_| written.clone());
    let real_home = std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    for seen in [&written, &real] {
        if let Some(why) = forbidden_source(seen, &[home, &real_home]) {
            return Err(refuse(
                "ForbiddenPath",
                format!("{option} {} is refused: {why}", quoted(path)),
                "copy what is needed into the workspace, or show a directory that holds only that",
            ));
        }
    }
    Ok(())
}

/// Why this path of the host may not be shown; `None`: it may.
fn forbidden_source(path: &Path, homes: &[&Path]) -> Option<&'static str> {
    if path == Path::new("/") {
        return Some("it is the whole host");
    }
    if KERNEL_TREES.iter().any(|tree| path.starts_with(tree)) {
        return Some("it opens the host's kernel");
    }
    let sockets = ENGINE_SOCKETS.iter().map(Path::new);
    let named = |path: &Path| {
        path.file_name().is_some_and(|name| ENGINE_SOCKET_NAMES.iter().any(|n| name == *n))
    };
    if named(path) || overlaps_any(path, sockets) || is_user_run_directory(path) {
        return Some("it holds the socket of an engine, and with it the host");
    }
    if overlaps_any(path, homes.iter().copied()) || path.ancestors().any(is_gateway_home) {
        return Some("it holds a gateway's state");
    }
    None
}

/// One of them is the path, lies in it, or holds it.
fn overlaps_any<'a>(path: &Path, mut others: impl Iterator<Item = &'a Path>) -> bool {
    others.any(|other| other.starts_with(path) || path.starts_with(other))
}

/// `/run/user` and `/run/user/UID` hold the sockets of rootless engines and of the user's systemd.
fn is_user_run_directory(path: &Path) -> bool {
    let depth = |base: &str| path.strip_prefix(base).ok().map(|rest| rest.components().count());
    [depth("/run/user"), depth("/var/run/user")].into_iter().flatten().any(|depth| depth <= 1)
}

/// Any gateway's home, not only the one of this gateway.
fn is_gateway_home(directory: &Path) -> bool {
    directory.join("gateway.lock").exists() && directory.join("gateway.db").exists()
}

fn target(path: &str) -> Result<PathBuf, Refusal> {
    let target = absolute("the target", path)?;
    let own = OWN_TARGETS.iter().any(|own| target.starts_with(own));
    if own || target == Path::new("/") || target == Path::new("/workspace") {
        return Err(refuse(
            "InvalidMount",
            format!("the target {} is Sandkeep's own", quoted(path)),
            "choose another path inside, for example below /mnt",
        ));
    }
    Ok(target)
}

/// Absolute, of a length that the kernel takes, without `..`; a final slash and `.` are dropped.
fn absolute(option: &str, path: &str) -> Result<PathBuf, Refusal> {
    let sound = path.starts_with('/') && !path.contains('\0') && path.len() <= PATH_MAX_BYTES;
    let up = Path::new(path).components().any(|part| part == Component::ParentDir);
    if sound && !up {
        return Ok(Path::new(path).components().collect());
    }
    Err(refuse(
        "InvalidPath",
        format!("{option} {} is not an absolute path without ..", quoted(path)),
        "give the whole path, beginning with /",
    ))
}
