//! What a user types, in a terminal that is the command's, to go away from it: for `run` alone.
//!
//! A program under `exec -t` gets every key: in a shell or an editor Ctrl-C is pressed twice all the
//! time, and its end is the end of what the user wanted. A sandbox's main command goes on without us.

use tokio::time::Instant;

use super::signals::Interrupts;

const CTRL_C: u8 = 0x03;
const CTRL_P: u8 = 0x10;
const CTRL_Q: u8 = 0x11;

/// What typed bytes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// They are the command's and nothing else.
    No,
    /// They are the command's; if it does not end by them, the user wants to go.
    IfItGoesOn,
    /// The user goes; the command gets nothing of them.
    Now,
}

/// Watches what is typed.
#[derive(Debug, Default)]
pub(super) struct LeaveKeys {
    interrupts: Interrupts,
    after_ctrl_p: bool,
}

impl LeaveKeys {
    /// These bytes were read at once, at `now`. Ctrl-P is not held back: the command would feel a
    /// key that comes only with the next one.
    pub(super) fn typed(&mut self, bytes: &[u8], now: Instant) -> Leave {
        let sequence = bytes == [CTRL_P, CTRL_Q] || (self.after_ctrl_p && bytes == [CTRL_Q]);
        self.after_ctrl_p = bytes == [CTRL_P];
        if sequence {
            Leave::Now
        } else if bytes == [CTRL_C] && self.interrupts.is_second(now) {
            Leave::IfItGoesOn
        } else {
            Leave::No
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[&[u8]]) -> Vec<Leave> {
        let (mut watched, now) = (LeaveKeys::default(), Instant::now());
        keys.iter().map(|bytes| watched.typed(bytes, now)).collect()
    }

    #[test]
    fn the_second_interrupt_and_the_sequence_mean_leave() {
        assert_eq!(typed(&[b"\x03", b"\x03"]), [Leave::No, Leave::IfItGoesOn]);
        assert_eq!(typed(&[b"\x10", b"\x11"]), [Leave::No, Leave::Now]);
        assert_eq!(typed(&[b"\x10\x11"]), [Leave::Now]);
    }

    #[test]
    fn other_keys_and_pasted_text_mean_nothing() {
        assert_eq!(typed(&[b"\x10", b"x", b"\x11"]), [Leave::No; 3]);
        assert_eq!(typed(&[b"\x11", b"\x10"]), [Leave::No; 2]);
        assert_eq!(typed(&[b"a\x03\x03", b"\x03"]), [Leave::No; 2]);
    }
}
