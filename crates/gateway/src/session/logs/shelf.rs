//! All logs of one sandbox on disk: which sources there are, what each life of a supervisor goes on
//! with, and what has to go when there is too much.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandkeep_frames::message::{LogAck, LogData, LogOffer};

use super::name::{FileName, boot_name, parse};
use super::source::{Appended, Source, remove};
use crate::session::process::is_exec_id;

/// What all logs of one sandbox may hold.
const SANDBOX_BYTES: u64 = 64 * 1024 * 1024;

/// Sources that one sandbox may have.
const SOURCES: usize = 1024;

/// Whether the directory is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    NotKnown,
    /// Its name may be lost with the machine.
    Volatile,
    Durable,
}

/// The logs of one sandbox.
#[derive(Debug)]
pub(super) struct Shelf {
    directory: PathBuf,
    sources: BTreeMap<String, Source>,
    /// The PID 1 that wrote last; `None`: not known.
    boot: Option<u64>,
    /// Counts writes, for the order of age.
    writes: u64,
    /// The directory has names that are not durable yet.
    new_names: bool,
    /// The directory is known to be there, and durably so.
    made: Made,
    /// The file that names `boot`; `None`: not there yet.
    boot_marked: Option<u64>,
}

impl Shelf {
    /// What is on disk; a directory that is not there holds nothing.
    pub(super) fn load(directory: PathBuf) -> io::Result<Self> {
        let mut shelf = Self {
            directory,
            sources: BTreeMap::new(),
            boot: None,
            writes: 0,
            new_names: false,
            made: Made::NotKnown,
            boot_marked: None,
        };
        let (mut segments, mut ends) = (Vec::new(), Vec::new());
        let listed = match fs::read_dir(&shelf.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(shelf),
            listed => listed?,
        };
        for entry in listed {
            let entry = entry?;
            match entry.file_name().to_str().and_then(parse) {
                Some(FileName::Segment(segment)) => {
                    let facts = entry.metadata()?;
                    segments.push((segment, facts.len(), facts.modified()?));
                }
                Some(FileName::End(end)) => ends.push(end),
                Some(FileName::Boot(nonce)) => {
                    shelf.boot = Some(nonce);
                    shelf.boot_marked = Some(nonce);
                }
                None => {}
            }
        }
        // By age, so that the oldest source is the first to go.
        segments.sort_by(|(a, _, a_at), (b, _, b_at)| (a_at, a).cmp(&(b_at, b)));
        for (segment, _, _) in &segments {
            shelf.writes += 1;
            shelf.source(&segment.source).touched = shelf.writes;
        }
        segments.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        for (segment, bytes, _) in segments {
            let source = shelf.source(&segment.source);
            source.found(segment.life, segment.offset, bytes);
        }
        for source in shelf.sources.values_mut() {
            source.mend(&shelf.directory)?;
        }
        for end in ends {
            shelf.source(&end.source).found_end(end.life, end.offset);
        }
        Ok(shelf)
    }

    /// What a supervisor has to offer at the beginning of a session; gives what is here of it.
    pub(super) fn offered(&mut self, nonce: u64, offers: &[LogOffer]) -> Vec<LogAck> {
        if self.boot != Some(nonce) {
            self.new_boot(nonce, offers);
        }
        let offered: BTreeMap<&str, u64> =
            offers.iter().map(|offer| (offer.source.as_str(), offer.to)).collect();
        let mut have = Vec::new();
        for (name, source) in &mut self.sources {
            let offered = offered.get(name.as_str()).copied();
            source.begin_session(&self.directory, offered);
            if offered.is_some() {
                have.push(LogAck { source: name.clone(), offset: source.end() });
            }
        }
        have
    }

    /// Another PID 1 than before: what it does not know of, nobody writes any more.
    fn new_boot(&mut self, nonce: u64, offers: &[LogOffer]) {
        for (name, source) in &mut self.sources {
            if !offers.iter().any(|offer| offer.source == *name) {
                source.completed();
            }
        }
        // Marked on disk with the first bytes: a session that only begins writes nothing.
        self.boot = Some(nonce);
    }

