//! The gateway's log on its way to stderr: queued, and written by a thread of its own.
//!
//! Whoever reads our stderr (a pipe to a program that hangs, a terminal that was stopped) may take
//! nothing for ever; the gateway goes on all the same. What has no room is dropped and counted, and
//! the count is written once there is room again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sandkeep_gateway::config::LogFormat;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes that may wait: some thousand lines, as much as a burst while a disk or a terminal is slow.
const WAITING_BYTES: usize = 1024 * 1024;

/// How long the end of the program waits for the last lines to be taken.
const LAST_LINES: Duration = Duration::from_secs(1);

/// A queue of lines; clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct LogQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    format: LogFormat,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines for which there was no room, since the last one that had some.
    dropped: u64,
    /// The thread has a line in hand.
    writing: bool,
    /// The reader is gone: nothing will ever be written again.
    closed: bool,
}

impl LogQueue {
    /// Begins to write to `out`, with words about dropped lines in this format.
    pub(super) fn to(out: OwnedFd, format: LogFormat) -> io::Result<Self> {
        let (waiting, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { format, waiting, changed });
        let thread = std::thread::Builder::new().name("log".to_owned());
        let writer = Arc::clone(&shared);
        thread.spawn(move || writer.write_all(&out))?;
        Ok(Self { shared })
    }

    /// Waits until everything is written, but not for long.
    pub(super) fn flush(&self) {
        let waiting = self.shared.lock();
        let busy = |waiting: &mut Waiting| !waiting.closed && !waiting.is_idle();
        drop(self.shared.changed.wait_timeout_while(waiting, LAST_LINES, busy));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.closed {
            return;
        }
        if waiting.bytes + line.len() > WAITING_BYTES {
            waiting.dropped += 1;
            return;
        }
        // What was dropped was dropped before this one.
        waiting.tell_dropped(self.format);
        waiting.push(line.to_vec());
        drop(waiting);
        self.changed.notify_all();
    }

    /// The thread's whole life: to the end of the program, or of its reader.
    fn write_all(&self, out: &OwnedFd) {
        loop {
            let line = self.next();
            let written = write_line(out, &line);
            let mut waiting = self.lock();
            waiting.writing = false;
            waiting.closed = written.is_err();
            if waiting.closed {
                *waiting = Waiting { closed: true, ..Waiting::default() };
            }
            let closed = waiting.closed;
            drop(waiting);
            self.changed.notify_all();
            if closed {
                return;
            }
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut waiting = self.lock();
        loop {
            if waiting.lines.is_empty() {
                waiting.tell_dropped(self.format);
            }
            if let Some(line) = waiting.lines.pop_front() {
                waiting.bytes -= line.len();
                waiting.writing = true;
                return line;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Waiting {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.writing
    }

    fn push(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    fn tell_dropped(&mut self, format: LogFormat) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let text = format!("{dropped} lines of the log were dropped: nobody took them");
            self.push(match format {
                LogFormat::Text => format!("{text}\n").into_bytes(),
                LogFormat::Json => {
                    let line = serde_json::json!({"level": "WARN", "fields": {"message": text}});
                    format!("{line}\n").into_bytes()
                }
            });
        }
    }
}

/// One line, whole, however long it takes. Past std's own lock on stderr: whoever else prints there
/// waits for the reader, and not for this thread.
fn write_line(out: &OwnedFd, mut line: &[u8]) -> Result<(), Errno> {
    while !line.is_empty() {
        match rustix::io::write(out, line) {
            Ok(count) => line = &line[count..],
            Err(Errno::INTR) => {}
            // Somebody else has made it non-blocking.
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(out, PollFlags::OUT)];
                if let Err(error) = poll(&mut fds, None)
                    && error != Errno::INTR
                {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes one event, which is written as one piece.
#[derive(Debug)]
pub(super) struct Line {
    shared: Arc<Shared>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shared.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogQueue {
    type Writer = Line;

    fn make_writer(&self) -> Self::Writer {
        Line { shared: Arc::clone(&self.shared) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn queue(format: LogFormat) -> (LogQueue, BufReader<std::fs::File>) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        (LogQueue::to(write, format).unwrap(), BufReader::new(read.into()))
    }

    #[test]
    fn lines_come_in_order_and_are_there_after_a_flush() {
        let (queue, mut reader) = queue(LogFormat::Text);
        for number in 0..100 {
            writeln!(queue.make_writer(), "{number}").unwrap();
        }
        queue.flush();
        assert!(queue.shared.lock().is_idle());
        for number in 0..100 {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            assert_eq!(line, format!("{number}\n"));
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_holds_nobody_up_and_hears_what_it_missed() {
        const LINES: u64 = 50_000;
        let (queue, reader) = queue(LogFormat::Json);
        // Were this to block, the test would never end: nobody reads yet.
        for number in 0..LINES {
            let line = format!("{{\"number\":{number},\"filler\":\"{}\"}}\n", "x".repeat(60));
            queue.make_writer().write_all(line.as_bytes()).unwrap();
        }
        let (mut seen, mut dropped) = (0, 0);
        for line in reader.lines() {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            match line["number"].as_u64() {
                Some(number) => {
                    assert_eq!(number, seen + dropped);
                    seen += 1;
                }
                None => {
                    let text = line["fields"]["message"].as_str().unwrap();
                    dropped += text.split(' ').next().unwrap().parse::<u64>().unwrap();
                }
            }
            if seen + dropped == LINES {
                break;
            }
        }
        assert!(dropped > 0 && seen > 1000, "{seen} seen, {dropped} dropped");
    }

    #[test]
    fn a_reader_that_is_gone_holds_up_no_end() {
        let (queue, reader) = queue(LogFormat::Text);
        drop(reader);
        for _ in 0..3 {
            queue.make_writer().write_all(b"to nobody\n").unwrap();
        }
        queue.flush();
        assert!(queue.shared.lock().lines.is_empty());
    }
}
