//! Workspaces: directories that outlive every sandbox, each with its mark beside it.
//!
//! The mark lies outside of what a sandbox sees, so nothing inside can remove or forge it. It is
//! written last when one is made and removed last when one is discarded: a marked workspace is
//! whole.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind::{InvalidData, UnexpectedEof};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use rustix::io::Errno;
use sandkeep_core::WorkspaceId;
use sandkeep_driver::{DriverError, ErrorKind, FoundWorkspace, WorkspaceReport, WorkspaceRequest};

use crate::failure::{conflict, io_failure};
use crate::home::{make_private_dir, read_json};
use crate::local::Local;
use crate::record::Mark;
use crate::tree::remove_as_root;

const STAGE: &str = "workspace";

impl Local {
    pub(crate) fn workspace_files(&self, id: &WorkspaceId) -> PathBuf {
        self.home.workspace(id).join("files")
    }

    fn mark_file(&self, id: &WorkspaceId) -> PathBuf {
        self.home.workspace(id).join("mark.json")
    }

    pub(crate) fn ensure_workspace(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceReport, DriverError> {
        let files = self.workspace_files(&request.id);
        if let Err(missing) = self.check_workspace(&request.id) {
            if request.marked {
                return match missing.kind {
                    ErrorKind::NotFound => {
                        Ok(WorkspaceReport::Missing { message: missing.message })
                    }
                    _ => Err(missing),
                };
            }
            self.make_workspace(request)?;
        }
        Ok(WorkspaceReport::Bound { handle: files.to_string_lossy().into_owned() })
    }

    fn make_workspace(&self, request: &WorkspaceRequest) -> Result<(), DriverError> {
        self.check_place(STAGE)?;
        let failed = |error| io_failure(STAGE, format!("workspace {}", request.id), &error);
        let mark_file = self.mark_file(&request.id);
        let there = whole_mark(&mark_file).map_err(failed)?;
        if let Some(other) = there.filter(|mark| mark.id != request.id) {
            let message = format!("the place of workspace {} is taken by {}", request.id, other.id);
            return Err(conflict(STAGE, message));
        }
        let files = self.workspace_files(&request.id);
        make_private_dir(&files).map_err(failed)?;
        lchown(&files, Some(self.uid_base), Some(self.uid_base)).map_err(failed)?;
        fs::set_permissions(&files, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        if !files.symlink_metadata().map_err(failed)?.is_dir() {
            let message = format!("{} is not a directory", files.display());
            return Err(conflict(STAGE, message));
        }
        sign(&files, &request.id).map_err(failed)?;
        let (gateway, id) = (self.gateway.clone(), request.id.clone());
        let mark = Mark { gateway, id, name: request.name.clone() };
        write_last(&mark_file, &mark).map_err(failed)
    }

    /// Whether the workspace is there and carries its mark; `NotFound` says what is wrong.
    pub(crate) fn check_workspace(&self, id: &WorkspaceId) -> Result<(), DriverError> {
        let files = self.workspace_files(id);
        let missing = |why: &str| {
            let message = format!("{} {why}", files.display());
            Err(DriverError::new(ErrorKind::NotFound, STAGE, "WorkspaceMissing", message))
        };
        let mark = whole_mark(&self.mark_file(id))
            .map_err(|error| io_failure(STAGE, format!("the mark of workspace {id}"), &error))?;
        match (mark, files.symlink_metadata()) {
            (_, Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                missing("is not there")
            }
            (_, Err(error)) => Err(io_failure(STAGE, files.display(), &error)),
            (_, Ok(metadata)) if !metadata.is_dir() => missing("is not a directory"),
            (None, _) => missing("has lost its mark"),
            (Some(mark), _) if mark.id != *id => {
                missing(&format!("carries the mark of workspace {}", mark.id))
            }
            (Some(_), Ok(_)) => match is_unsigned_and_empty(&files) {
                Ok(true) => missing("is an empty directory that was put in its place"),
                Ok(false) => Ok(()),
                Err(error) => Err(io_failure(STAGE, files.display(), &error)),
            },
        }
    }

    pub(crate) async fn discard_workspace(&self, id: &WorkspaceId) -> Result<(), DriverError> {
        self.remove_workspace_files(self.workspace_files(id)).await?;
        // The mark last: until then it is the workspace that is being discarded.
        let dir = self.home.workspace(id);
        remove_as_root(&dir).map_err(|error| io_failure(STAGE, dir.display(), &error))
    }

    pub(crate) fn list_workspaces(&self) -> Result<Vec<FoundWorkspace>, DriverError> {
        let failed = |error| io_failure("list", "the workspaces", &error);
        let mut found = Vec::new();
        for entry in fs::read_dir(self.home.workspaces()).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse::<WorkspaceId>().ok()) else {
                continue;
            };
            let mark: Mark = match read_json(&self.mark_file(&id)) {
                Ok(Some(mark)) => mark,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(%id, %error, "the mark of a workspace cannot be read");
                    continue;
                }
            };
            if mark.gateway == self.gateway && mark.id == id {
                let handle = self.workspace_files(&id).to_string_lossy().into_owned();
                found.push(FoundWorkspace { id, name: mark.name, handle });
            }
        }
        Ok(found)
    }
}

/// An attribute of the directory itself, which nobody inside can see, set or remove: the mark beside
/// it cannot tell whether the directory is the one that was made with it.
const SIGNATURE: &str = "trusted.sandkeep.workspace";

fn sign(files: &Path, id: &WorkspaceId) -> io::Result<()> {
    match lsetxattr(files, SIGNATURE, id.as_str().as_bytes(), XattrFlags::empty()) {
        // Not every file system has room for it.
        Ok(()) | Err(Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the directory is empty and is not the one that was made. With anything in it, it was
/// brought back from a copy, which need not keep the signature.
fn is_unsigned_and_empty(files: &Path) -> io::Result<bool> {
    let unsigned = lgetxattr(files, SIGNATURE, &mut [0_u8; 64]) == Err(Errno::NODATA);
    Ok(unsigned && fs::read_dir(files)?.next().is_none())
}

/// The mark; half of one, as a crash of the machine may leave it before it was flushed, is none.
fn whole_mark(path: &Path) -> io::Result<Option<Mark>> {
    match read_json(path) {
        Err(error) if matches!(error.kind(), InvalidData | UnexpectedEof) => {
            tracing::warn!(mark = %path.display(), %error, "a mark that cannot be read is none");
            Ok(None)
        }
        other => other,
    }
}

/// Writes the mark of a new workspace, when everything else of it is there, and makes all of it
/// durable with one flush: on the file systems of Linux, flushing a new file takes along the making
/// of the directories that it is in (their logs are written in order). It is flushed under its
/// final name, so that this name goes along as well.
fn write_last(path: &Path, mark: &Mark) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(mark)?)?;
    fs::rename(&new, path)?;
    file.sync_all()
}
