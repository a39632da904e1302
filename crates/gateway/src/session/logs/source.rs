//! One source's log on disk: segments that begin at their offset, the oldest dropped first.
//!
//! A hole (output dropped by the supervisor, or by a full disk) is a segment that begins later than
//! the one before it ends; nothing is written in its place, so offsets stay what they are.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;
use sandkeep_frames::log_entry::Entries;
use sandkeep_frames::message::LogData;

use super::name::Segment;

/// A segment is closed at this size; two of them are kept.
pub(super) const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// What one source may hold.
pub(super) const SOURCE_BYTES: u64 = 2 * SEGMENT_BYTES;

/// Segments that one source may hold: holes begin new ones, and files are not free.
const SEGMENTS: usize = 16;

/// Read at once when looking for a torn end; several largest entries.
const READ_BYTES: u64 = 256 * 1024;

/// What a file takes on a disk besides its bytes, about.
const FILE_BYTES: u64 = 4096;

/// One source.
#[derive(Debug, Default)]
pub(super) struct Source {
    name: String,
    life: u32,
    /// Oldest first; all lives.
    segments: Vec<Stored>,
    /// Offset up to which this life's log is known: written, or dropped.
    end: u64,
    /// The next bytes begin a segment of their own.
    split: bool,
    /// No more comes in this life.
    complete: bool,
    /// The end is on disk too.
    end_marked: bool,
    /// Written and not yet durable.
    file: Option<File>,
    /// How far the supervisor may begin in this session without it being another log.
    resumes: Resumes,
    /// When it was last written, by the shelf's own count.
    pub(super) touched: u64,
}

/// Where a supervisor may go on in a session. A lower offset is another log of the same name: what
/// it sent, or has acknowledged, it never sends again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Resumes {
    /// It knows nothing of what is here: only from its end.
    #[default]
    AtEnd,
    /// It offered the log: from anywhere, what is here is passed over.
    Anywhere,
    /// It has sent up to here in this session.
    From(u64),
}

#[derive(Debug)]
struct Stored {
    life: u32,
    start: u64,
    bytes: u64,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Appended {
    /// Bytes written.
    pub(super) bytes: u64,
    /// There is a new file, so the directory has to be made durable too.
    pub(super) new_file: bool,
}

impl Source {
    /// Nothing is there.
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// A segment found on disk; called in order of life and offset. Only the newest may be torn by
    /// a crash: what is no whole entry at its end is cut off.
    pub(super) fn found(&mut self, life: u32, start: u64, bytes: u64) {
        self.life = life;
        self.end = start.saturating_add(bytes);
        self.segments.push(Stored { life, start, bytes });
    }

    /// Cuts a torn entry off the newest segment, after all were found.
    pub(super) fn mend(&mut self, directory: &Path) -> io::Result<()> {
        let Some(last) = self.segments.last_mut() else {
            return Ok(());
        };
        let segment = Segment { source: self.name.clone(), life: last.life, offset: last.start };
        let path = directory.join(segment.log_name());
        let whole = whole_bytes(&File::open(&path)?)?;
        if whole < last.bytes {
            OpenOptions::new().write(true).open(&path)?.set_len(whole)?;
            last.bytes = whole;
        }
        self.end = last.start.saturating_add(whole);
        Ok(())
    }

    /// The mark of a complete life, found on disk.
    pub(super) fn found_end(&mut self, life: u32, end: u64) {
        if life >= self.life {
            self.life = life;
            self.end = self.end.max(end);
            self.complete = true;
            self.end_marked = true;
        }
    }

    /// Offset up to which this life is known.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// No more comes in this life, and the disk does not say so yet.
    pub(super) fn needs_mark(&self) -> bool {
        self.complete && !self.end_marked
    }

    /// Bytes on disk, files counted.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|stored| stored.bytes + FILE_BYTES).sum()
    }

    /// A session begins in which the supervisor offers the log up to `offered`, or not at all.
    pub(super) fn begin_session(&mut self, directory: &Path, offered: Option<u64>) {
        self.resumes = match offered {
            Some(_) => Resumes::Anywhere,
            None => Resumes::AtEnd,
        };
        if offered.is_some_and(|to| to < self.end) {
            self.begin_anew(directory);
        }
    }

    /// The supervisor knows nothing of this log any more and begins it anew.
    fn begin_anew(&mut self, directory: &Path) {
        if self.end == 0 && !self.complete {
            return;
        }
        self.unmark_end(directory);
        self.life = self.life.saturating_add(1);
        self.end = 0;
        self.split = true;
        self.complete = false;
        self.file = None;
    }

