//! Opens the database file or refuses it, and then leaves it as it was.
//!
//! Order matters: lock, look at the bytes, look through SQLite, and only then write anything.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::SqliteOptions;
use super::failure::{from_io, from_sqlite};
use super::lock::StoreLock;
use super::room::Room;
use super::timeline::Timeline;
use super::{beside, header, life, schema};
use crate::error::StoreError;

/// Up to this size the whole structure is checked at every start; above, a start would be slow
/// (about 1 ms a MiB) and SQLite finds damage when it meets it.
const CHECK_UP_TO_BYTES: u64 = 64 << 20;

/// Pages in the log at which it is written back: 2 MiB, so the log stays within what was allocated
/// ahead (see `room.rs`).
const CHECKPOINT_PAGES: u32 = 500;

/// What the writer thread works with. Dropped in this order: the handles in `room` must outlive the
/// connection, because closing any handle of a file gives up SQLite's locks on it.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) timeline: Timeline,
    pub(super) room: Room,
    pub(super) lock: StoreLock,
}

pub(super) fn open(database: &Path, options: SqliteOptions) -> Result<Opened, StoreError> {
    refuse_network_file_system(database)?;
    let lock = StoreLock::take(&beside(database, ".lock"))?;
    let wal = beside(database, "-wal");
    if exists(database)? {
        header::check(database, &wal)?;
        life::part_from_foreign_log(database, &wal)?;
    } else if exists(&wal)? {
        return Err(StoreError::Damaged {
            message: format!(
                "{} is missing although its log {} is there",
                database.display(),
                wal.display()
            ),
        });
    } else {
        create(database)?;
    }
    let handle = writable(database)?;
    let mut connection = connect(database)?;
    check_structure(&connection, &handle)?;
    schema::migrate(&mut connection, database)?;
    prepare(&connection)?;
    life::begin(&connection, database)?;
    sync_directory(database)?;
    let room = Room::open(&connection, handle, writable(&wal)?, database, options.reserve)?;
    let timeline = Timeline::load(&connection, options.bounds).map_err(from_sqlite)?;
    Ok(Opened { connection, timeline, room, lock })
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(|error| from_io(&format!("look for {}", path.display()), &error))
}

fn writable(path: &Path) -> Result<File, StoreError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(|error| from_io(&format!("open {}", path.display()), &error))
}

/// The file has its name only once it is complete and on disk, so an empty or half-made database is
/// always damage and never a fresh start.
fn create(database: &Path) -> Result<(), StoreError> {
    let unfinished = beside(database, ".new");
    let doing = format!("create {}", database.display());
    let failed = |error: io::Error| from_io(&doing, &error);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)
        .map_err(failed)?;
    let mut connection = Connection::open(&unfinished).map_err(from_sqlite)?;
    // Nothing is there to be lost yet: the file is synced as a whole below.
    connection.pragma_update(None, "journal_mode", "MEMORY").map_err(from_sqlite)?;
    schema::create(&mut connection)?;
    connection.close().map_err(|(_, error)| from_sqlite(error))?;
    file.sync_all().map_err(failed)?;
    fs::rename(&unfinished, database).map_err(failed)?;
    sync_directory(database)
}

fn connect(database: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(from_sqlite)?;
    connection.busy_timeout(Duration::from_secs(1)).map_err(from_sqlite)?;
    // The log stays where it is on close: it is space allocated ahead, and a refused file is not to
    // be written by a farewell checkpoint.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(from_sqlite)?;
    // Before the first access: then the index of the log lives in memory and not in a `-shm` file,
    // which could not be made on a full disk.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(from_sqlite)?;
    Ok(connection)
}

fn check_structure(connection: &Connection, handle: &File) -> Result<(), StoreError> {
    let length = handle.metadata().map_err(|error| from_io("measure the store", &error))?.len();
    if length > CHECK_UP_TO_BYTES {
        return Ok(());
    }
    let verdict: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(from_sqlite)?;
    if verdict == "ok" { Ok(()) } else { Err(StoreError::Damaged { message: verdict }) }
}

fn prepare(connection: &Connection) -> Result<(), StoreError> {
    let journal: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(from_sqlite)?;
    if journal != "wal" {
        return Err(StoreError::Unavailable {
            message: format!("no write-ahead log on this file system (journal is {journal})"),
        });
    }
    // FULL: in WAL mode NORMAL loses acknowledged commits at a power cut.
    connection.pragma_update(None, "synchronous", "FULL").map_err(from_sqlite)?;
    connection.pragma_update(None, "fullfsync", true).map_err(from_sqlite)?;
    // Savepoints must not need a temporary file.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(from_sqlite)?;
    connection
        .pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))
        .map_err(from_sqlite)?;
    connection.execute_batch("DELETE FROM filler").map_err(from_sqlite)
}

/// Makes names in the database's directory, and the directory's own, survive a power cut.
pub(super) fn sync_directory(database: &Path) -> Result<(), StoreError> {
    let directory = super::directory(database);
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| from_io(&format!("sync {}", directory.display()), &error))
}

/// SQLite's log needs locks and memory maps that these file systems do not keep reliably.
#[cfg(target_os = "linux")]
fn refuse_network_file_system(database: &Path) -> Result<(), StoreError> {
    // Magic numbers of linux/magic.h.
    const REFUSED: [(u32, &str); 4] =
        [(0x6969, "NFS"), (0x0102_1997, "9p"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB")];
    let directory = super::directory(database);
    let found = rustix::fs::statfs(directory)
        .map_err(|error| from_io(&format!("look at {}", directory.display()), &error.into()))?;
    // The field's width and sign differ between architectures; the numbers have 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "32 bits by design")]
    let kind = found.f_type as u32;
    match REFUSED.iter().find(|(magic, _)| *magic == kind) {
        Some((_, name)) => Err(StoreError::Unavailable {
            message: format!(
                "{} is on {name}, where commits cannot be kept safe; choose a local disk",
                directory.display()
            ),
        }),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network_file_system(_database: &Path) -> Result<(), StoreError> {
    Ok(())
}
