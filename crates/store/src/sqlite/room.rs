//! Space for a full disk, held as blocks that nobody else can take.
//!
//! A file that is deleted when the disk is full would not do: whoever filled the disk takes its
//! space first. So the database itself is grown ahead: some MiB of it stand on its free list, and
//! the write-ahead log was made as large as it ever gets. Stop, delete and observations then
//! overwrite blocks that exist already.
//!
//! ```text
//!   database  |records, events …|free list: at least `keep_pages`|
//!   log       |at most CHECKPOINT_PAGES + one group …            |   never cut, never deleted
//! ```
//!
//! The reserve is whole while the free list is long enough and the disk has room besides. While it
//! is not, normal commits are refused and the timeline pauses.
//!
//! On file systems that never overwrite in place (btrfs, ZFS) this cannot hold by itself; there the
//! file system's own reserve has to do.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::failure::from_sqlite;
use crate::error::StoreError;

/// How much is held for a full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Pages (4 KiB) of the database that are kept free for commits with
    /// [`Priority::Reserve`](crate::Priority::Reserve).
    pub keep_pages: u32,
    /// Pages by which the database is grown when fewer than that are left.
    pub grow_pages: u32,
    /// Bytes allocated for the write-ahead log.
    pub log_bytes: u64,
    /// Normal commits are refused while the disk has fewer free bytes than this.
    pub min_free_bytes: u64,
}

impl Default for Reserve {
    /// Two MiB hold the deletion of a thousand sandboxes at full disk. The log holds 2 MiB before
    /// it is written back, a grown 4 MiB, and the groups between.
    fn default() -> Self {
        Self { keep_pages: 512, grow_pages: 1_024, log_bytes: 8 << 20, min_free_bytes: 1 << 20 }
    }
}

/// Watches over the reserve.
#[derive(Debug)]
pub(super) struct Room {
    reserve: Reserve,
    directory: PathBuf,
    database: File,
    log: File,
    /// The log has its blocks, or cannot be given any here.
    log_allocated: bool,
    whole: bool,
}

/// SQLite's default page size, with which the database is made.
const PAGE_BYTES: u64 = 4_096;

impl Room {
    pub(super) fn open(
        connection: &Connection,
        database: File,
        log: File,
        path: &Path,
        reserve: Reserve,
    ) -> Result<Self, StoreError> {
        let directory = super::directory(path).to_owned();
        let mut room =
            Self { reserve, directory, database, log, log_allocated: false, whole: true };
        room.make_whole(connection)?;
        Ok(room)
    }

    /// The reserve is whole, or could be made whole just now.
    pub(super) fn make_whole(&mut self, connection: &Connection) -> Result<bool, StoreError> {
        let whole = match self.look(connection) {
            Err(StoreError::DiskFull) => false,
            other => other?,
        };
        if whole != self.whole {
            self.whole = whole;
            if whole {
                tracing::info!("the disk of the store has room again");
            } else {
                tracing::warn!(
                    directory = %self.directory.display(),
                    "the disk of the store is full: stop, delete and list go on, the rest waits"
                );
            }
        }
        Ok(whole)
    }

    /// Makes a log that was written back completely worthless, so that it is not replayed over
    /// another database: somebody may put yesterday's copy back and leave the log beside it.
    /// Overwrites in place; the allocated blocks stay.
    pub(super) fn void_log(&self) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.log.write_all_at(&[0; 32], 0)?;
        self.log.sync_data()
    }

    fn look(&mut self, connection: &Connection) -> Result<bool, StoreError> {
        let Some(free_bytes) = self.free_bytes() else { return Ok(false) };
        if free_bytes < self.reserve.min_free_bytes {
            return Ok(false);
        }
        if !self.log_allocated {
            self.log_allocated = allocate(&self.log, 0, self.reserve.log_bytes) != Allocated::Full;
        }
        if !self.log_allocated {
            return Ok(false);
        }
        if free_pages(connection)? >= self.reserve.keep_pages {
            return Ok(true);
        }
        self.grow(connection, free_bytes)
    }

    /// Free for an ordinary user; `None`: the file system does not tell.
    fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.directory).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Writes zeros and deletes them again: their pages are the reserve. The blocks are allocated
    /// first, because a commit that fits the log but not the database would leave the log stuck.
    fn grow(&self, connection: &Connection, free_bytes: u64) -> Result<bool, StoreError> {
        let zeros_bytes = i64::from(self.reserve.grow_pages) * 4_096;
        let grow_bytes = zeros_bytes.unsigned_abs();
        // The log is written back first: a completed checkpoint cuts the database to its size and
        // would take back what is allocated behind it.
        if !written_back(connection)? {
            return Ok(false);
        }
        let used: u64 = connection
            .query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0))
            .map_err(from_sqlite)?
            .unsigned_abs()
            * PAGE_BYTES;
        // Some pages more than the zeros themselves need.
        match allocate(&self.database, used, grow_bytes + 64 * PAGE_BYTES) {
            Allocated::Yes => {}
            Allocated::Full => return Ok(false),
            Allocated::Unsupported if free_bytes < 3 * grow_bytes => return Ok(false),
            Allocated::Unsupported => {}
        }
        connection
            .execute("INSERT INTO filler (body) VALUES (zeroblob(?1))", params![zeros_bytes])
            .map_err(from_sqlite)?;
        let written = written_back(connection)?;
        connection.execute("DELETE FROM filler", []).map_err(from_sqlite)?;
        Ok(written)
    }
}

fn free_pages(connection: &Connection) -> Result<u32, StoreError> {
    let mut query = connection.prepare_cached("PRAGMA freelist_count").map_err(from_sqlite)?;
    query.query_row([], |row| row.get(0)).map_err(from_sqlite)
}

/// Writes the log back into the database; `false`: not all of it.
pub(super) fn written_back(connection: &Connection) -> Result<bool, StoreError> {
    let (busy, in_log, written): (i64, i64, i64) = connection
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .map_err(from_sqlite)?;
    Ok(busy == 0 && in_log == written)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allocated {
    Yes,
    Full,
    /// This system or file system has no such call.
    Unsupported,
}

/// Allocates blocks without changing the file's size.
#[cfg(target_os = "linux")]
fn allocate(file: &File, offset: u64, bytes: u64) -> Allocated {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes) {
        Ok(()) => Allocated::Yes,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Allocated::Unsupported,
        Err(_) => Allocated::Full,
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _offset: u64, _bytes: u64) -> Allocated {
    Allocated::Unsupported
}