    /// Takes a stretch of a log. An error is a full or broken disk; the stretch is dropped then.
    pub(super) fn append(&mut self, data: &LogData) -> io::Result<Appended> {
        if !is_exec_id(&data.source) {
            return Ok(Appended::default());
        }
        let made = self.make();
        self.writes += 1;
        let writes = self.writes;
        let directory = self.directory.clone();
        let source = self.source(&data.source);
        source.touched = writes;
        let appended = source.append(&directory, data);
        if data.complete {
            source.completed();
        }
        self.trim(&data.source);
        made?;
        let appended = appended?;
        self.new_names |= appended.new_file;
        Ok(appended)
    }

    /// Makes these sources durable; gives the offsets that now are. One that could not be is left
    /// out: it is tried again with its next bytes, or offered again in the next session.
    pub(super) fn sync<'a>(&mut self, names: impl Iterator<Item = &'a String>) -> Vec<LogAck> {
        let mut acks = Vec::new();
        for name in names {
            let Some(source) = self.sources.get_mut(name) else { continue };
            match source.sync() {
                Ok(()) => acks.push(LogAck { source: name.clone(), offset: source.end() }),
                Err(error) => self.complain(name, &error),
            }
        }
        if let Err(error) = self.mark_boot() {
            self.complain("boot", &error);
        }
        for name in self.unmarked() {
            let Some(source) = self.sources.get_mut(&name) else { continue };
            match source.mark_end(&self.directory) {
                Ok(new_name) => self.new_names |= new_name,
                Err(error) => self.complain(&name, &error),
            }
        }
        if let Err(error) = self.sync_names() {
            self.complain("all", &error);
            return Vec::new();
        }
        acks
    }

    /// Names of files, and of the directory itself.
    fn sync_names(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.new_names) {
            fs::File::open(&self.directory)?.sync_all()?;
        }
        if self.made == Made::Volatile {
            if let Some(parent) = self.directory.parent() {
                fs::File::open(parent)?.sync_all()?;
            }
            self.made = Made::Durable;
        }
        Ok(())
    }

    /// Puts the PID 1 on disk. Without it the next gateway process takes the same PID 1 for a new
    /// one, and then believes its offers alone.
    fn mark_boot(&mut self) -> io::Result<()> {
        let Some(nonce) = self.boot.filter(|_| self.boot != self.boot_marked) else {
            return Ok(());
        };
        if let Some(old) = self.boot_marked.take() {
            remove(&self.directory.join(boot_name(old)));
        }
        drop(fs::File::create(self.directory.join(boot_name(nonce)))?);
        self.boot_marked = Some(nonce);
        self.new_names = true;
        Ok(())
    }

    fn complain(&self, source: &str, error: &io::Error) {
        let directory = self.directory.display();
        tracing::warn!(%directory, source, %error, "a log cannot be made durable");
    }

    /// Sources of which nothing more comes, and that are not marked so on disk.
    pub(super) fn unmarked(&self) -> Vec<String> {
        let unmarked = self.sources.iter().filter(|(_, source)| source.needs_mark());
        unmarked.map(|(name, _)| name.clone()).collect()
    }

    fn make(&mut self) -> io::Result<()> {
        if self.made == Made::NotKnown {
            fs::create_dir_all(&self.directory)?;
            self.made = Made::Volatile;
        }
        Ok(())
    }

    fn source(&mut self, name: &str) -> &mut Source {
        self.sources.entry(name.to_owned()).or_insert_with(|| Source::new(name))
    }

    /// Drops whole sources, oldest first, while there is too much. `newest` stays.
    fn trim(&mut self, newest: &str) {
        while self.sources.len() > 1
            && (self.sources.len() > SOURCES
                || self.sources.values().map(Source::bytes).sum::<u64>() > SANDBOX_BYTES)
        {
            let oldest = self.sources.iter().filter(|(name, _)| *name != newest);
            let Some(name) =
                oldest.min_by_key(|(_, source)| source.touched).map(|(n, _)| n.clone())
            else {
                return;
            };
            if let Some(source) = self.sources.remove(&name) {
                source.discard(&self.directory);
            }
        }
    }
}

/// Removes everything of a sandbox.
pub(super) fn discard(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
