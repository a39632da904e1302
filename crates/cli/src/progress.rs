//! What is being waited for, shown on stderr while it is: one line that changes on a terminal, a
//! plain line at each change elsewhere, nothing with `--quiet`.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tokio::time::Instant;

use crate::render::escape;
use crate::terminal;

/// What is quicker is done before a line about it could be read.
const MOMENT: Duration = Duration::from_millis(300);

/// Where and how progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// One line, drawn over and over.
    Line,
    /// A line at each change.
    Lines,
    /// Nothing.
    Silent,
}

/// Shows the latest state of a wait.
#[derive(Debug)]
pub(crate) struct Progress {
    style: Style,
    /// Nothing is shown before: what is quick needs no telling.
    from: Instant,
    shown: String,
    pending: Option<String>,
    drawn: bool,
}

impl Progress {
    /// Shows what takes longer than a moment.
    pub(crate) fn new(quiet: bool) -> Self {
        Self::after(quiet, MOMENT)
    }

    /// Shows nothing in the first `delay`.
    pub(crate) fn after(quiet: bool, delay: Duration) -> Self {
        let style = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Style::Silent,
            (false, true) => Style::Line,
            (false, false) => Style::Lines,
        };
        let from = Instant::now() + delay;
        Self { style, from, shown: String::new(), pending: None, drawn: false }
    }

    /// This is the state now. Call [`Self::due`] and [`Self::flush`] to have it shown later when it
    /// is too early.
    pub(crate) fn show(&mut self, text: &str) {
        if self.style == Style::Silent {
            return;
        }
        self.pending = (text != self.shown).then(|| text.to_owned());
        self.flush();
    }

    /// When a state that was held back has to be shown; pending for ever when there is none.
    pub(crate) async fn due(&self) {
        if self.pending.is_some() {
            tokio::time::sleep_until(self.from).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Shows what was held back, if it is time.
    pub(crate) fn flush(&mut self) {
        if Instant::now() < self.from {
            return;
        }
        let Some(text) = self.pending.take() else { return };
        let clean = escape::line(&text);
        let mut stderr = std::io::stderr().lock();
        // Progress that cannot be shown is not worth failing for.
        let _shown = match self.style {
            Style::Line => write!(stderr, "\r\x1b[K{}", fitting(&clean)),
            Style::Lines => writeln!(stderr, "{clean}"),
            Style::Silent => Ok(()),
        };
        let _flushed = stderr.flush();
        self.drawn = self.style == Style::Line;
        self.shown = text;
    }

    /// Takes the line away, before anything else is printed.
    pub(crate) fn clear(&mut self) {
        self.pending = None;
        if std::mem::take(&mut self.drawn) {
            let mut stderr = std::io::stderr().lock();
            let _cleared = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
            self.shown.clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The beginning of `text` that fits into one row of the terminal.
fn fitting(text: &str) -> String {
    let columns = terminal::size().map_or(80, |size| size.columns as usize);
    text.chars().take(columns.saturating_sub(1)).collect()
}
