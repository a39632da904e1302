//! The user's terminal: is there one, how large is it, raw mode and the way back.
//!
//! Raw mode is left on every way out: by the guard's drop, by a panic, and before a signal ends or
//! suspends this process (signals arrive as events, see `attach`).

use std::io::IsTerminal;
use std::sync::Mutex;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The settings to go back to; `None`: the terminal is as the user had it.
static BEFORE_RAW: Mutex<Option<Termios>> = Mutex::new(None);

/// Rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Rows.
    pub(crate) rows: u32,
    /// Columns.
    pub(crate) columns: u32,
}

/// The size of the terminal at stdin or stdout; `None`: there is none.
pub(crate) fn size() -> Option<Size> {
    let winsize = tcgetwinsize(std::io::stdout())
        .or_else(|_| tcgetwinsize(std::io::stdin()))
        .or_else(|_| tcgetwinsize(std::io::stderr()))
        .ok()
        .filter(|size| size.ws_row > 0 && size.ws_col > 0)?;
    Some(Size { rows: winsize.ws_row.into(), columns: winsize.ws_col.into() })
}

/// Stdin is a terminal.
pub(crate) fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Raw mode, as long as this lives.
#[derive(Debug)]
pub(crate) struct RawMode(());

impl RawMode {
    /// Puts the terminal at stdin into raw mode; `None`: stdin is no terminal.
    pub(crate) fn enter() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        install_panic_hook();
        let mut raw = before.clone();
        raw.make_raw();
        keep(before);
        if tcsetattr(std::io::stdin(), OptionalActions::Drain, &raw).is_err() {
            restore();
            return None;
        }
        Some(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn keep(before: Termios) {
    if let Ok(mut kept) = BEFORE_RAW.lock() {
        *kept = Some(before);
    }
}

/// Gives the terminal back as it was. Does nothing when it is not in raw mode.
pub(crate) fn restore() {
    let kept = match BEFORE_RAW.lock() {
        Ok(mut kept) => kept.take(),
        Err(poisoned) => poisoned.into_inner().take(),
    };
    if let Some(before) = kept {
        // Nothing can be done when the terminal itself is gone.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Drain, &before);
    }
}

fn install_panic_hook() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        previous(info);
    }));
}