    /// Takes a stretch. What is there already is left out, what is no entry becomes a hole. An
    /// error is a full or broken disk: the stretch becomes a hole too.
    pub(super) fn append(&mut self, directory: &Path, data: &LogData) -> io::Result<Appended> {
        let mut entries = data.entries.clone();
        let Some(end) = data.offset.checked_add(entries.len() as u64) else {
            return Ok(Appended::default());
        };
        let is_another = match self.resumes {
            Resumes::AtEnd => data.offset < self.end,
            Resumes::Anywhere => false,
            Resumes::From(sent) => data.offset < sent,
        };
        if is_another {
            self.begin_anew(directory);
        }
        self.resumes = Resumes::From(end);
        let known = self.end.saturating_sub(data.offset);
        let skip = usize::try_from(known).unwrap_or(usize::MAX).min(entries.len());
        drop(entries.split_to(skip));
        if self.complete && end > self.end {
            // It was called complete too early (another execution of the same run).
            self.unmark_end(directory);
            self.complete = false;
        }
        let start = data.offset.max(self.end);
        self.split |= start > self.end;
        let mut whole = Entries::new(entries.clone());
        while let Some(Ok(_)) = whole.next() {}
        let good = entries.slice(..whole.consumed());

        let written = self.write(directory, start, &good);
        self.end = self.end.max(end);
        self.split |= good.len() < entries.len() || written.is_err();
        written
    }

    /// Nothing follows in this life.
    pub(super) fn completed(&mut self) {
        self.complete = true;
    }

    /// Puts the end on disk once it is known. True: there is a new file.
    pub(super) fn mark_end(&mut self, directory: &Path) -> io::Result<bool> {
        if !self.needs_mark() {
            return Ok(false);
        }
        drop(File::create(directory.join(self.at(self.end).end_name()))?);
        self.end_marked = true;
        Ok(true)
    }

    /// Makes what was written durable, and closes the file: at rest no file is open.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        // After a failure nobody knows what is on disk: nothing is added to that file.
        file.sync_data().inspect_err(|_| self.split = true)
    }

    /// Drops the oldest segments over the bounds. The newest stays.
    pub(super) fn trim(&mut self, directory: &Path) {
        while self.segments.len() > 1
            && (self.segments.len() > SEGMENTS || self.bytes() > SOURCE_BYTES + FILE_BYTES * 4)
        {
            let oldest = self.segments.remove(0);
            let name =
                Segment { source: self.name.clone(), life: oldest.life, offset: oldest.start };
            remove(&directory.join(name.log_name()));
        }
    }

    /// Removes all its files.
    pub(super) fn discard(mut self, directory: &Path) {
        for stored in &self.segments {
            let (source, life) = (self.name.clone(), stored.life);
            let segment = Segment { source, life, offset: stored.start };
            remove(&directory.join(segment.log_name()));
        }
        self.unmark_end(directory);
    }

    fn unmark_end(&mut self, directory: &Path) {
        if std::mem::take(&mut self.end_marked) {
            remove(&directory.join(self.at(self.end).end_name()));
        }
    }

    fn at(&self, offset: u64) -> Segment {
        Segment { source: self.name.clone(), life: self.life, offset }
    }

    fn write(&mut self, directory: &Path, start: u64, bytes: &Bytes) -> io::Result<Appended> {
        if bytes.is_empty() {
            return Ok(Appended::default());
        }
        let new_file = self.split
            || self.segments.last().is_none_or(|last| {
                last.life != self.life || last.bytes + bytes.len() as u64 > SEGMENT_BYTES
            });
        if new_file {
            self.sync()?;
            let file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .open(directory.join(self.at(start).log_name()))?;
            self.file = Some(file);
            self.segments.push(Stored { life: self.life, start, bytes: 0 });
            self.split = false;
        }
        let Some(last) = self.segments.last_mut() else {
            return Ok(Appended::default());
        };
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let segment =
                    Segment { source: self.name.clone(), life: last.life, offset: last.start };
                let path = directory.join(segment.log_name());
                self.file.insert(OpenOptions::new().append(true).open(path)?)
            }
        };
        if let Err(error) = file.write_all(bytes) {
            // Half an entry would make all that follows unreadable.
            file.set_len(last.bytes)?;
            return Err(error);
        }
        last.bytes += bytes.len() as u64;
        self.trim(directory);
        Ok(Appended { bytes: bytes.len() as u64, new_file })
    }
}

/// Removes a file whose absence is as good; what stays on a broken disk is found again.
pub(super) fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "an old log cannot be removed");
    }
}

/// Bytes of whole entries at the beginning of a file.
fn whole_bytes(file: &File) -> io::Result<u64> {
    let mut whole = 0;
    let mut rest = Vec::new();
    loop {
        let taken = file.take(READ_BYTES).read_to_end(&mut rest)?;
        let bytes = Bytes::from(rest);
        let mut entries = Entries::new(bytes.clone());
        let broken = entries.by_ref().any(|entry| entry.is_err());
        whole += entries.consumed() as u64;
        if taken == 0 || broken {
            return Ok(whole);
        }
        rest = bytes[entries.consumed()..].to_vec();
    }
}
