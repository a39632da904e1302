//! Reads: everything at once when the gateway starts, and pages of the timeline.

use rusqlite::{Connection, Params, params};
use sandkeep_core::SandboxId;
use serde::de::DeserializeOwned;

use super::failure::from_sqlite;
use crate::change::{Contents, Event};
use crate::error::StoreError;

pub(super) fn contents(connection: &Connection) -> Result<Contents, StoreError> {
    let records = all(connection, "SELECT id, body FROM record ORDER BY id")?;
    let workspaces = all(connection, "SELECT id, body FROM workspace ORDER BY id")?;
    let tombstones = all(connection, "SELECT id, body FROM tombstone ORDER BY id")?;
    let mut meta = all(connection, "SELECT 'the gateway', body FROM meta")?;
    Ok(Contents { records, workspaces, tombstones, meta: meta.pop() })
}

pub(super) fn events(
    connection: &Connection,
    sandbox: Option<&SandboxId>,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found: Vec<(i64, Event)> = match sandbox {
        Some(id) => rows(
            connection,
            "SELECT sequence, body FROM event WHERE sandbox = ?1 AND sequence > ?2
             ORDER BY sequence LIMIT ?3",
            params![id.as_str(), after, limit],
        )?,
        None => rows(
            connection,
            "SELECT sequence, body FROM event WHERE sequence > ?1 ORDER BY sequence LIMIT ?2",
            params![after, limit],
        )?,
    };
    let numbered =
        |(sequence, event): (i64, Event)| Event { sequence: sequence.unsigned_abs(), ..event };
    Ok(found.into_iter().map(numbered).collect())
}

fn all<T: DeserializeOwned>(connection: &Connection, sql: &str) -> Result<Vec<T>, StoreError> {
    let found: Vec<(String, T)> = rows(connection, sql, [])?;
    Ok(found.into_iter().map(|(_, value)| value).collect())
}

/// Rows of a key (for the message when a value cannot be read) and a JSON body.
fn rows<K, T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<(K, T)>, StoreError>
where
    K: rusqlite::types::FromSql + std::fmt::Display,
    T: DeserializeOwned,
{
    let mut query = connection.prepare_cached(sql).map_err(from_sqlite)?;
    let mut rows = query.query(params).map_err(from_sqlite)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(from_sqlite)? {
        let key: K = row.get(0).map_err(from_sqlite)?;
        let body = row.get_ref(1).map_err(from_sqlite)?;
        let text = body.as_str().map_err(|error| unreadable(&key, &error))?;
        let value = serde_json::from_str(text).map_err(|error| unreadable(&key, &error))?;
        found.push((key, value));
    }
    Ok(found)
}

fn unreadable(key: &impl std::fmt::Display, error: &impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { message: format!("what is stored under {key} cannot be read: {error}") }
}
