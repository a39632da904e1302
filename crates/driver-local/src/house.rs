//! Keeping house: what outlives its last use is removed as soon as that is safe.
//!
//! Root templates of a host as it was, and supervisors of builds that are gone, go when no sandbox
//! that is alive was started from them; control groups go when their sandbox has ended. None of it
//! happens while a start is under way.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sandkeep_core::SandboxId;
use serde::{Deserialize, Serialize};

use crate::home::{Durable, paths_in, read_json, write_json};
use crate::local::Local;
use crate::look::Life;
use crate::template;
use crate::tenant::Directory;
use crate::tree::remove_as_root;

/// `uses.json` of a sandbox: what its newest run was started from. Written before the run is, so
/// nothing that a run uses is ever unknown; means nothing on another boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Uses {
    /// Name of its template.
    template: String,
    /// Digest of its supervisor; none when that was not unpacked by digest.
    supervisor: Option<String>,
    /// The sandbox's directory: in another one this is a copy. `None`: an older build wrote it.
    #[serde(default)]
    sandbox_dir: Option<Directory>,
}

/// Who may not be disturbed; a memory of this process alone.
#[derive(Debug, Default)]
pub(crate) struct House {
    /// Read while a sandbox is started, written while what starts rely on is removed.
    pub(crate) starts: tokio::sync::RwLock<()>,
    /// A sandbox that is being started, ended or tidied.
    turns: Mutex<HashMap<SandboxId, Turn>>,
    pruned_once: AtomicBool,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

impl House {
    /// Whose turn it is with that sandbox.
    pub(crate) fn turn(&self, id: &SandboxId) -> Turn {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(id.clone()).or_default())
    }

    /// There is no such sandbox any more.
    pub(crate) fn forget(&self, id: &SandboxId) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

impl Local {
    /// Notes what the run that is about to be started uses.
    pub(crate) fn note_uses(&self, id: &SandboxId, template: &Path) -> io::Result<()> {
        let template = template.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let supervisor = self.unpacked().map(|(_, digest)| digest);
        let uses = Uses { template, supervisor, sandbox_dir: self.directory(id) };
        write_json(&self.home.sandbox(id).uses(), &uses, Durable::No)
    }

    /// Whether the newest start that the sandbox's directory tells of was one from there, not from
    /// the directory that it is a copy of. One that tells of none is no copy.
    pub(crate) fn began_here(&self, id: &SandboxId) -> bool {
        let noted = read_json::<Uses>(&self.home.sandbox(id).uses()).ok().flatten();
        let noted = noted.and_then(|uses| uses.sandbox_dir);
        noted.is_none_or(|noted| self.directory(id) == Some(noted))
    }

    /// Removes the levels above its control group when nothing is left in them.
    pub(crate) fn remove_empty_groups(&self, id: &SandboxId) {
        if let Ok(_nobody_starts) = self.house.starts.try_write() {
            self.group(id).remove_empty_parents();
        }
    }

    /// The first time in this process: what earlier ones have left.
    pub(crate) fn prune_once(&self) {
        if !self.house.pruned_once.swap(true, Ordering::Relaxed) {
            self.prune();
        }
    }

    /// Removes templates and supervisors that no sandbox uses and no start would. What cannot be
    /// found out or removed now is left for the next time.
    pub(crate) fn prune(&self) {
        let Ok(_nobody_starts) = self.house.starts.try_write() else { return };
        let pruned = self.unused().and_then(|unused| unused.iter().try_for_each(|old| bury(old)));
        if let Err(error) = pruned {
            tracing::warn!(%error, "old templates or supervisors stay");
        }
    }

    /// Where supervisors are unpacked, and the digest of this build's; `None`: it was not unpacked
    /// by digest.
    fn unpacked(&self) -> Option<(PathBuf, String)> {
        let home = self.supervisor.parent()?;
        let digest = home.file_name()?.to_str().filter(|name| is_digest(name))?;
        Some((home.parent()?.to_owned(), digest.to_owned()))
    }

    fn unused(&self) -> io::Result<Vec<PathBuf>> {
        let current = template::name(self.uid_base);
        let mut old: Vec<PathBuf> = paths_in(&self.home.templates())?;
        old.retain(|path| path.file_name().is_some_and(|name| *name != *current));
        if let Some((dir, digest)) = self.unpacked() {
            let others = paths_in(&dir)?.into_iter().filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name != digest && (is_digest(name) || is_buried(path))
            });
            old.extend(others);
        }
        for sandbox in paths_in(&self.home.sandboxes())? {
            if old.is_empty() {
                break;
            }
            let name = sandbox.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Ok(id) = name.parse::<SandboxId>() else { continue };
            if !self.may_be_alive(&id) {
                continue;
            }
            match read_json::<Uses>(&self.home.sandbox(&id).uses()) {
                Ok(Some(uses)) => {
                    let used: BTreeSet<_> =
                        uses.supervisor.into_iter().chain([uses.template]).collect();
                    old.retain(|path| {
                        let name = path.file_name().unwrap_or_default().to_string_lossy();
                        !used.contains(&*name)
                    });
                }
                // Started by a build that did not note it: nothing is known to be unused.
                _ => return Ok(Vec::new()),
            }
        }
        Ok(old)
    }

    /// Another gateway's sandbox may be, whatever it looks like from here.
    fn may_be_alive(&self, id: &SandboxId) -> bool {
        let ours = self
            .label(id)
            .is_ok_and(|label| label.is_none_or(|label| label.gateway == self.gateway));
        if !ours {
            return self.home.sandbox(id).runtime_file().exists();
        }
        let down = matches!(self.life(id), Ok(Life::Never | Life::Ended(_) | Life::Elsewhere(_)));
        !down || !matches!(self.helper_at_work(id), Ok(None))
    }
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// How the name of what is being removed begins: a crash never leaves half of something under the
/// name by which it would be used.
const BURIED: &str = "gone-";

fn is_buried(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(BURIED.as_bytes()))
}

fn bury(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    tracing::info!(%name, "it is used by no sandbox any more and is removed");
    if is_buried(path) {
        return remove_as_root(path);
    }
    let grave = path.with_file_name(format!("{BURIED}{name}"));
    remove_as_root(&grave)?;
    std::fs::rename(path, &grave)?;
    remove_as_root(&grave)
}
