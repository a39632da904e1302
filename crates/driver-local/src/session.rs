//! Sessions: a socket in a directory that the sandbox sees read-only. Any process inside can
//! connect to it; only the one that is proved to be PID 1 of the asked run is handed over.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, open, unlinkat};
use sandkeep_core::SandboxId;
use sandkeep_driver::{DriverError, SessionPeer, SessionStream};
use tokio::net::{UnixListener, UnixStream};

use crate::config::Guard;
use crate::failure::{internal, io_failure, not_found};
use crate::helper::{Answer, Ask, Remount};
use crate::home::{Durable, write_json};
use crate::local::Local;
use crate::process::{Birth, Process};
use crate::record::RunRecord;
use crate::tenant::Directory;
use crate::watch::ended;

const STAGE: &str = "session";

/// The socket's name in the session directory.
const SOCKET: &str = "s";

/// How often a waiting session looks whether its directory and socket are still in their place.
const DOOR_LOOK: Duration = Duration::from_secs(1);

/// The sockets of all sandboxes; kept over sessions, so that a supervisor that comes early waits
/// in the queue instead of failing.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    open: Mutex<HashMap<SandboxId, Arc<Door>>>,
}

/// One sandbox's socket.
#[derive(Debug, Default)]
pub(crate) struct Door {
    bound: Mutex<Option<Arc<Bound>>>,
    /// One session is waited for at a time.
    turn: tokio::sync::Mutex<()>,
    /// Peers that were not PID 1.
    turned_away: AtomicU64,
}

#[derive(Debug)]
struct Bound {
    listener: UnixListener,
    dir: Directory,
    socket_inode: u64,
}

impl Doors {
    fn door(&self, id: &SandboxId) -> Arc<Door> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(open.entry(id.clone()).or_default())
    }

    /// Listens in `dir` anew.
    pub(crate) fn rebind(&self, id: &SandboxId, dir: &Path) -> io::Result<()> {
        self.door(id).bind(dir).map(drop)
    }

    /// Closes it for good.
    pub(crate) fn close(&self, id: &SandboxId) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// How many peers of that sandbox were turned away.
    pub(crate) fn turned_away(&self, id: &SandboxId) -> u64 {
        self.door(id).turned_away.load(Ordering::Relaxed)
    }
}

impl Door {
    fn bound(&self) -> Option<Arc<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn bind(&self, dir: &Path) -> io::Result<Arc<Bound>> {
        let bound = Arc::new(Bound::new(dir)?);
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&bound));
        Ok(bound)
    }
}

impl Bound {
    /// The path of a socket holds 107 bytes, that of a home any number: bound through the
    /// directory's descriptor.
    fn new(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open(dir, flags, Mode::empty())?;
        match unlinkat(fd.as_fd(), SOCKET, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let path = format!("{}/{SOCKET}", crate::home::fd_path(fd.as_fd()));
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        let socket_inode = fs::symlink_metadata(&path)?.ino();
        Ok(Self { listener, dir: Directory::at(dir)?, socket_inode })
    }

    fn is_in_place(&self, dir: &Path) -> bool {
        Directory::at(dir).is_ok_and(|now| now == self.dir)
            && fs::symlink_metadata(dir.join(SOCKET))
                .is_ok_and(|metadata| metadata.ino() == self.socket_inode)
    }
}

impl Local {
    pub(crate) async fn open_session(
        &self,
        id: &SandboxId,
        run: &str,
    ) -> Result<(Box<dyn SessionStream>, SessionPeer), DriverError> {
        let gone = || not_found(STAGE, format!("that run of {id} has ended"));
        let birth = Birth::parse(run).ok_or_else(gone)?;
        let process = birth.find(&self.boot_id).ok_or_else(gone)?;
        let failed = |error| io_failure(STAGE, format!("the session of {id}"), &error);
        let door = self.doors.door(id);
        let _turn = door.turn.lock().await;
        let end = ended(process.pidfd.try_clone().map_err(failed)?);
        tokio::pin!(end);
        loop {
            let bound = self.door_in_place(id, &door, &birth).await?;
            tokio::select! {
                accepted = bound.listener.accept() => {
                    let (stream, _) = accepted.map_err(failed)?;
                    if self.is_pid_1(id, &door, &stream, &process) {
                        return Ok((Box::new(stream), SessionPeer { backing_run: run.to_owned() }));
                    }
                }
                _ = &mut end => return Err(gone()),
                () = tokio::time::sleep(DOOR_LOOK) => {}
            }
        }
    }

    /// While our pidfd says that PID 1 lives, its pid is nobody else's: a peer with that pid is it.
    fn is_pid_1(&self, id: &SandboxId, door: &Door, stream: &UnixStream, pid_1: &Process) -> bool {
        let peer = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
        let proved = peer == Some(pid_1.pid) && pid_1.is_alive();
        if proved || self.knobs.without_guards.contains(&Guard::PeerCheck) {
            return true;
        }
        let times = door.turned_away.fetch_add(1, Ordering::Relaxed) + 1;
        // The first few tell; a process that tries without end does not fill a log.
        if times.is_power_of_two() {
            tracing::warn!(%id, ?peer, times, "a peer that is not PID 1 was turned away");
        }
        false
    }

    /// The socket where PID 1 can reach it: in the very directory that is mounted inside. One that
    /// was removed on the host is made anew and mounted inside again.
    async fn door_in_place(
        &self,
        id: &SandboxId,
        door: &Door,
        birth: &Birth,
    ) -> Result<Arc<Bound>, DriverError> {
        let dir = self.home.sandbox(id).session();
        let failed = |error| io_failure(STAGE, format!("the session directory of {id}"), &error);
        let record = self.run_record(id).filter(|record| record.birth == *birth);
        let mounted = record.as_ref().map(|record| record.session_dir);
        if let Some(bound) = door.bound()
            && mounted == Some(bound.dir)
            && bound.is_in_place(&dir)
        {
            return Ok(bound);
        }
        if mounted.is_none() || Directory::at(&dir).ok() != mounted {
            self.remount(id, birth, record).await?;
        }
        door.bind(&dir).map_err(failed)
    }

    async fn remount(
        &self,
        id: &SandboxId,
        birth: &Birth,
        record: Option<RunRecord>,
    ) -> Result<(), DriverError> {
        let dir = self.home.sandbox(id);
        let failed = |error| io_failure(STAGE, format!("the session directory of {id}"), &error);
        tracing::info!(%id, "its session directory was removed; a new one is mounted");
        self.remake_session_dir(id).map_err(failed)?;
        let session_dir = Directory::at(&dir.session()).map_err(failed)?;
        let ask = Ask::Remount(Remount {
            birth: birth.clone(),
            session_dir: dir.session(),
            supervisor: self.supervisor.clone(),
        });
        match self.ask(&ask, STAGE, None).await? {
            Answer::Remounted => {}
            Answer::Busy { message } => return Err(not_found(STAGE, message)),
            Answer::Failed(failure) => return Err(failure.into_error(STAGE)),
            Answer::Launched { .. } | Answer::Cleared(_) => {
                return Err(internal(STAGE, "an answer to something else"));
            }
        }
        let generation = match &record {
            Some(record) => record.generation,
            None => self.label(id)?.map_or(0, |label| label.made_from.generation),
        };
        let oom = record.is_some_and(|record| record.oom);
        let sandbox_dir = self.directory(id);
        let record = RunRecord { birth: birth.clone(), generation, session_dir, sandbox_dir, oom };
        write_json(&dir.runtime_file(), &record, Durable::No).map_err(failed)
    }
}
