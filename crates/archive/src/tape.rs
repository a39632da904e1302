//! A tar stream read entry by entry, every length bounded before memory is taken.
//!
//! The `tar` crate decodes the fixed headers; the walk is ours, since the crate's own reads a long
//! name or a PAX record into memory however long the stream says it is.

use std::io::{self, Read};

use tar::{EntryType, Header};

use crate::error::{ArchiveError, of_stream};
use crate::sparse::{self, BLOCK, Run};

/// Long names, and PAX records with the attributes of one file. Linux bounds a path at 4096 bytes and
/// all attributes of a file at 64 KiB.
const MOST_EXTENSION_BYTES: u64 = 1 << 20;
/// More entries than any image has; each costs the host an inode.
const MOST_ENTRIES: u64 = 10_000_000;

/// What one entry asks for. Paths are as recorded: not checked.
#[derive(Debug)]
pub struct Entry {
    /// Not checked: may be absolute, lead upwards, or be nonsense.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, and what else the stream says.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
    /// Length of the file.
    pub bytes: u64,
    /// Where it has bytes, which follow in this order; `None`: everywhere.
    pub(crate) runs: Option<Vec<Run>>,
    /// Extended attributes, of every kind.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What an entry is; links with where they lead, as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Its bytes follow.
    File,
    /// Also one that an old writer made a file whose name ends with a slash.
    Directory,
    /// To a path, seen from where it is.
    Symlink(Vec<u8>),
    /// To the path of an earlier entry.
    HardLink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// Of either kind; which one is not kept.
    Device,
}

/// The stream, standing before a header or inside an entry's bytes.
#[derive(Debug)]
pub struct Tape<R> {
    source: R,
    /// Bytes of the current entry that were not read yet.
    left: u64,
    padding: u64,
    entries: u64,
}

/// What extension records say about the entry that follows them.
#[derive(Debug, Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<(i64, u32)>,
    bytes: Option<u64>,
    sparse: Sparse,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What GNU's records say of a sparse file; only form 1.0 is read, which GNU tar writes today.
#[derive(Debug, Default)]
struct Sparse {
    major: Option<Vec<u8>>,
    minor: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    length: Option<u64>,
}

impl<R: Read> Tape<R> {
    /// Reads from `source`, plain: not compressed.
    pub const fn new(source: R) -> Self {
        Self { source, left: 0, padding: 0, entries: 0 }
    }

    /// The next entry; what was not read of the one before is passed over. `None`: the end.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut extended = Extended::default();
        loop {
            self.pass_over()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(ArchiveError::damaged("it has more than ten million entries"));
            }
            let bytes = header.entry_size().map_err(of_stream)?;
            let kind = header.entry_type();
            if kind.is_gnu_longname() {
                extended.path = Some(without_end(self.extension(bytes)?));
            } else if kind.is_gnu_longlink() {
                extended.link = Some(without_end(self.extension(bytes)?));
            } else if kind.is_pax_local_extensions() {
                let record = self.extension(bytes)?;
                extended.read(&record)?;
            } else if kind.is_pax_global_extensions() {
                self.extension(bytes)?;
            } else {
                return self.entry(&header, kind, extended).map(Some);
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        kind: EntryType,
        mut extended: Extended,
    ) -> Result<Entry, ArchiveError> {
        let wrong = of_stream;
        let sparse = extended.sparse.length()?;
        let path = extended.sparse.name.take().or_else(|| extended.path.take());
        let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = || {
            let own = header.link_name_bytes().map(std::borrow::Cow::into_owned);
            extended.link.clone().or(own).unwrap_or_default()
        };
        let kind = match kind {
            EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink(link()),
            EntryType::Link => Kind::HardLink(link()),
            EntryType::Fifo => Kind::Fifo,
            EntryType::Char | EntryType::Block => Kind::Device,
            other => {
                return Err(ArchiveError::damaged(format!(
                    "it has an entry of the kind {other:?}"
                )));
            }
        };
        let recorded = match extended.bytes {
            Some(bytes) => bytes,
            None => header.entry_size().map_err(wrong)?,
        };
        // Some writers give links and directories a size and no bytes; tar says to read none.
        let stored = if kind == Kind::File { recorded } else { 0 };
        self.expect(stored);
        let (bytes, runs) = match sparse {
            Some(length) if kind == Kind::File => {
                (length, Some(sparse::decode(&mut self.by_ref(), stored, length)?))
            }
            _ => (stored, None),
        };
        let id = |recorded: io::Result<u64>| -> Result<u32, ArchiveError> {
            u32::try_from(recorded.map_err(wrong)?)
                .map_err(|_| ArchiveError::damaged("an owner is no id"))
        };
        let old = header.as_old();
        let mtime = filled(&old.mtime, || header.mtime()).map_err(wrong)?;
        let mtime = (i64::try_from(mtime).unwrap_or(0), 0);
        Ok(Entry {
            path,
            kind,
            mode: filled(&old.mode, || header.mode()).map_err(wrong)?,
            uid: extended.uid.map_or_else(|| id(filled(&old.uid, || header.uid())), Ok)?,
            gid: extended.gid.map_or_else(|| id(filled(&old.gid, || header.gid())), Ok)?,
            mtime: extended.mtime.unwrap_or(mtime),
            bytes,
            runs,
            attributes: extended.attributes,
        })
    }

