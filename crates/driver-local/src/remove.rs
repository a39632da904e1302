//! Removing what agents made: their own helper empties it with their identity, and what is left
//! after that is finished here, as root, without ever leaving the tree.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandkeep_core::SandboxId;
use sandkeep_driver::DriverError;

use crate::config::UID_COUNT;
use crate::failure::{internal, io_failure};
use crate::helper::{Answer, Ask, Clear};
use crate::home::{absent_is_done, is_rootfs_aside, paths_in};
use crate::local::Local;
use crate::tree::{Left, remove_as_root};

const STAGE: &str = "remove";

/// A helper holds a descriptor for each tree that it is given.
const TREES_AT_ONCE: usize = 64;

impl Local {
    /// Removes everything that carries the id; the label last, so that a removal that was cut off
    /// is found again.
    pub(crate) async fn remove_files(&self, id: &SandboxId) -> Result<(), DriverError> {
        let dir = self.home.sandbox(id);
        let failed = |error| io_failure(STAGE, dir.path.display(), &error);
        self.clear_trees(STAGE, self.trees_of(id).map_err(failed)?).await?;
        let (label, path) = (dir.label(), dir.path.clone());
        self.aside_root(STAGE, dir.path.clone(), move || {
            for entry in paths_in(&path)?.into_iter().filter(|entry| *entry != label) {
                remove_as_root(&entry)?;
            }
            absent_is_done(fs::remove_file(&label))?;
            absent_is_done(fs::remove_dir(&path))
        })
        .await
    }

    /// Removes a workspace's files, whatever stands in their place by now.
    pub(crate) async fn remove_workspace_files(&self, files: PathBuf) -> Result<(), DriverError> {
        self.clear_trees("workspace", vec![files.clone()]).await?;
        self.aside_root("workspace", files.clone(), move || remove_as_root(&files)).await
    }

    /// Removes what earlier starts and changes of the image put aside.
    pub(crate) async fn empty_trash(&self, id: &SandboxId) -> Result<(), DriverError> {
        let trash = self.home.sandbox(id).trash();
        let failed = |error| io_failure(STAGE, trash.display(), &error);
        let aside = paths_in(&trash).map_err(failed)?;
        self.clear_trees(STAGE, trees_aside(&aside).map_err(failed)?).await?;
        let finish = move || aside.iter().try_for_each(|path| remove_as_root(path));
        self.aside_root(STAGE, trash.clone(), finish).await
    }

    /// Every directory of a sandbox's that is its agent's.
    fn trees_of(&self, id: &SandboxId) -> io::Result<Vec<PathBuf>> {
        let dir = self.home.sandbox(id);
        let mut trees = vec![dir.state()];
        trees.extend(uppers(&dir.rootfs())?);
        trees.extend(trees_aside(&paths_in(&dir.trash())?)?);
        Ok(trees)
    }

    /// Has helpers remove what is in these directories, as far as the agent's identity reaches.
    /// Empty ones cost no helper.
    async fn clear_trees(
        &self,
        stage: &'static str,
        mut trees: Vec<PathBuf>,
    ) -> Result<(), DriverError> {
        trees.retain(|tree| holds_something(tree));
        for some in trees.chunks(TREES_AT_ONCE) {
            let (uid_base, uid_count) = (self.uid_base, UID_COUNT);
            let ask = Ask::Clear(Clear { trees: some.to_vec(), uid_base, uid_count });
            match self.ask(&ask, stage, None).await? {
                Answer::Cleared(left) => tell(some, &left),
                Answer::Failed(failure) => return Err(failure.into_error(stage)),
                _ => return Err(internal(stage, "an answer to something else")),
            }
        }
        Ok(())
    }

    /// Does what removes files where it holds up nobody.
    async fn aside_root(
        &self,
        stage: &'static str,
        what: PathBuf,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), DriverError> {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|error| io_failure(stage, what.display(), &error)),
            Err(error) => Err(internal(stage, error.to_string())),
        }
    }
}

/// The layers of a root file system that its agent wrote.
fn uppers(rootfs: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(paths_in(rootfs)?.into_iter().map(|layer| layer.join("upper")).collect())
}

/// The agent's directories among what was put aside: the agent's whole, or the layers of a root
/// file system.
fn trees_aside(aside: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut trees = Vec::new();
    for path in aside {
        match is_rootfs_aside(path) {
            true => trees.extend(uppers(path)?),
            false => trees.push(path.clone()),
        }
    }
    Ok(trees)
}

/// Whether it is a directory with anything in it. One that cannot be looked into may be.
fn holds_something(tree: &Path) -> bool {
    let is_dir = tree.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    is_dir && fs::read_dir(tree).map_or(true, |mut entries| entries.next().is_some())
}

/// Says what root is about to finish.
fn tell(trees: &[PathBuf], left: &Left) {
    let Left { entries, foreign, examples } = left;
    let tree = trees.first().map(|tree| tree.display().to_string()).unwrap_or_default();
    if *foreign > 0 {
        tracing::warn!(%tree, entries, foreign, ?examples, "files of others are removed by root");
    } else if *entries > 0 {
        tracing::debug!(%tree, entries, ?examples, "root removes what the agent's identity cannot");
    }
}
