//! The home directory: everything that one gateway keeps, and proof that only one keeps it.
//!
//! Opening a home refuses what would lose work later (a network file system, a directory that
//! others can write into) and takes its lock. It reads and writes nothing of what lies inside.
//!
//! ```text
//! HOME/gateway.lock   held by the gateway (flock); tells who holds it
//! HOME/gateway.sock   the API, 0600
//! HOME/gateway.db     records, workspaces, tombstones, timeline
//! HOME/config.toml    settings, by the user
//! HOME/logs/          output of main commands and detached execs, one directory per sandbox
//! HOME/workspaces/, HOME/sandboxes/, HOME/run/   drivers' own
//! ```

mod lock;
mod place;
mod socket;

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

pub use lock::{Holder, holder};
pub use socket::{Address, Listening, connect_address, listen};

use sandkeep_store::HomeDirectory;

use crate::refusal::{Refusal, RefusalKind};

/// Between two looks whether it is where it was.
const LOOK: Duration = Duration::from_secs(1);

/// An opened home; dropping it lets go of the lock.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    place: place::Place,
    lock: lock::Lock,
}

impl Home {
    /// Makes the directory when it is not there (0700), refuses what is unsafe, takes the lock.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        make(path)?;
        let path = fs::canonicalize(path).map_err(|error| unusable(path, &error))?;
        refuse_file_system(&path)?;
        refuse_openness(&path)?;
        let lock = lock::Lock::take(&path)?;
        let place = place::Place::hold(&path).map_err(|error| unusable(&path, &error))?;
        Ok(Self { path, place, lock })
    }

    /// Which directory it is, for whoever wants to tell it from a copy. `None`: the file system
    /// does not number its directories for good.
    pub fn directory(&self) -> Option<HomeDirectory> {
        self.place.directory()
    }

    /// Comes back when the path leads to another directory, to another lock, or to none: the home
    /// was moved away or replaced, and whatever is done by that path is done in the wrong place.
    pub(crate) async fn left(&self) {
        let mut looks = tokio::time::interval(LOOK);
        while self.place.is_in_place() && self.lock.is_in_place(&self.path) {
            looks.tick().await;
        }
    }

    /// The directory, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the API listens.
    pub fn socket(&self) -> PathBuf {
        socket_of(&self.path)
    }

    /// Where the store is.
    pub fn database(&self) -> PathBuf {
        self.path.join("gateway.db")
    }

    /// Where logs are.
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }
}

/// Where the API of the gateway of this home listens.
pub fn socket_of(home: &Path) -> PathBuf {
    home.join("gateway.sock")
}

/// Where the settings of this home are.
pub fn config_of(home: &Path) -> PathBuf {
    home.join("config.toml")
}

/// The home when none was asked for: `/var/lib/sandkeep` for root, else the XDG state directory.
/// `env` looks up an environment variable. `None`: neither `XDG_STATE_HOME` nor `HOME` is set.
pub fn default_path(uid: u32, env: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if uid == 0 {
        return Some(PathBuf::from("/var/lib/sandkeep"));
    }
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("sandkeep"))
}

/// Names the machine, so that a home that was copied to another one is noticed. Empty: it cannot
/// be told.
pub fn machine_id() -> String {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    ["/etc/machine-id", "/var/lib/dbus/machine-id"]
        .into_iter()
        .filter_map(read)
        .find(|id| !id.is_empty())
        .unwrap_or_default()
}

fn make(path: &Path) -> Result<(), Refusal> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => {
            let other = io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory");
            Err(unusable(path, &other))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(|error| unusable(path, &error))?;
            }
            match fs::DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(unusable(path, &error))
                }
                _made => Ok(()),
            }
        }
        Err(error) => Err(unusable(path, &error)),
    }
}

/// Names of file systems on which locks, flushes or Unix sockets cannot be relied on, by the magic
/// number that `statfs` gives (linux/magic.h).
fn refused_file_system(magic: i64) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x0102_1997 => Some("9p"),
        0x517B | 0xFE53_4D42 | 0xFF53_4D42 => Some("SMB"),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
