//! The root file system, put together in the helper's own mount namespace.
//!
//! Everything that is mounted here is mounted by the host's root and therefore locked in the
//! sandbox's user namespace: nothing inside can take it away to see what is below, or drop its
//! flags. Nothing is ever mounted on the host.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, fstatvfs, renameat};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use sandkeep_core::Image;

use super::ask::{Failure, Launch, While};
use super::mounts::{Tree, open_dir};
use super::root::{Obstacle, Root};
use super::{idmap, oci, own};
use crate::config::Guard;
use crate::home::{fd_path, make_private_dir};
use crate::sys;
use crate::template::{self, TOP};

/// What libcontainer is pointed at.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) bundle: PathBuf,
    /// The user namespace that it will live in; `None`: the host's. The configuration names it by
    /// this descriptor.
    pub(super) _user_namespace: Option<OwnedFd>,
}

/// Mounts that were opened before the staging place hides anything, with where they go.
struct Wanted {
    at: String,
    tree: Tree,
    is_file: bool,
    obstacle: Obstacle,
}

/// Builds it and writes the OCI configuration beside it.
pub(super) fn assemble(launch: &Launch) -> Result<Staged, Failure> {
    sys::unshare(libc::CLONE_NEWNS).when("a mount namespace could not be made")?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .when("mounts could not be made private")?;

    let closed = if launch.guards(Guard::OwnSide) { sys::ATTR_RDONLY } else { 0 };
    let own = own::Sources::open(&launch.supervisor, &launch.sandbox_dir.join("run"), closed)?;
    let wanted = open_sources(launch)?;
    let state = bound(launch, &launch.sandbox_dir.join("state"), sys::ATTR_NOEXEC)?;
    let host_parts = if launch.image == Image::Host { host_parts(launch)? } else { Vec::new() };

    let staging = staging_place(launch)?;
    mount("sandkeep", &staging, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=755"))
        .when("the staging place could not be mounted")?;
    for name in ["rootfs", "lower", "state", "bundle"] {
        fs::create_dir(staging.join(name)).when("the staging place could not be filled")?;
    }

    let root_tree = match &launch.image {
        Image::Host => host_root(launch)?,
        Image::Directory(path) => directory_root(launch, Path::new(path), &staging)?,
        Image::Oci(_) => {
            return Err(Failure::invalid("ImageNotSupported", "OCI images are not supported yet"));
        }
    };
    root_tree.set(base_attributes(launch)).when("the root could not be restricted")?;
    let at = open_dir(&staging.join("rootfs")).when("the staging place is gone")?;
    root_tree.put_on(at.as_fd()).when("the root could not be mounted")?;
    let root = open_dir(&staging.join("rootfs")).when("the root could not be opened")?;
    let root = Root::new(root, launch.uid_base);

    if launch.image == Image::Host {
        put_usr(launch, &root, &staging)?;
    }
    for mount_point in ["dev", "proc", "sys"] {
        root.dir(mount_point, Obstacle::Remove).when("a mount point could not be made")?;
    }
    put_run(launch, &root, &own)?;
    for part in host_parts.into_iter().chain(wanted) {
        put(&root, &part)?;
    }
    let state_at = open_dir(&staging.join("state")).when("the staging place is gone")?;
    state.put_on(state_at.as_fd()).when("the state directory could not be mounted")?;

    check_writable(&root, &staging.join("state"))?;
    write_bundle(launch, &staging)
}

fn base_attributes(launch: &Launch) -> u64 {
    let nosuid = if launch.guards(Guard::NoSuid) { sys::ATTR_NOSUID } else { 0 };
    let nodev = if launch.guards(Guard::NoDev) { sys::ATTR_NODEV } else { 0 };
    nosuid | nodev
}

fn bound(launch: &Launch, path: &Path, attributes: u64) -> Result<Tree, Failure> {
    let tree = Tree::bind(path).when(format!("{} could not be bound", path.display()))?;
    tree.set(base_attributes(launch) | attributes)
        .when(format!("{} could not be restricted", path.display()))?;
    Ok(tree)
}

/// Everything that comes from a path of the host, opened while all of the host is in sight.
fn open_sources(launch: &Launch) -> Result<Vec<Wanted>, Failure> {
    let read_only = sys::ATTR_RDONLY;
    let mut wanted = vec![Wanted::dir("workspace", bound(launch, &launch.workspace_files, 0)?)];
    for path in &launch.tools {
        wanted.push(Wanted::asked(launch, Path::new(path), path, read_only)?);
    }
    for mount in &launch.mounts {
        let attributes = if mount.read_only { read_only } else { 0 };
        wanted.push(Wanted::asked(launch, Path::new(&mount.source), &mount.target, attributes)?);
    }
    Ok(wanted)
}

impl Wanted {
    fn dir(at: &str, tree: Tree) -> Self {
        Self { at: at.to_owned(), tree, is_file: false, obstacle: Obstacle::Remove }
    }

    fn asked(launch: &Launch, source: &Path, at: &str, attributes: u64) -> Result<Self, Failure> {
        let metadata = fs::metadata(source).map_err(|error| {
            let message = format!("{} cannot be shown: {error}", source.display());
            Failure::invalid("MountSourceMissing", message)
        })?;
        Ok(Self {
            at: at.trim_start_matches('/').to_owned(),
            tree: bound(launch, source, attributes)?,
            is_file: !metadata.is_dir(),
            obstacle: Obstacle::Refuse,
        })
    }
}

fn put(root: &Root, wanted: &Wanted) -> Result<(), Failure> {
    let target =
        if wanted.is_file { root.file(&wanted.at) } else { root.dir(&wanted.at, wanted.obstacle) };
    let target = target.map_err(|error| {
        let message = format!("/{} cannot be a mount point: {error}", wanted.at);
        Failure::invalid("MountTargetUnusable", message)
    })?;
    wanted.tree.put_on(target.as_fd()).when(format!("/{} could not be mounted", wanted.at))
}

/// The parts of the host that are shown besides /usr.
fn host_parts(launch: &Launch) -> Result<Vec<Wanted>, Failure> {
    let mut parts = Vec::new();
    for name in template::shown() {
        let tree = bound(launch, &Path::new("/etc").join(&name), sys::ATTR_RDONLY)?;
        parts.push(Wanted::dir(&format!("etc/{}", name.display()), tree));
    }
    for name in TOP {
        let path = Path::new("/").join(name);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            parts.push(Wanted::dir(name, bound(launch, &path, sys::ATTR_RDONLY)?));
        }
    }
    if !launch.guards(Guard::HostPaths) {
        // /run beside its place: the sandbox needs its own.
        for (from, to) in [("etc", "etc"), ("home", "home"), ("run", "host-run"), ("var", "var")] {
            let tree = bound(launch, &Path::new("/").join(from), 0)?;
            // /run is a tmpfs, which maps no ids before Linux 6.3.
            if !launch.guards(Guard::ForeignOwners) && from != "run" {
                let userns = idmap::user_namespace(launch.uid_base, launch.uid_count)
                    .when("an id mapping could not be made")?;
                tree.map_ids(userns.as_fd()).when("ids could not be mapped")?;
            }
            parts.push(Wanted::dir(to, tree));
        }
    }
    if !launch.guards(Guard::Processes) {
        parts.push(Wanted::dir("proc", bound(launch, Path::new("/proc"), 0)?));
    }
    if !launch.guards(Guard::Network) {
        parts.push(Wanted::dir("sys", bound(launch, Path::new("/sys"), sys::ATTR_RDONLY)?));
    }
    Ok(parts)
}

