//! Making a backing: directories, and the label that says whose it is and what it is made from.
//! Nothing runs yet and nothing is mounted.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, lchown};
use std::path::Path;

use sandkeep_core::Image;
use sandkeep_driver::{CreateRequest, DriverError};

use crate::check::check;
use crate::failure::{conflict, io_failure};
use crate::home::{Durable, SandboxDir, make_private_dir, write_json};
use crate::local::Local;
use crate::look::Life;
use crate::record::Label;

const STAGE: &str = "create";

impl Local {
    pub(crate) fn make(&self, request: &CreateRequest) -> Result<(), DriverError> {
        self.needs_root(STAGE)?;
        self.check_place(STAGE)?;
        check(&request.spec, &self.hierarchies, self.home.root())?;
        let before = match self.label(&request.id) {
            Ok(label) => label,
            Err(error) => {
                // Half a label is no label; the place is ours by its path.
                tracing::warn!(id = %request.id, %error, "a label that cannot be read is replaced");
                None
            }
        };
        if let Some(label) = &before {
            if label.gateway != self.gateway {
                let message = format!("{} belongs to gateway {}", request.id, label.gateway);
                return Err(conflict(STAGE, message));
            }
            if label.made_from.generation == request.generation {
                return Ok(());
            }
        }
        if matches!(self.life(&request.id)?, Life::Alive(..)) {
            let message = format!("{} runs, made from another generation", request.id);
            return Err(conflict(STAGE, message));
        }
        let dir = self.home.sandbox(&request.id);
        let failed = |error| io_failure(STAGE, dir.path.display(), &error);
        if let Some(label) = &before
            && !same_root(&label.made_from.spec.image, &request.spec.image)
        {
            dir.put_rootfs_aside().map_err(failed)?;
        }
        make_dirs(&dir, self.uid_base).map_err(failed)?;
        let label = Label { gateway: self.gateway.clone(), made_from: request.clone() };
        // If a crash of the machine undoes it, the backing is absent or of the older generation, and
        // made again; nothing was in it yet. Half of a new label is none; half of one that takes the
        // place of another would lose that one.
        let durable = if before.is_some() { Durable::Whole } else { Durable::No };
        write_json(&dir.label(), &label, durable).map_err(failed)
    }
}

/// Whether a root file system made for one image is still the right one for the other.
fn same_root(before: &Image, now: &Image) -> bool {
    before == now
}

/// Everything that a start expects; each is made again when it is missing.
pub(crate) fn make_dirs(dir: &SandboxDir, uid_base: u32) -> std::io::Result<()> {
    for path in [dir.rootfs(), dir.trash()] {
        make_private_dir(&path)?;
    }
    owned_dir(&dir.state(), uid_base)?;
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.lock())?;
    Ok(())
}

fn owned_dir(path: &Path, owner: u32) -> std::io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        // One that is there may have been made and not given away: a crash comes in between.
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => lchown(path, Some(owner), Some(owner)),
    }
}
