//! Holes of a file: GNU's sparse form 1.0, which keeps the map in front of the bytes.
//!
//! The map is decimal lines, padded to a block: how many runs, then each run's offset and length.

use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::error::{ArchiveError, of_stream};

pub(crate) const BLOCK: usize = 512;
/// More runs than a file of sense has; each costs 40 bytes of memory.
const MOST_RUNS: usize = 1 << 20;

/// Bytes that are there, from `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Where a file of `length` bytes has bytes. `None`: everywhere, or the file system cannot say.
pub(crate) fn runs(file: &File, length: u64) -> io::Result<Option<Vec<Run>>> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // A hole to the end.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::NOTSUP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if start >= length {
            break;
        }
        let end = seek(file, SeekFrom::Hole(start))?.min(length);
        runs.push(Run { offset: start, bytes: end - start });
        if runs.len() > MOST_RUNS {
            return Ok(None);
        }
        at = end;
    }
    seek(file, SeekFrom::Start(0))?;
    // GNU tar makes a file as long as its last run says, so a hole at the end ends in an empty one.
    if runs.last().is_none_or(|last| last.offset + last.bytes < length) {
        runs.push(Run { offset: length, bytes: 0 });
    }
    let whole = matches!(runs[..], [Run { offset: 0, bytes }] if bytes == length);
    Ok(if whole || length == 0 { None } else { Some(runs) })
}

/// The map as it stands before the bytes.
pub(crate) fn encode(runs: &[Run]) -> Vec<u8> {
    let mut map = format!("{}\n", runs.len());
    for run in runs {
        map.push_str(&format!("{}\n{}\n", run.offset, run.bytes));
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// Reads a map and checks that it makes a file of `length` bytes out of `bytes` of stream.
/// Gives the runs and what is left of the stream's bytes for them.
pub(crate) fn decode(
    source: &mut impl Read,
    bytes: u64,
    length: u64,
) -> Result<Vec<Run>, ArchiveError> {
    let mut lines = Lines { source, block: [0; BLOCK], at: BLOCK, blocks: 0 };
    let count = lines.number()?;
    if count > MOST_RUNS as u64 {
        return Err(ArchiveError::damaged("a file has more than a million holes"));
    }
    let mut runs = Vec::new();
    let (mut end, mut sum) = (0, 0_u64);
    for _ in 0..count {
        let run = Run { offset: lines.number()?, bytes: lines.number()? };
        let next = run.offset.checked_add(run.bytes);
        let Some(next) = next.filter(|next| run.offset >= end && *next <= length) else {
            return Err(ArchiveError::damaged("the map of a file's holes makes no sense"));
        };
        end = next;
        sum += run.bytes;
        runs.push(run);
    }
    if lines.blocks * BLOCK as u64 + sum != bytes {
        return Err(ArchiveError::damaged("the map of a file's holes does not fit its bytes"));
    }
    Ok(runs)
}

/// Decimal lines out of whole blocks.
struct Lines<'a, R> {
    source: &'a mut R,
    block: [u8; BLOCK],
    at: usize,
    blocks: u64,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> Result<u64, ArchiveError> {
        let wrong = || ArchiveError::damaged("the map of a file's holes holds no number");
        let mut number: Option<u64> = None;
        loop {
            if self.at == BLOCK {
                self.source.read_exact(&mut self.block).map_err(of_stream)?;
                (self.at, self.blocks) = (0, self.blocks + 1);
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => return number.ok_or_else(wrong),
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    let next = number.unwrap_or(0).checked_mul(10);
                    number = Some(next.and_then(|n| n.checked_add(digit)).ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
    }
}
