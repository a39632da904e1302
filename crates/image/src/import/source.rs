//! The files of an archive or of a directory, by the path that documents in it use.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use sandkeep_archive::{Kind, Room, Tape};
use tempfile::TempDir;

use crate::config::MAX_DOCUMENT_BYTES;
use crate::error::{ErrorKind, ImageError, While};
use crate::unpack::{KEPT_FREE_BYTES, Stream};

/// More files than any archive of images has: each layer makes three at most.
const MOST_FILES: usize = 100_000;
const DOING: &str = "the file of the image could not be read";

#[derive(Debug)]
pub(super) enum Source {
    /// An archive, spread; dropped, it is gone.
    Spread {
        directory: TempDir,
        /// Number of the file of each path.
        files: HashMap<String, usize>,
    },
    Directory(OwnedFd),
}

impl Source {
    /// Opens `path`; an archive is spread into a directory of its own below `staging`.
    pub(super) fn open(path: &Path, staging: &Path) -> Result<Self, ImageError> {
        let about = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ImageError {
                kind: ErrorKind::NotFound,
                reason: "FileNotFound",
                message: format!("there is no file {}", path.display()),
            },
            _ => ImageError::io(DOING, &error),
        })?;
        let file = File::open(path).when(DOING)?;
        if about.is_dir() {
            return Ok(Self::Directory(file.into()));
        }
        spread(file, staging)
    }

    /// Opens one file. Nothing outside the archive or directory is ever opened.
    pub(super) fn file(&self, path: &str) -> Result<File, ImageError> {
        let missing =
            || ImageError::invalid("InvalidImage", format!("the file of the image lacks {path:?}"));
        match self {
            Self::Spread { directory, files } => {
                let number = files.get(plain(path)).ok_or_else(missing)?;
                File::open(numbered(directory.path(), *number)).when(DOING)
            }
            Self::Directory(root) => {
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
                match openat2(root, path, flags, Mode::empty(), resolve) {
                    Ok(file) => {
                        let file = File::from(file);
                        if file.metadata().when(DOING)?.is_file() {
                            Ok(file)
                        } else {
                            Err(missing())
                        }
                    }
                    Err(rustix::io::Errno::NOENT) => Err(missing()),
                    Err(error) => Err(error).when(DOING),
                }
            }
        }
    }

    /// Reads a small file whole.
    pub(super) fn document(&self, path: &str) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let most = MAX_DOCUMENT_BYTES as u64 + 1;
        self.file(path)?.take(most).read_to_end(&mut bytes).when(DOING)?;
        if bytes.len() > MAX_DOCUMENT_BYTES {
            let message = format!("{path} in the file of the image is longer than 4 MiB");
            return Err(ImageError::invalid("InvalidImage", message));
        }
        Ok(bytes)
    }

    /// As [`Source::document`]; `None` when it is not there.
    pub(super) fn optional(&self, path: &str) -> Result<Option<Vec<u8>>, ImageError> {
        match self.document(path) {
            Err(error) if error.reason == "InvalidImage" && self.file(path).is_err() => Ok(None),
            result => result.map(Some),
        }
    }
}

fn spread(file: File, staging: &Path) -> Result<Source, ImageError> {
    let directory = TempDir::with_prefix_in("import-", staging).when(DOING)?;
    let mut files: HashMap<String, usize> = HashMap::new();
    let mut links: Vec<(String, String)> = Vec::new();
    let mut room = Room::keeping(KEPT_FREE_BYTES);
    let mut tape = Tape::new(Stream::new(file)?);
    while let Some(entry) = tape.next_entry()? {
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        let path = plain(&path).to_owned();
        match entry.kind {
            Kind::File => {
                let number = files.len() + links.len();
                if number > MOST_FILES {
                    return Err(ImageError::invalid(
                        "InvalidImage",
                        "the archive has too many files",
                    ));
                }
                let mut into = File::create_new(numbered(directory.path(), number)).when(DOING)?;
                copy_with_room(&mut tape, &mut into, &mut room)?;
                files.insert(path, number);
            }
            // `docker save` writes a layer that two images share once, and links to it.
            Kind::Symlink(target) => {
                links.push((path, String::from_utf8_lossy(&target).into_owned()));
            }
            _ => {}
        }
    }
    for (path, target) in links {
        if let Some(number) = files.get(&beside(&path, &target)).copied() {
            files.insert(path, number);
        }
    }
    Ok(Source::Spread { directory, files })
}

fn copy_with_room(
    from: &mut impl Read,
    into: &mut File,
    room: &mut Room,
) -> Result<(), ImageError> {
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let read = from.read(&mut buffer).when(DOING)?;
        if read == 0 {
            return Ok(());
        }
        room.take(read as u64, into)?;
        into.write_all(&buffer[..read]).when(DOING)?;
    }
}

fn numbered(directory: &Path, number: usize) -> PathBuf {
    directory.join(number.to_string())
}

/// Without what means nothing in front.
fn plain(path: &str) -> &str {
    path.trim_start_matches("./").trim_start_matches('/')
}

/// What a relative link in an archive means, as a path from its root.
fn beside(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
