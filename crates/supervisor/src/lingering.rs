//! Streams that background processes hold open after the process they came from has ended. They
//! are read on, so that nobody is killed by a broken pipe or blocked by a full one.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use sandkeep_frames::message::Channel;

/// Over this, the oldest is closed.
const MOST: usize = 256;

const READ_BYTES: usize = 16 * 1024;

/// Reads of one stream before the others have their turn.
const READS_AT_ONCE: usize = 16;

#[derive(Debug)]
struct Stream {
    key: u32,
    channel: Channel,
    fd: OwnedFd,
    log: Option<String>,
    ready: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Lingering {
    streams: Vec<Stream>,
}

impl Lingering {
    /// Takes a stream over. With `log` its bytes still go into that log.
    pub fn take(&mut self, key: u32, channel: Channel, fd: OwnedFd, log: Option<String>) {
        if self.streams.len() >= MOST {
            self.streams.remove(0);
        }
        self.streams.push(Stream { key, channel, fd, log, ready: true });
    }

    /// It may have bytes.
    pub fn note(&mut self, key: u32, channel: Channel) {
        for stream in &mut self.streams {
            stream.ready |= (stream.key, stream.channel) == (key, channel);
        }
    }

    /// Somebody still holds a stream open that goes into this log.
    pub fn writes(&self, log: &str) -> bool {
        self.streams.iter().any(|stream| stream.log.as_deref() == Some(log))
    }

    /// Reads what there is. `log` gets bytes for a log. True: there is more.
    pub fn read(&mut self, mut log: impl FnMut(&str, Channel, &[u8])) -> bool {
        let mut buffer = [0; READ_BYTES];
        self.streams.retain_mut(|stream| {
            for _ in 0..READS_AT_ONCE {
                if !stream.ready {
                    break;
                }
                match rustix::io::read(&stream.fd, &mut buffer) {
                    Ok(0) => return false,
                    Ok(count) => {
                        if let Some(name) = &stream.log {
                            log(name, stream.channel, &buffer[..count]);
                        }
                    }
                    Err(Errno::AGAIN) => stream.ready = false,
                    Err(Errno::INTR) => {}
                    Err(_) => return false,
                }
            }
            true
        });
        self.streams.iter().any(|stream| stream.ready)
    }
}
