//! A commit whose answer is an error may hold all the same: the store is asked what is true.

use sandkeep_core::{Record, Workspace};
use sandkeep_store::{Change, Contents, StoreError};

use super::Registry;

impl Registry {
    /// Whether `changes` hold although the store answered with `error`; `None`: the store does not
    /// say. A batch holds as a whole or not at all, so one change of it that can be told speaks for
    /// all.
    pub(super) async fn holds_all_the_same(
        &self,
        changes: &[Change],
        error: &StoreError,
    ) -> Option<bool> {
        // A full disk refuses before it writes.
        if matches!(error, StoreError::DiskFull) {
            return Some(false);
        }
        let contents = self.store.load().await.ok()?;
        Some(changes.iter().find_map(|change| is_in(change, &contents)).unwrap_or(false))
    }
}

/// `None`: this change leaves nothing to tell it by.
fn is_in(change: &Change, contents: &Contents) -> Option<bool> {
    match change {
        Change::PutRecord(record) => {
            let stored = Record { revision: record.revision + 1, ..(**record).clone() };
            Some(contents.records.contains(&stored))
        }
        Change::BuryRecord { id, .. } => {
            let gone = contents.records.iter().all(|record| record.id != *id);
            Some(gone && contents.tombstones.iter().any(|dead| dead.id == id.as_str()))
        }
        Change::PutWorkspace(workspace) => {
            let stored = Workspace { revision: workspace.revision + 1, ..(**workspace).clone() };
            Some(contents.workspaces.contains(&stored))
        }
        Change::BuryWorkspace { id, .. } => {
            let gone = contents.workspaces.iter().all(|workspace| workspace.id != *id);
            Some(gone && contents.tombstones.iter().any(|dead| dead.id == id.as_str()))
        }
        Change::PutMeta(meta) => Some(contents.meta.as_ref() == Some(meta)),
        Change::DropTombstone { .. } | Change::AppendEvent(_) => None,
    }
}
