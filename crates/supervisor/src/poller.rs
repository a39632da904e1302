//! Waiting for whatever happens next: epoll, edge-triggered.
//!
//! An event only says "look again": each source remembers that it is ready until a read or write
//! says that it is not. So a source that must wait (a full window) needs no call here.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use sandkeep_frames::message::Channel;

/// Who an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// A signal came.
    Signals,
    /// The connection to the gateway.
    Session,
    /// One stream of one exec, by the exec's number here.
    Exec(u32, Channel),
    /// News of the start of one exec, by its number here.
    Start(u32),
}

/// Something can be read or written again.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Who.
    pub token: Token,
    /// Readable, ended or broken.
    pub readable: bool,
    /// Writable, ended or broken.
    pub writable: bool,
}

/// Events taken at once; more come with the next wait.
const BATCH: usize = 64;

/// One epoll instance.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches until the descriptor is closed.
    pub fn watch(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token.number()), flags)?)
    }

    /// Waits for events; at most `timeout_ms`, for ever if `None`.
    pub fn wait(&self, timeout_ms: Option<u64>) -> io::Result<Vec<Event>> {
        let timeout = timeout_ms.map(|ms| Timespec {
            tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ms % 1000).unwrap_or(0) * 1_000_000,
        });
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); BATCH];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((ready, _)) => Ok(ready.iter().filter_map(read_event).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

fn read_event(event: &epoll::Event) -> Option<Event> {
    let (flags, data) = (event.flags, event.data);
    let over = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
    Some(Event {
        token: Token::from_number(data.u64())?,
        readable: over || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
        writable: over || flags.contains(epoll::EventFlags::OUT),
    })
}

impl Token {
    fn number(self) -> u64 {
        match self {
            Self::Signals => 0,
            Self::Session => 1 << 8,
            Self::Exec(key, channel) => 2 << 8 | channel as u64 | u64::from(key) << 32,
            Self::Start(key) => 3 << 8 | u64::from(key) << 32,
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        let low = u32::try_from(number & 0xff).ok()?;
        match number >> 8 & 0xff {
            0 => Some(Self::Signals),
            1 => Some(Self::Session),
            3 => Some(Self::Start(u32::try_from(number >> 32).ok()?)),
            _ => Some(Self::Exec(u32::try_from(number >> 32).ok()?, Channel::from_raw(low)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_were() {
        let all = [
            Token::Signals,
            Token::Session,
            Token::Exec(0, Channel::Stdin),
            Token::Exec(u32::MAX, Channel::Stderr),
            Token::Exec(7, Channel::Stdout),
            Token::Start(0),
            Token::Start(u32::MAX),
        ];
        for token in all {
            assert_eq!(Token::from_number(token.number()), Some(token));
        }
    }
}
