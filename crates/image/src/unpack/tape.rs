//! A tar stream read entry by entry, every length bounded before memory is taken.
//!
//! The `tar` crate decodes the fixed headers; the walk is ours, since the crate's own reads a long
//! name or a PAX record into memory however long the stream says it is.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::stream::unreadable;
use crate::error::ImageError;

const BLOCK: usize = 512;
/// Long names, and PAX records with the attributes of one file. Linux bounds a path at 4096 bytes and
/// all attributes of a file at 64 KiB.
const MOST_EXTENSION_BYTES: u64 = 1 << 20;
/// More entries than any image has; each costs the host an inode.
const MOST_ENTRIES: u64 = 10_000_000;

/// What one entry asks for. Paths are as recorded: not checked.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Seconds since 1970.
    pub(super) mtime: i64,
    /// Bytes that follow, to be read from the tape.
    pub(super) bytes: u64,
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
    Fifo,
    Device,
}

/// The stream, standing before a header or inside an entry's bytes.
pub(crate) struct Tape<R> {
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
    mtime: Option<i64>,
    bytes: Option<u64>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<R: Read> Tape<R> {
    pub(crate) const fn new(source: R) -> Self {
        Self { source, left: 0, padding: 0, entries: 0 }
    }

    /// The next entry; what was not read of the one before is passed over. `None`: the end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, ImageError> {
        let mut extended = Extended::default();
        loop {
            self.pass_over()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(damaged("it has more than ten million entries"));
            }
            let bytes = header.entry_size().map_err(|error| unreadable(&error))?;
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
        extended: Extended,
    ) -> Result<Entry, ImageError> {
        let wrong = |error: io::Error| unreadable(&error);
        let path = extended.path.unwrap_or_else(|| header.path_bytes().into_owned());
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
            other => return Err(damaged(&format!("it has an entry of the kind {other:?}"))),
        };
        let recorded = match extended.bytes {
            Some(bytes) => bytes,
            None => header.entry_size().map_err(wrong)?,
        };
        // Some writers give links and directories a size and no bytes; tar says to read none.
        let bytes = if kind == Kind::File { recorded } else { 0 };
        self.expect(bytes);
        let id = |recorded: io::Result<u64>| -> Result<u32, ImageError> {
            u32::try_from(recorded.map_err(wrong)?).map_err(|_| damaged("an owner is no id"))
        };
        let old = header.as_old();
        let mtime = filled(&old.mtime, || header.mtime()).map_err(wrong)?;
        let mtime = i64::try_from(mtime).unwrap_or(0);
        Ok(Entry {
            path,
            kind,
            mode: filled(&old.mode, || header.mode()).map_err(wrong)?,
            uid: extended.uid.map_or_else(|| id(filled(&old.uid, || header.uid())), Ok)?,
            gid: extended.gid.map_or_else(|| id(filled(&old.gid, || header.gid())), Ok)?,
            mtime: extended.mtime.unwrap_or(mtime),
            bytes,
            attributes: extended.attributes,
        })
    }

    /// The next header whose checksum is right. `None`: a block of zeros, or the stream's end.
    fn header(&mut self) -> Result<Option<Header>, ImageError> {
        let mut block = [0; BLOCK];
        match read_block(&mut self.source, &mut block).map_err(|error| unreadable(&error))? {
            0 => return Ok(None),
            BLOCK => {}
            _ => return Err(damaged("it is cut within a header")),
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
        if header.cksum().map_err(|error| unreadable(&error))? != expected {
            return Err(damaged("the checksum of a header is wrong"));
        }
        Ok(Some(header))
    }

    fn extension(&mut self, bytes: u64) -> Result<Vec<u8>, ImageError> {
        if bytes > MOST_EXTENSION_BYTES {
            return Err(damaged("a name or an attribute record is longer than 1 MiB"));
        }
        self.expect(bytes);
        let mut record = Vec::new();
        self.by_ref().take(bytes).read_to_end(&mut record).map_err(|error| unreadable(&error))?;
        if record.len() as u64 != bytes {
            return Err(damaged("it is cut within a record"));
        }
        Ok(record)
    }

    const fn expect(&mut self, bytes: u64) {
        self.left = bytes;
        self.padding = (BLOCK as u64 - bytes % BLOCK as u64) % BLOCK as u64;
    }

    fn pass_over(&mut self) -> Result<(), ImageError> {
        let rest = self.left + self.padding;
        (self.left, self.padding) = (0, 0);
        let passed = io::copy(&mut self.source.by_ref().take(rest), &mut io::sink());
        if passed.map_err(|error| unreadable(&error))? != rest {
            return Err(damaged("it is cut within a file"));
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

impl Extended {
    fn read(&mut self, record: &[u8]) -> Result<(), ImageError> {
        for extension in tar::PaxExtensions::new(record) {
            let extension = extension.map_err(|error| unreadable(&error))?;
            let value = extension.value_bytes();
            match extension.key_bytes() {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"uid" => self.uid = Some(number(value)?),
                b"gid" => self.gid = Some(number(value)?),
                b"size" => self.bytes = Some(number(value)?),
                b"mtime" => self.mtime = Some(seconds(value)?),
                key => {
                    if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                        self.attributes.push((name.to_vec(), value.to_vec()));
                    } else if key.starts_with(b"GNU.sparse.") {
                        return Err(damaged("it has a sparse file in GNU's form"));
                    }
                }
            }
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Result<T, ImageError> {
    let text = std::str::from_utf8(value).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| damaged("a record holds no number"))
}

/// A field that a writer left empty is zero, as every reader takes it.
fn filled<T: Default>(field: &[u8], read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if field.iter().all(|byte| matches!(byte, 0 | b' ')) { Ok(T::default()) } else { read() }
}

/// Whole seconds of a decimal number; fractions are dropped.
fn seconds(value: &[u8]) -> Result<i64, ImageError> {
    let whole = value.split(|byte| *byte == b'.').next().unwrap_or_default();
    number(whole)
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

pub(super) fn damaged(what: &str) -> ImageError {
    ImageError::invalid("InvalidArchive", format!("an archive cannot be unpacked: {what}"))
}
