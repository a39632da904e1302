//! One change at a time, as SQL; the caller sees to transactions.

use rusqlite::{Connection, params};
use serde::Serialize;

use super::failure::from_sqlite;
use crate::change::{Change, Tombstone};
use crate::error::StoreError;

/// A table of values with a revision.
#[derive(Clone, Copy)]
enum Table {
    Record,
    Workspace,
}

/// Carries out one batch. Gives the sandboxes (`None`: the gateway) of the events that it
/// appended; `dropped` is told by the first of them.
pub(super) fn batch(
    connection: &Connection,
    changes: &[Change],
    dropped: u64,
) -> Result<Vec<Option<String>>, StoreError> {
    let mut appended = Vec::new();
    for change in changes {
        match change {
            Change::PutRecord(record) => {
                let mut next = record.clone();
                next.revision = next.revision.saturating_add(1);
                let key = (record.id.as_str(), record.revision);
                put(connection, Table::Record, key, record.name.as_str(), &next)?;
            }
            Change::PutWorkspace(workspace) => {
                let mut next = workspace.clone();
                next.revision = next.revision.saturating_add(1);
                let key = (workspace.id.as_str(), workspace.revision);
                put(connection, Table::Workspace, key, workspace.name.as_str(), &next)?;
            }
            Change::BuryRecord { id, revision, tombstone } => {
                bury(connection, Table::Record, (id.as_str(), *revision), tombstone)?;
            }
            Change::BuryWorkspace { id, revision, tombstone } => {
                bury(connection, Table::Workspace, (id.as_str(), *revision), tombstone)?;
            }
            Change::DropTombstone { id } => {
                run(connection, "DELETE FROM tombstone WHERE id = ?1", params![id])?;
            }
            Change::AppendEvent(event) => {
                let mut event = event.clone();
                event.dropped = if appended.is_empty() { dropped } else { 0 };
                let sandbox = event.sandbox.as_ref().map(|id| id.as_str().to_owned());
                run(
                    connection,
                    "INSERT INTO event (sandbox, body) VALUES (?1, ?2)",
                    params![sandbox, json(&event)?],
                )?;
                appended.push(sandbox);
            }
            Change::PutMeta(meta) => {
                run(
                    connection,
                    "INSERT INTO meta (key, body) VALUES (1, ?1)
                     ON CONFLICT (key) DO UPDATE SET body = excluded.body",
                    params![json(meta)?],
                )?;
            }
        }
    }
    Ok(appended)
}

impl Table {
    const fn kind(self) -> &'static str {
        match self {
            Self::Record => "sandbox",
            Self::Workspace => "workspace",
        }
    }

    /// A buried id is never inserted again.
    const fn insert(self) -> &'static str {
        match self {
            Self::Record => {
                "INSERT INTO record (id, revision, name, body) SELECT ?1, 1, ?2, ?3
                 WHERE NOT EXISTS (SELECT 1 FROM tombstone WHERE id = ?1)
                 ON CONFLICT (id) DO NOTHING"
            }
            Self::Workspace => {
                "INSERT INTO workspace (id, revision, name, body) SELECT ?1, 1, ?2, ?3
                 WHERE NOT EXISTS (SELECT 1 FROM tombstone WHERE id = ?1)
                 ON CONFLICT (id) DO NOTHING"
            }
        }
    }

    const fn update(self) -> &'static str {
        match self {
            Self::Record => {
                "UPDATE record SET revision = revision + 1, name = ?2, body = ?3
                 WHERE id = ?1 AND revision = ?4"
            }
            Self::Workspace => {
                "UPDATE workspace SET revision = revision + 1, name = ?2, body = ?3
                 WHERE id = ?1 AND revision = ?4"
            }
        }
    }

    const fn delete(self) -> &'static str {
        match self {
            Self::Record => "DELETE FROM record WHERE id = ?1 AND revision = ?2",
            Self::Workspace => "DELETE FROM workspace WHERE id = ?1 AND revision = ?2",
        }
    }
}

fn put(
    connection: &Connection,
    table: Table,
    (id, revision): (&str, u64),
    name: &str,
    value: &impl Serialize,
) -> Result<(), StoreError> {
    let body = json(value)?;
    let changed = if revision == 0 {
        run(connection, table.insert(), params![id, name, body])?
    } else {
        run(connection, table.update(), params![id, name, body, integer(revision)])?
    };
    compared(table, id, revision, changed)
}

fn bury(
    connection: &Connection,
    table: Table,
    (id, revision): (&str, u64),
    tombstone: &Tombstone,
) -> Result<(), StoreError> {
    let changed = run(connection, table.delete(), params![id, integer(revision)])?;
    compared(table, id, revision, changed)?;
    run(
        connection,
        "INSERT INTO tombstone (id, body) VALUES (?1, ?2)
         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        params![tombstone.id, json(tombstone)?],
    )?;
    Ok(())
}

fn compared(table: Table, id: &str, expected: u64, changed: usize) -> Result<(), StoreError> {
    if changed == 1 {
        return Ok(());
    }
    Err(StoreError::Conflict { what: format!("{} {id}", table.kind()), expected })
}

fn run(
    connection: &Connection,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<usize, StoreError> {
    connection.prepare_cached(sql).and_then(|mut query| query.execute(values)).map_err(from_sqlite)
}

fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Unavailable { message: error.to_string() })
}

/// SQLite's integers are signed; no counter here comes near the limit.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
