//! One entry's header as bytes; what does not fit the old form goes into a PAX record before it.

use tar::{EntryType, Header};

use crate::error::ArchiveError;
use crate::tape::{Entry, Kind};

/// What the fixed fields hold.
const NAME_BYTES: usize = 100;
const OCTAL_11: u64 = 0o77_777_777_777;
const OCTAL_7: u32 = 0o7_777_777;

/// The header's blocks, records included. `stored`: bytes that follow in the stream, where that is
/// not the file's length (a sparse one's map and runs).
pub(crate) fn encode(entry: &Entry, stored: Option<u64>) -> Result<Vec<u8>, ArchiveError> {
    let mut records = Records(Vec::new());
    let mut header = Header::new_ustar();
    let (kind, link) = match &entry.kind {
        Kind::File => (EntryType::Regular, None),
        Kind::Directory => (EntryType::Directory, None),
        Kind::Symlink(target) => (EntryType::Symlink, Some(target)),
        Kind::HardLink(target) => (EntryType::Link, Some(target)),
        Kind::Fifo => (EntryType::Fifo, None),
        Kind::Device => return Err(ArchiveError::damaged("devices are not packed")),
    };
    header.set_entry_type(kind);
    header.set_mode(entry.mode & 0o7777);

    if let Some(stored) = stored {
        records.add("GNU.sparse.major", b"1");
        records.add("GNU.sparse.minor", b"0");
        records.add("GNU.sparse.name", &entry.path);
        records.add("GNU.sparse.realsize", entry.bytes.to_string().as_bytes());
        header.set_size(fitting(&mut records, "size", stored));
    } else {
        header.set_size(fitting(&mut records, "size", entry.bytes));
    }
    name(&mut header.as_old_mut().name, &mut records, "path", &entry.path);
    if let Some(link) = link {
        name(&mut header.as_old_mut().linkname, &mut records, "linkpath", link);
    }
    header.set_uid(u64::from(id(&mut records, "uid", entry.uid)));
    header.set_gid(u64::from(id(&mut records, "gid", entry.gid)));
    let (seconds, nanoseconds) = entry.mtime;
    match u64::try_from(seconds) {
        Ok(seconds) if nanoseconds == 0 && seconds <= OCTAL_11 => header.set_mtime(seconds),
        _ => {
            header.set_mtime(0);
            records.add("mtime", decimal(seconds, nanoseconds).as_bytes());
        }
    }
    for (key, value) in &entry.attributes {
        records.add_bytes(&[b"SCHILY.xattr.", key.as_slice()].concat(), value);
    }
    header.set_cksum();

    let mut blocks = records.blocks()?;
    blocks.extend_from_slice(header.as_bytes());
    Ok(blocks)
}

/// A time as PAX writes it. Before 1970 the fraction still counts forwards in `(seconds, nanos)`
/// and backwards in decimals.
fn decimal(seconds: i64, nanoseconds: u32) -> String {
    if seconds >= 0 || nanoseconds == 0 {
        return format!("{seconds}.{nanoseconds:09}");
    }
    let (whole, part) = (-(seconds + 1), 1_000_000_000 - nanoseconds);
    format!("-{whole}.{part:09}")
}

fn fitting(records: &mut Records, key: &str, value: u64) -> u64 {
    if value <= OCTAL_11 {
        return value;
    }
    records.add(key, value.to_string().as_bytes());
    0
}

fn id(records: &mut Records, key: &str, value: u32) -> u32 {
    if value <= OCTAL_7 {
        return value;
    }
    records.add(key, value.to_string().as_bytes());
    0
}

fn name(field: &mut [u8; NAME_BYTES], records: &mut Records, key: &str, name: &[u8]) {
    let fits = name.len() <= NAME_BYTES;
    if !fits {
        records.add(key, name);
    }
    let shown = &name[..name.len().min(NAME_BYTES)];
    field[..shown.len()].copy_from_slice(shown);
}

/// `LENGTH KEY=VALUE\n`, the length counting itself.
struct Records(Vec<u8>);

impl Records {
    fn add(&mut self, key: &str, value: &[u8]) {
        self.add_bytes(key.as_bytes(), value);
    }

    fn add_bytes(&mut self, key: &[u8], value: &[u8]) {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        self.0.extend_from_slice(format!("{length} ").as_bytes());
        self.0.extend_from_slice(key);
        self.0.push(b'=');
        self.0.extend_from_slice(value);
        self.0.push(b'\n');
    }

    fn blocks(self) -> Result<Vec<u8>, ArchiveError> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..10].copy_from_slice(b"PaxHeaders");
        header.set_entry_type(EntryType::XHeader);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(self.0.len() as u64);
        header.set_cksum();
        let mut blocks = header.as_bytes().to_vec();
        blocks.extend_from_slice(&self.0);
        blocks.resize(blocks.len().next_multiple_of(512), 0);
        Ok(blocks)
    }
}