/// `/` of a sandbox with the host's system: its own layer over the skeleton that all share.
fn host_root(launch: &Launch) -> Result<Tree, Failure> {
    let layer = Layer::make(&launch.sandbox_dir.join("rootfs/root"), launch.uid_base, 0o755)?;
    // Until it is there, the sandbox never ran: what an agent removes leaves a mark in its place.
    let (aside, etc) = (layer.aside("etc"), layer.upper.join("etc"));
    template::own_files(&aside, &etc, &launch.hostname, launch.uid_base)
        .when("the files of /etc could not be made")?;
    clear_tmp(launch, &layer.upper).when("/tmp could not be cleared")?;
    Tree::overlay(&[&launch.template.join("root")], &layer.upper, &layer.work)
        .when("the root could not be overlaid")
}

/// The host's /usr, below the directories that are the sandbox's own, below its own layer.
fn put_usr(launch: &Launch, root: &Root, staging: &Path) -> Result<(), Failure> {
    // The layer's top is the host's root's: nothing can be added to /usr itself.
    let layer = Layer::make(&launch.sandbox_dir.join("rootfs/usr"), 0, 0o755)?;
    let host = if launch.guards(Guard::ForeignOwners) {
        PathBuf::from("/usr")
    } else {
        mapped(launch, Path::new("/usr"), staging)?
    };
    let lower = [&*launch.template.join("usr"), &*host];
    let tree =
        Tree::overlay(&lower, &layer.upper, &layer.work).when("/usr could not be overlaid")?;
    tree.set(base_attributes(launch)).when("/usr could not be restricted")?;
    let at = root.dir("usr", Obstacle::Remove).when("/usr could not be made")?;
    tree.put_on(at.as_fd()).when("/usr could not be mounted")
}

