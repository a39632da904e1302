//! The schema, as migrations that are applied in order; `user_version` counts them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::failure::{from_io, from_sqlite};
use crate::error::StoreError;

/// "SdKp": tells our files from other programs'.
pub(super) const APPLICATION_ID: u32 = 0x5364_4b70;

/// Append only: what was released is never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001-initial.sql"),
    include_str!("migrations/0002-events-by-sandbox.sql"),
];

/// The schema version that this program writes.
pub(super) fn known() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Everything a new database needs, in one transaction.
pub(super) fn create(connection: &mut Connection) -> Result<(), StoreError> {
    connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(from_sqlite)?;
    apply_from(connection, 0)
}

/// Brings an older database up to date, after a copy of it was put beside it. A failure leaves the
/// old schema in place.
pub(super) fn migrate(connection: &mut Connection, database: &Path) -> Result<(), StoreError> {
    let found: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(from_sqlite)?;
    if found > known() {
        return Err(StoreError::Newer { found, known: known() });
    }
    if found == known() {
        return Ok(());
    }
    let copy = back_up(connection, database, found)?;
    apply_from(connection, found)?;
    tracing::info!(from = found, to = known(), copy = %copy.display(), "the store was migrated");
    Ok(())
}

fn apply_from(connection: &mut Connection, found: u32) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(from_sqlite)?;
    for migration in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(migration).map_err(from_sqlite)?;
    }
    transaction.pragma_update(None, "user_version", known()).map_err(from_sqlite)?;
    transaction.commit().map_err(from_sqlite)
}

/// A whole copy, the write-ahead log included, under `DATABASE.schema-N`. It has its final name
/// only once it is complete and on disk.
fn back_up(connection: &Connection, database: &Path, found: u32) -> Result<PathBuf, StoreError> {
    let copy = super::beside(database, &format!(".schema-{found}"));
    let unfinished = super::beside(database, &format!(".schema-{found}.new"));
    let doing = format!("copy the store to {}", copy.display());
    let failed = |error: std::io::Error| from_io(&doing, &error);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let target = unfinished.to_string_lossy();
    connection.execute("VACUUM INTO ?1", [&target]).map_err(from_sqlite)?;
    File::open(&unfinished).and_then(|file| file.sync_all()).map_err(failed)?;
    fs::rename(&unfinished, &copy).map_err(failed)?;
    super::opening::sync_directory(database)?;
    Ok(copy)
}
