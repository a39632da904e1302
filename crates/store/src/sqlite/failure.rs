//! From the words of SQLite and the system to what a caller of the store can do.

use std::io;

use rusqlite::ErrorCode;

use crate::error::StoreError;

pub(super) fn from_sqlite(error: rusqlite::Error) -> StoreError {
    let message = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::DiskFull,
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { message },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { message }
        }
        // Our own lock file keeps other gateways out, so this is somebody with a tool of their own.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Locked { holder: "another program".to_owned() }
        }
        _ => StoreError::Unavailable { message },
    }
}

/// `doing` says what was tried: `open /var/lib/…/store.db`.
pub(super) fn from_io(doing: &str, error: &io::Error) -> StoreError {
    let message = format!("{doing}: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { message }
        }
        _ => StoreError::Unavailable { message },
    }
}
