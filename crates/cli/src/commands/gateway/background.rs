//! What a gateway does to be in the background: a session of its own, no files of whoever started
//! it, and a log that never grows without bound.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

use crate::autostart::{LOG_BYTES, append_to, rotate_if_long};
use crate::home::Home;

/// Leaves the session and the files of the caller. To be called before anything else is opened.
pub(super) fn detach() {
    // Fails only for a leader of a process group, which has nothing to leave.
    let _leader = rustix::process::setsid();
    close_inherited();
}

/// Files that the caller had open, its locks among them, must not live as long as a gateway. Only
/// stdin, stdout and stderr are ours.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in open {
        // One of them was the directory just read: it is closed already.
        let _closed = nix::unistd::close(descriptor);
    }
}

/// Writes to stderr, which is the log file, and moves on to a new file when it is long. Stdout and
/// stderr of the whole process follow, so a panic message lands in the newest file, too.
#[derive(Debug, Clone)]
pub(super) struct RotatingLog {
    path: PathBuf,
    written: Arc<AtomicU64>,
    rotating: Arc<Mutex<()>>,
}

impl RotatingLog {
    /// The log of this home; stderr goes there already.
    pub(super) fn of(home: &Home) -> Self {
        let path = home.log();
        let length = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        Self { path, written: Arc::new(AtomicU64::new(length)), rotating: Arc::default() }
    }

    fn rotate(&self) -> io::Result<()> {
        let Ok(_one_at_a_time) = self.rotating.lock() else { return Ok(()) };
        if self.written.load(Ordering::Relaxed) < LOG_BYTES {
            return Ok(());
        }
        rotate_if_long(&self.path);
        let file = append_to(&self.path)?;
        rustix::stdio::dup2_stdout(&file)?;
        rustix::stdio::dup2_stderr(&file)?;
        self.written.store(file.metadata()?.len(), Ordering::Relaxed);
        Ok(())
    }
}

impl Write for RotatingLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = io::stderr().write(bytes)?;
        let total = self.written.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if total >= LOG_BYTES {
            // A disk without room for a new file: the old one goes on.
            let _rotated = self.rotate();
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for RotatingLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
