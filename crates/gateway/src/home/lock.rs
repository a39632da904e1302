//! One gateway per home: an flock that ends with its process, and a note inside that names it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::place::is_same;
use super::unusable;
use crate::refusal::{Refusal, RefusalKind};

/// Who holds a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, as it wrote it; `None`: it has not written it yet.
    pub pid: Option<u32>,
}

/// The lock of a home, held until dropped or until the process is gone, whatever ends it.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes it, or says who has it.
    pub(super) fn take(home: &Path) -> Result<Self, Refusal> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(lock_of(home))
            .map_err(|error| unusable(home, &error))?;
        if !lock_alone(&file).map_err(|error| unusable(home, &error.into()))? {
            return Err(held(home, &mut file));
        }
        // The note only helps people; the lock counts. A full disk must not keep a gateway from
        // starting: delete and stop have to work then.
        let noted = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()));
        if let Err(error) = noted {
            tracing::warn!(%error, "the lock of the home does not name this process");
        }
        Ok(Self { file })
    }

    /// Whether a second gateway of this home would meet this very lock.
    pub(super) fn is_in_place(&self, home: &Path) -> bool {
        is_same(&self.file, &lock_of(home))
    }
}

/// Whether the lock is ours now. A gateway holds it exclusively; whoever only asks for the holder
/// shares it for a moment, and that moment must not look like a gateway to one that starts.
fn lock_alone(file: &File) -> Result<bool, Errno> {
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error),
        }
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
            // Only askers were there: they are gone by the next round.
            Ok(()) => std::thread::yield_now(),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Who holds this home now; `None`: nobody does, or it is not there.
pub fn holder(home: &Path) -> Option<Holder> {
    let mut file = OpenOptions::new().read(true).open(lock_of(home)).ok()?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(Holder { pid: noted_pid(&mut file) }),
        // Nobody: the shared lock that we got instead ends with the file.
        _free => None,
    }
}

fn lock_of(home: &Path) -> PathBuf {
    home.join("gateway.lock")
}

fn noted_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    // Longer than any process id: whatever else is in there is not ours.
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn held(home: &Path, file: &mut File) -> Refusal {
    let who = match noted_pid(file) {
        Some(pid) => format!("the gateway with process id {pid} holds it"),
        None => "another gateway, which is just starting, holds it".to_owned(),
    };
    Refusal::new(
        RefusalKind::Conflict,
        "HomeHeld",
        format!("the gateway of {} was not started", home.display()),
        who,
        "use that one, stop it with: sandkeep gateway stop, or set SANDKEEP_HOME to another \
         directory",
    )
}