/// A sandbox's own layer: what it changed of what lies below.
struct Layer {
    upper: PathBuf,
    work: PathBuf,
}

impl Layer {
    fn make(dir: &Path, owner: u32, mode: u32) -> Result<Self, Failure> {
        let failed = format!("the layer {} could not be made", dir.display());
        make_private_dir(dir).when(&failed)?;
        let (upper, work) = (dir.join("upper"), dir.join("work"));
        make_owned(&work, owner, 0o700).when(&failed)?;
        make_owned(&upper, owner, mode).when(&failed)?;
        Ok(Self { upper, work })
    }

    /// Where something is made whole before it goes into the layer; no agent can reach it.
    fn aside(&self, name: &str) -> PathBuf {
        self.upper.with_file_name(format!("new-{name}"))
    }
}

/// /tmp begins empty at every start. The old one goes where the driver empties it in its own time:
/// an agent may have left millions of files there.
fn clear_tmp(launch: &Launch, upper: &Path) -> io::Result<()> {
    let trash = open_dir(&launch.sandbox_dir.join("trash"))?;
    let name = format!("tmp-{}", std::process::id());
    match renameat(open_dir(upper)?, "tmp", trash, name) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a directory of the sandbox's. It changes hands last, so one that was cut off half-way is
/// known by its owner.
fn make_owned(path: &Path, owner: u32, mode: u32) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) if path.symlink_metadata()?.uid() == owner => return Ok(()),
        Ok(()) | Err(_) => {}
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    lchown(path, Some(owner), Some(owner))
}

/// Puts `path` at the staging place with its files' owners mapped: the host's root becomes the
/// sandbox's.
fn mapped(launch: &Launch, path: &Path, staging: &Path) -> Result<PathBuf, Failure> {
    let lower = staging.join("lower");
    let tree = Tree::bind(path).when(format!("{} could not be bound", path.display()))?;
    let userns = idmap::user_namespace(launch.uid_base, launch.uid_count)
        .when("an id mapping could not be made")?;
    tree.map_ids(userns.as_fd()).map_err(|error| {
        let message = format!("the file system of {} cannot map ids: {error}", path.display());
        Failure::invalid("ImageNotMappable", message)
    })?;
    let at = open_dir(&lower).when("the staging place is gone")?;
    tree.put_on(at.as_fd()).when(format!("{} could not be staged", path.display()))?;
    Ok(lower)
}

/// A directory of the host as root file system, with the sandbox's own layer on it.
fn directory_root(launch: &Launch, image: &Path, staging: &Path) -> Result<Tree, Failure> {
    let mode = fs::metadata(image)
        .map_err(|error| {
            let message = format!("{}: {error}", image.display());
            Failure::invalid("ImageMissing", message)
        })?
        .mode();
    let lower = mapped(launch, image, staging)?;
    let dir = launch.sandbox_dir.join("rootfs/image");
    // Open to all, or nobody but its root could enter the sandbox's own root.
    let layer = Layer::make(&dir, launch.uid_base, mode & 0o777 | 0o555)?;
    Tree::overlay(&[&lower], &layer.upper, &layer.work).when("the image could not be overlaid")
}

