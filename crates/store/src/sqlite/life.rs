//! Tells whether the write-ahead log beside the database is the database's own.
//!
//! SQLite replays whatever valid log it finds. When a gateway was killed and somebody then puts
//! yesterday's copy of the database back without removing the log, that log would be replayed over
//! the wrong database: a mixture of both days at best. So every opening gets a number, kept in the
//! database and in a file beside it. A database with a lower number than the file says was put back
//! from a copy, and the log is moved aside.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::beside;
use super::failure::{from_io, from_sqlite};
use super::room::written_back;
use crate::error::StoreError;

const SUFFIX: &str = ".opened";

/// Moves a log aside that belongs to another copy of the database. Call it before the database is
/// opened.
pub(super) fn part_from_foreign_log(database: &Path, wal: &Path) -> Result<(), StoreError> {
    let told = told_beside(database);
    // A database that cannot be read is not an older copy: it is refused later, as it is.
    let Some(own) = in_database_file(database) else { return Ok(()) };
    if own >= told || !wal.exists() {
        return Ok(());
    }
    let aside = beside(wal, &format!(".of-opening-{told}"));
    tracing::warn!(
        database = %database.display(),
        log = %aside.display(),
        "the database is an older copy that was put back; the log of the newer one is kept aside"
    );
    fs::rename(wal, &aside)
        .map_err(|error| from_io(&format!("move {} aside", wal.display()), &error))?;
    super::opening::sync_directory(database)
}

/// Numbers this opening, first in the database file itself (not only in its log), then beside it.
/// The number rises above both, so a copy that was put back gets one of its own.
pub(super) fn begin(connection: &Connection, database: &Path) -> Result<(), StoreError> {
    let own = number(connection).map_err(from_sqlite)?;
    let next = own.max(told_beside(database)) + 1;
    connection
        .execute(
            "INSERT INTO opening (key, number) VALUES (1, ?1)
             ON CONFLICT (key) DO UPDATE SET number = excluded.number",
            [next],
        )
        .map_err(from_sqlite)?;
    if written_back(connection)?
        && let Err(error) = tell_beside(database, next)
    {
        // The log then counts as the database's own, as without this file.
        tracing::warn!(%error, "the number of this opening cannot be written");
    }
    Ok(())
}

/// 0: not there or not readable, which accuses nobody.
fn told_beside(database: &Path) -> i64 {
    let text = fs::read_to_string(beside(database, SUFFIX)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Padded and in place, so that it needs no new block on a full disk.
fn tell_beside(database: &Path, number: i64) -> std::io::Result<()> {
    let path = beside(database, SUFFIX);
    let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all(format!("{number:<20}\n").as_bytes())?;
    file.sync_all()
}

/// What the database file says by itself, its log left out of account.
fn in_database_file(database: &Path) -> Option<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(immutable(database)?, flags).ok()?;
    number(&connection).ok()
}

fn number(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT coalesce(max(number), 0) FROM opening", [], |row| row.get(0))
}

/// `None`: the path cannot be told to SQLite.
fn immutable(database: &Path) -> Option<String> {
    use std::fmt::Write as _;
    let mut uri = "file:".to_owned();
    for byte in database.to_str()?.bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            write!(uri, "%{byte:02x}").ok()?;
        }
    }
    Some(uri + "?immutable=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_odd_characters_is_one_path() {
        let uri = immutable(Path::new("/a b?c#d%e/ä.db"));
        assert_eq!(uri.as_deref(), Some("file:/a%20b%3fc%23d%25e/%c3%a4.db?immutable=1"));
    }
}
