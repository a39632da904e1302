//! Reading a log from disk, whether or not anybody writes it at the same time.
//!
//! A reader knows a place (life, offset) and looks for the segment that goes on from there. It
//! holds one open file and one read, so a client that stalls costs nothing more, and a segment that
//! is dropped under it is read to its end.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sandkeep_frames::log_entry::{Entries, FD_GAP, LogEntry};

use super::name::{FileName, Segment, main_run, parse};

/// Read at once.
const READ_BYTES: u64 = 256 * 1024;

/// The files of one source, in order.
#[derive(Debug, Default)]
pub(super) struct Listing {
    segments: Vec<Segment>,
    ends: Vec<Segment>,
    /// There is a main command of a later run, so this one's log gets no more.
    superseded: bool,
}

/// Names of the sources in a directory, sorted; one that is not there has none.
pub(super) fn sources(directory: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = files(directory)?
        .into_iter()
        .filter_map(|file| match file {
            FileName::Segment(place) | FileName::End(place) => Some(place.source),
            FileName::Boot(_) => None,
        })
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The main command's newest run that has a log.
pub(super) fn newest_main(directory: &Path) -> io::Result<Option<String>> {
    let newest = sources(directory)?.into_iter().filter_map(|name| Some((main_run(&name)?, name)));
    Ok(newest.max().map(|(_, name)| name))
}

fn files(directory: &Path) -> io::Result<Vec<FileName>> {
    let listed = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut found = Vec::new();
    for entry in listed {
        found.extend(entry?.file_name().to_str().and_then(parse));
    }
    Ok(found)
}

impl Listing {
    fn of(directory: &Path, source: &str) -> io::Result<Self> {
        let mut listing = Self::default();
        let run = main_run(source);
        for file in files(directory)? {
            match file {
                FileName::Segment(segment) if segment.source == source => {
                    listing.segments.push(segment);
                }
                FileName::End(end) if end.source == source => listing.ends.push(end),
                FileName::Segment(other) => {
                    listing.superseded |= run.is_some() && main_run(&other.source) > run;
                }
                FileName::End(_) | FileName::Boot(_) => {}
            }
        }
        listing.segments.sort();
        Ok(listing)
    }

    /// The first segment that begins after the one at `current`.
    fn after(&self, current: Option<&Segment>) -> Option<&Segment> {
        self.segments.iter().find(|segment| current.is_none_or(|current| *segment > current))
    }

    /// No segment follows now: whether one may.
    fn prospect(&self, life: u32) -> More {
        if self.superseded {
            More::Never
        } else if self.ends.iter().any(|end| end.life >= life) {
            More::Ended
        } else {
            More::Later
        }
    }
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    /// Entries; perhaps more follow at once.
    Entries,
    /// Nothing now; it may come.
    Later,
    /// Nothing now: its writer has ended. The next execution of the same run may go on with it.
    Ended,
    /// Nothing ever: a later run has a log of its own.
    Never,
}

/// A place in a source's log.
#[derive(Debug)]
pub(super) struct Reader {
    directory: PathBuf,
    source: String,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    segment: Segment,
    file: File,
    /// Bytes of whole entries read of it.
    read: u64,
}

impl Reader {
    /// At the beginning of what is kept.
    pub(super) fn new(directory: PathBuf, source: String) -> Self {
        Self { directory, source, open: None }
    }

    /// Reads on; entries are appended to `into`. Blocks for the disk only.
    pub(super) fn read(&mut self, into: &mut VecDeque<LogEntry>) -> io::Result<More> {
        if self.read_open(into)? {
            return Ok(More::Entries);
        }
        // Looked for before the last read of the open file: if another segment follows now, then
        // after that read this one has been read to its end.
        let listing = Listing::of(&self.directory, &self.source)?;
        if self.read_open(into)? {
            return Ok(More::Entries);
        }
        let current = self.open.as_ref().map(|open| &open.segment);
        let Some(next) = listing.after(current).cloned() else {
            let life = current.map_or(0, |segment| segment.life);
            return Ok(listing.prospect(life));
        };
        self.gap_before(&next, into);
        match File::open(self.directory.join(next.log_name())) {
            Ok(file) => self.open = Some(Open { segment: next, file, read: 0 }),
            // Dropped for newer ones between the look and now: look again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(More::Entries)
    }

    /// True: there were entries.
    fn read_open(&mut self, into: &mut VecDeque<LogEntry>) -> io::Result<bool> {
        let Some(open) = &mut self.open else {
            return Ok(false);
        };
        let mut bytes = Vec::new();
        open.file.seek(SeekFrom::Start(open.read))?;
        (&open.file).take(READ_BYTES).read_to_end(&mut bytes)?;
        let mut entries = Entries::new(Bytes::from(bytes));
        // What is no entry was written by nobody here; what follows begins a new segment.
        into.extend(entries.by_ref().map_while(Result::ok));
        open.read += entries.consumed() as u64;
        Ok(entries.consumed() > 0)
    }

    /// Bytes that are missing between the open segment and the next show as an entry.
    fn gap_before(&self, next: &Segment, into: &mut VecDeque<LogEntry>) {
        let (life, end) = self
            .open
            .as_ref()
            .map_or((next.life, 0), |open| (open.segment.life, open.segment.offset + open.read));
        let missing = if life == next.life { next.offset.saturating_sub(end) } else { 0 };
        if missing > 0 {
            let bytes = Bytes::from(missing.to_string());
            into.push_back(LogEntry { fd: FD_GAP, time_ms: 0, bytes });
        }
    }
}