/// /run is empty at every start; /run/sandkeep in it is a mount of its own.
fn put_run(launch: &Launch, root: &Root, sources: &own::Sources) -> Result<(), Failure> {
    let owner = launch.uid_base.to_string();
    let attributes = base_attributes(launch);
    let options = [("mode", "755"), ("uid", owner.as_str()), ("gid", owner.as_str())];
    let run = Tree::tmpfs(&options, attributes).when("/run could not be made")?;
    let at = root.dir("run", Obstacle::Remove).when("/run could not be made")?;
    run.put_on(at.as_fd()).when("/run could not be mounted")?;
    root.ensure_dir("run/lock", 0o1777).when("/run/lock could not be made")?;

    let at = root.dir("run/sandkeep", Obstacle::Remove).when("/run/sandkeep could not be made")?;
    let attributes = attributes | sys::ATTR_NOSUID | sys::ATTR_NODEV;
    own::put_own(at, || root.dir("run/sandkeep", Obstacle::Refuse), sources, attributes)
}

/// Overlay mounts itself read-only without an error when it cannot write.
fn check_writable(root: &Root, state: &Path) -> Result<(), Failure> {
    let places: [(&str, io::Result<OwnedFd>); 4] = [
        ("/", root.dir("", Obstacle::Refuse)),
        ("/usr", root.dir("usr", Obstacle::Refuse)),
        ("/workspace", root.dir("workspace", Obstacle::Refuse)),
        ("the state directory", open_dir(state)),
    ];
    for (name, place) in places {
        let place = place.when(format!("{name} could not be opened"))?;
        let flags = fstatvfs(place).when(format!("{name} could not be looked at"))?.f_flag;
        if flags.contains(StatVfsMountFlags::RDONLY) {
            let error = io::Error::from_raw_os_error(libc::EROFS);
            return Err(error).when(format!("{name} came up read-only"));
        }
    }
    Ok(())
}

/// A directory whose every parent the sandbox's root may pass through, and that hides nothing the
/// helper still needs.
fn staging_place(launch: &Launch) -> Result<PathBuf, Failure> {
    let fits = |place: &&&str| {
        let open = fs::symlink_metadata(place)
            .is_ok_and(|metadata| metadata.is_dir() && metadata.mode() & 0o001 != 0);
        let image = match &launch.image {
            Image::Directory(path) => Path::new(path).starts_with(place),
            Image::Host | Image::Oci(_) => false,
        };
        let ours = [&launch.sandbox_dir, &launch.runtime_dir, &launch.template];
        open && !image && !ours.iter().any(|path| path.starts_with(place))
    };
    let found = ["/mnt", "/media", "/srv", "/opt", "/home", "/var", "/tmp"];
    found.iter().find(fits).map(PathBuf::from).ok_or_else(|| {
        Failure::internal("start", "no directory to put the root file system together at")
    })
}

fn write_bundle(launch: &Launch, staging: &Path) -> Result<Staged, Failure> {
    let bundle = staging.join("bundle");
    let (root, state) = (staging.join("rootfs"), staging.join("state"));
    let user_namespace = launch
        .guards(Guard::UserNamespace)
        .then(|| idmap::user_namespace_of(owner(launch), launch.uid_base, launch.uid_count))
        .transpose()
        .when("a user namespace could not be made")?;
    let path = user_namespace.as_ref().map(|fd| fd_path(fd.as_fd()));
    let config =
        oci::config(launch, &root.to_string_lossy(), &state.to_string_lossy(), path.as_deref());
    fs::write(bundle.join("config.json"), config.to_string())
        .when("the configuration could not be written")?;
    Ok(Staged { bundle, _user_namespace: user_namespace })
}

/// Who owns the sandbox's user namespace: a user that is nobody else, above all ids that sandboxes
/// have. Two sandboxes with the same one share a few of the kernel's counts, nothing else.
fn owner(launch: &Launch) -> u32 {
    let first = launch.uid_base.saturating_add(launch.uid_count);
    if !launch.guards(Guard::OwnCounts) {
        return first;
    }
    let mut hasher = DefaultHasher::new();
    launch.cgroup.hash(&mut hasher);
    let [a, b, c, ..] = hasher.finish().to_le_bytes();
    first.saturating_add(u32::from_le_bytes([a, b, c, 0]))
}
