//! Whether a process's program runs: told by a pipe that closes when exec succeeds, and that brings
//! the reason when it does not.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

/// Longest reason taken; a child writes it in one piece.
const REASON_BYTES: usize = 1024;

/// What is known of the start of one process.
#[derive(Debug)]
pub enum Start {
    /// Between fork and exec; our end of the pipe.
    Pending(OwnedFd),
    /// The program runs, or did.
    Succeeded,
    /// It will not run, and why. The child ends by itself.
    Failed(String),
}

impl Start {
    /// Looks without waiting.
    pub fn look(&mut self) -> &Self {
        if let Self::Pending(fd) = self {
            let mut buffer = [0; REASON_BYTES];
            match rustix::io::read(&*fd, &mut buffer) {
                Ok(0) => *self = Self::Succeeded,
                Ok(count) => {
                    *self = Self::Failed(String::from_utf8_lossy(&buffer[..count]).into_owned());
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                // A pipe of our own cannot break; if it did, the child's exit code tells the rest.
                Err(_) => *self = Self::Succeeded,
            }
        }
        self
    }

    /// The reason why it did not start; empty: it did. For a process that has ended.
    pub fn into_reason(mut self) -> String {
        self.look();
        match self {
            Self::Failed(reason) => reason,
            Self::Pending(_) | Self::Succeeded => String::new(),
        }
    }

    /// To be watched; `None`: everything is known.
    pub fn pending(&self) -> Option<impl AsFd + '_> {
        match self {
            Self::Pending(fd) => Some(fd),
            Self::Succeeded | Self::Failed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    fn pending() -> (Start, OwnedFd) {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        (Start::Pending(read), write)
    }

    #[test]
    fn it_is_open_until_the_pipe_closes_or_brings_a_reason() {
        let (mut start, write) = pending();
        assert!(matches!(start.look(), Start::Pending(_)));
        drop(write);
        assert!(matches!(start.look(), Start::Succeeded));

        let (mut start, write) = pending();
        rustix::io::write(&write, b"no such thing").unwrap();
        assert!(matches!(start.look(), Start::Failed(_)));
        assert_eq!(start.into_reason(), "no such thing");
    }
}