    /// The next header whose checksum is right. `None`: a block of zeros, or the stream's end.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut block = [0; BLOCK];
        match read_block(&mut self.source, &mut block).map_err(of_stream)? {
            0 => return Ok(None),
            BLOCK => {}
            _ => return Err(ArchiveError::damaged("it is cut within a header")),
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut header = Header::new_old();
        header.as_mut_bytes().copy_from_slice(&block);
        // The sum is taken with its own field as spaces.
        let sum = |range: std::ops::Range<usize>| -> u32 {
            block[range].iter().map(|byte| u32::from(*byte)).sum()
        };
        let expected = sum(0..148) + sum(156..BLOCK) + 8 * 32;
        if header.cksum().map_err(of_stream)? != expected {
            return Err(ArchiveError::damaged("the checksum of a header is wrong"));
        }
        Ok(Some(header))
    }

    fn extension(&mut self, bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        if bytes > MOST_EXTENSION_BYTES {
            return Err(ArchiveError::damaged(
                "a name or an attribute record is longer than 1 MiB",
            ));
        }
        self.expect(bytes);
        let mut record = Vec::new();
        self.by_ref().take(bytes).read_to_end(&mut record).map_err(of_stream)?;
        if record.len() as u64 != bytes {
            return Err(ArchiveError::damaged("it is cut within a record"));
        }
        Ok(record)
    }

    const fn expect(&mut self, bytes: u64) {
        self.left = bytes;
        self.padding = (BLOCK as u64 - bytes % BLOCK as u64) % BLOCK as u64;
    }

    fn pass_over(&mut self) -> Result<(), ArchiveError> {
        let rest = self.left + self.padding;
        (self.left, self.padding) = (0, 0);
        let passed = io::copy(&mut self.source.by_ref().take(rest), &mut io::sink());
        if passed.map_err(of_stream)? != rest {
            return Err(ArchiveError::damaged("it is cut within a file"));
        }
        Ok(())
    }
}

/// The bytes of the current entry.
impl<R: Read> Read for Tape<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let read = self.source.read(&mut into[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

impl Sparse {
    /// The file's length when it is a sparse one.
    fn length(&self) -> Result<Option<u64>, ArchiveError> {
        match (self.major.as_deref(), self.minor.as_deref(), self.length) {
            (None, None, None) => Ok(None),
            (Some(b"1"), Some(b"0"), Some(length)) => Ok(Some(length)),
            _ => Err(ArchiveError::damaged("it has a sparse file in a form that is not read")),
        }
    }
}

impl Extended {
    /// `LENGTH KEY=VALUE\n`, one after the other; a value may hold any byte.
    fn read(&mut self, mut records: &[u8]) -> Result<(), ArchiveError> {
        let wrong = || ArchiveError::damaged("a record is not as it should be");
        while !records.is_empty() {
            let space = records.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let length: usize = number(&records[..space])?;
            if length <= space + 2 || length > records.len() {
                return Err(wrong());
            }
            let (record, rest) = records.split_at(length);
            let record = record[space + 1..].strip_suffix(b"\n").ok_or_else(wrong)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            self.take(&record[..equals], &record[equals + 1..])?;
            records = rest;
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"uid" => self.uid = Some(number(value)?),
            b"gid" => self.gid = Some(number(value)?),
            b"size" => self.bytes = Some(number(value)?),
            b"mtime" => self.mtime = Some(time(value)?),
            b"GNU.sparse.major" => self.sparse.major = Some(value.to_vec()),
            b"GNU.sparse.minor" => self.sparse.minor = Some(value.to_vec()),
            b"GNU.sparse.name" => self.sparse.name = Some(value.to_vec()),
            b"GNU.sparse.realsize" => self.sparse.length = Some(number(value)?),
            key if key.starts_with(b"GNU.sparse.") => {
                return Err(ArchiveError::damaged(
                    "it has a sparse file in a form that is not read",
                ));
            }
            key => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.attributes.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Result<T, ArchiveError> {
    let text = std::str::from_utf8(value).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| ArchiveError::damaged("a record holds no number"))
}

/// A field that a writer left empty is zero, as every reader takes it.
fn filled<T: Default>(field: &[u8], read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if field.iter().all(|byte| matches!(byte, 0 | b' ')) { Ok(T::default()) } else { read() }
}

/// Seconds, and nanoseconds counted forwards, of a decimal number.
fn time(value: &[u8]) -> Result<(i64, u32), ArchiveError> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = number(whole.as_bytes())?;
    let digits: String = part.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = number(digits.as_bytes())?;
    if whole.starts_with('-') && nanoseconds > 0 {
        return Ok((seconds.saturating_sub(1), 1_000_000_000 - nanoseconds));
    }
    Ok((seconds, nanoseconds))
}

/// GNU's long names end with a zero byte.
fn without_end(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = name.iter().position(|byte| *byte == 0) {
        name.truncate(end);
    }
    name
}

/// Fills the block as far as the stream goes.
fn read_block(source: &mut impl Read, block: &mut [u8; BLOCK]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < BLOCK {
        match source.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
