//! Signals that this program gets while attached, as events: what the user means goes to the
//! process inside.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// A second Ctrl-C within this time means "let me go".
const SECOND_INTERRUPT: Duration = Duration::from_secs(1);

/// What a signal means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The process inside gets it.
    Forward(i32),
    /// The user wants to go away from the process.
    Leave,
    /// The terminal is gone.
    HangUp,
    /// The terminal has another size.
    Resized,
    /// Our shell wants us out of the way.
    Suspend,
}

/// The signals.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hang_up: Signal,
    /// Only with a terminal of ours in raw mode.
    resized: Option<Signal>,
    suspend: Option<Signal>,
    interrupts: Interrupts,
}

/// Counts Ctrl-C.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<Instant>,
}

impl Interrupts {
    /// One more, at `now`: is it the second within a second?
    pub(super) fn is_second(&mut self, now: Instant) -> bool {
        let second = self.last.is_some_and(|last| now - last <= SECOND_INTERRUPT);
        self.last = (!second).then_some(now);
        second
    }
}

const INTERRUPT: i32 = 2;
const QUIT: i32 = 3;
const TERMINATE: i32 = 15;
/// The reader of our output went away: what a command alone would have got.
pub(super) const BROKEN_PIPE: i32 = 13;

impl Signals {
    /// From here on signals are events. `terminal`: ours becomes the process's.
    pub(super) fn listen(terminal: bool) -> io::Result<Self> {
        // SIGTSTP has no name in tokio.
        let suspend = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        let with_terminal = |kind| terminal.then(|| signal(kind)).transpose();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
            resized: with_terminal(SignalKind::window_change())?,
            suspend: with_terminal(suspend)?,
            interrupts: Interrupts::default(),
        })
    }

    /// The next event. Loses none when dropped half-way.
    pub(super) async fn next(&mut self) -> Event {
        let forward = tokio::select! {
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.terminate.recv() => TERMINATE,
            _ = self.quit.recv() => return Event::Forward(QUIT),
            _ = self.hang_up.recv() => return Event::HangUp,
            () = heard(&mut self.resized) => return Event::Resized,
            () = heard(&mut self.suspend) => return Event::Suspend,
        };
        if self.interrupts.is_second(Instant::now()) {
            return Event::Leave;
        }
        Event::Forward(forward)
    }
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_interrupts_within_a_second_mean_leave_and_slower_ones_do_not() {
        let mut interrupts = Interrupts::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert!(!interrupts.is_second(at(0)));
        assert!(!interrupts.is_second(at(1500)));
        assert!(interrupts.is_second(at(2000)));
        // A third begins anew.
        assert!(!interrupts.is_second(at(2100)));
    }
}
