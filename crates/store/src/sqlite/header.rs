//! Looks at the database file as plain bytes, before SQLite may touch it, so that a file that is
//! refused is left exactly as it was found.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use super::failure::from_io;
use super::schema;
use crate::error::StoreError;

/// SQLite's file format, section 1.3: the first hundred bytes.
const HEADER_BYTES: usize = 100;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// SQLite's file format, section 4.1: sizes in the write-ahead log.
const WAL_HEADER_BYTES: usize = 32;
const WAL_FRAME_HEADER_BYTES: usize = 24;

/// Refuses what is not a whole database of ours or is newer than this program.
pub(super) fn check(database: &Path, wal: &Path) -> Result<(), StoreError> {
    let doing = format!("read {}", database.display());
    let failed = |error: io::Error| from_io(&doing, &error);
    let mut file = File::open(database).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut header = [0; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(damaged(database, &format!("it has {length} bytes only")));
        }
        other => other.map_err(failed)?,
    }
    if &header[..16] != MAGIC {
        return Err(damaged(database, "it is not an SQLite database"));
    }
    if big_endian(&header, 68) != schema::APPLICATION_ID {
        return Err(damaged(database, "it is the database of another program"));
    }
    let found = big_endian(&header, 60);
    if found > schema::known() {
        return Err(StoreError::Newer { found, known: schema::known() });
    }
    // Two bytes; 1 stands for 65536.
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        other => u64::from(other),
    };
    let pages = u64::from(big_endian(&header, 28));
    if length < pages * page_bytes && !wal_has_the_rest(wal, length / page_bytes, pages) {
        let message = format!("it was cut off: {length} bytes of {}", pages * page_bytes);
        return Err(damaged(database, &message));
    }
    Ok(())
}

/// A crash in the middle of a checkpoint may leave the file short; every page that it lacks is then
/// still in the log.
fn wal_has_the_rest(wal: &Path, whole_pages: u64, pages: u64) -> bool {
    let found = wal_pages(wal).unwrap_or_default();
    (whole_pages + 1..=pages).all(|page| found.contains(&page))
}

/// Numbers of the pages in the current generation of the log.
fn wal_pages(wal: &Path) -> io::Result<HashSet<u64>> {
    let mut file = io::BufReader::new(File::open(wal)?);
    let mut header = [0; WAL_HEADER_BYTES];
    file.read_exact(&mut header)?;
    let (page_bytes, salts) = (big_endian(&header, 8), &header[16..24]);
    let mut pages = HashSet::new();
    let mut frame = [0; WAL_FRAME_HEADER_BYTES];
    while file.read_exact(&mut frame).is_ok() && &frame[8..16] == salts {
        pages.insert(u64::from(big_endian(&frame, 0)));
        file.seek(SeekFrom::Current(i64::from(page_bytes)))?;
    }
    Ok(pages)
}

fn big_endian(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn damaged(database: &Path, what: &str) -> StoreError {
    StoreError::Damaged { message: format!("{}: {what}", database.display()) }
}