fn refuse_file_system(path: &Path) -> Result<(), Refusal> {
    let found = rustix::fs::statfs(path).map_err(|error| unusable(path, &error.into()))?;
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "differs by target")]
    match refused_file_system(found.f_type as i64) {
        None => Ok(()),
        Some(name) => Err(Refusal::new(
            RefusalKind::Failed,
            "HomeOnNetworkFileSystem",
            cannot_use(path),
            format!("it is on {name}, where locks and flushes cannot be relied on"),
            "set SANDKEEP_HOME to a directory on a local disk",
        )),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_file_system(_path: &Path) -> Result<(), Refusal> {
    Ok(())
}

/// A home belongs to the user of the gateway and to nobody else. One that never was a home is made
/// so, unless others could have planted something in it; one that was a home while others could
/// get at it is refused, because they may have read or changed what is there.
fn refuse_openness(path: &Path) -> Result<(), Refusal> {
    let found = fs::metadata(path).map_err(|error| unusable(path, &error))?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(Refusal::new(
            RefusalKind::NotPermitted,
            "HomeOfAnotherUser",
            cannot_use(path),
            format!("it belongs to uid {}, and this gateway runs as uid {own}", found.uid()),
            "run the gateway as that user, or set SANDKEEP_HOME to a directory of your own",
        ));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let mut entries = fs::read_dir(path).map_err(|error| unusable(path, &error))?;
    let planted = mode & 0o022 != 0 && entries.next().is_some();
    if !planted && !path.join("gateway.db").exists() {
        let private = fs::Permissions::from_mode(0o700);
        return fs::set_permissions(path, private).map_err(|error| unusable(path, &error));
    }
    Err(Refusal::new(
        RefusalKind::NotPermitted,
        "HomeTooOpen",
        cannot_use(path),
        format!("its mode is {mode:04o}: other users can get at what it holds"),
        format!("look that nothing in it was changed, then: chmod 700 {}", path.display()),
    ))
}

fn cannot_use(path: &Path) -> String {
    format!("{} cannot be the home of a gateway", path.display())
}

fn unusable(path: &Path, error: &io::Error) -> Refusal {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => RefusalKind::NotPermitted,
        io::ErrorKind::StorageFull => RefusalKind::DiskFull,
        _ => RefusalKind::Failed,
    };
    Refusal::new(
        kind,
        "HomeUnusable",
        cannot_use(path),
        error.to_string(),
        "set SANDKEEP_HOME to a directory that this user can write to",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_home_is_private_and_a_second_gateway_is_told_who_holds_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("deep/home");
        let home = Home::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        let refused = Home::open(&path).unwrap_err();
        assert_eq!((refused.kind, refused.reason), (RefusalKind::Conflict, "HomeHeld"));
        assert!(refused.why.contains(&std::process::id().to_string()), "{}", refused.why);
        assert_eq!(holder(&path).unwrap().pid, Some(std::process::id()));
        drop(home);
        assert_eq!(holder(&path), None);
        Home::open(&path).unwrap();
    }

    #[test]
    fn a_new_home_is_closed_to_others_and_an_old_one_that_was_open_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("home");
        let open = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir(&path).unwrap();
        open(0o777);
        drop(Home::open(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        open(0o755);
        drop(Home::open(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        open(0o770);
        assert_eq!(Home::open(&path).unwrap_err().reason, "HomeTooOpen");
        fs::write(path.join("gateway.db"), "").unwrap();
        open(0o750);
        let refused = Home::open(&path).unwrap_err();
        assert_eq!(refused.reason, "HomeTooOpen");
        assert!(refused.why.contains("0750"), "{}", refused.why);
    }

    #[test]
    fn a_file_is_no_home() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Home::open(file.path()).unwrap_err().reason, "HomeUnusable");
    }

    #[test]
    fn network_file_systems_are_refused_by_their_magic() {
        for (magic, name) in
            [(0x6969, "NFS"), (0x0102_1997, "9p"), (0x517B, "SMB"), (0xFF53_4D42, "SMB")]
        {
            assert_eq!(refused_file_system(magic), Some(name));
        }
        for local in [0xEF53, 0x0102_1994, 0x5846_5342, 0x9123_683E, 0x794C_7630] {
            assert_eq!(refused_file_system(local), None);
        }
    }

    #[test]
    fn the_default_home_follows_the_user() {
        let env = |name: &str| match name {
            "HOME" => Some("/home/ann".to_owned()),
            _ => None,
        };
        assert_eq!(default_path(0, env), Some("/var/lib/sandkeep".into()));
        assert_eq!(default_path(1000, env), Some("/home/ann/.local/state/sandkeep".into()));
        let xdg = |name: &str| (name == "XDG_STATE_HOME").then(|| "/state".to_owned());
        assert_eq!(default_path(1000, xdg), Some("/state/sandkeep".into()));
        assert_eq!(default_path(1000, |_| None), None);
    }
}
