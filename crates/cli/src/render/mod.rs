//! Everything that is printed: results on stdout, failures and messages on stderr.
//!
//! Deliberately absent: progress (`progress`) and the raw streams of commands (`attach`, `logs`).

pub(crate) mod escape;
pub(crate) mod event;
pub(crate) mod explanation;
pub(crate) mod gateway;
#[cfg(test)]
pub(crate) mod golden;
pub(crate) mod json;
pub(crate) mod phrases;
pub(crate) mod sandbox;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod workspace;

use std::io::{ErrorKind, IsTerminal, Write};

use serde::Serialize;

use crate::error::{Failure, exit};

/// Writes a result to stdout. A reader that went away ends this program quietly.
pub(crate) fn result(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) => Err(stdout_failed(&error)),
    }
}

/// What it means that stdout takes no more: nothing when its reader had enough.
pub(crate) fn stdout_failed(error: &std::io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    Failure::new(
        exit::FAILED,
        "the result was not written",
        crate::client::plain_os_words(error),
        "look at where stdout goes",
    )
}

/// Writes one JSON document to stdout.
pub(crate) fn document<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::new(exit::FAILED, "the result was not written", error.to_string(), "")
    })?;
    result(&(text + "\n"))
}

/// Writes one JSON document on one line to stdout.
pub(crate) fn document_line<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| {
        Failure::new(exit::FAILED, "the result was not written", error.to_string(), "")
    })?;
    result(&(text + "\n"))
}

/// Writes a failure in its three parts to stderr.
pub(crate) fn failure(failure: &Failure) {
    let mut stderr = std::io::stderr().lock();
    // When even stderr is gone there is nobody to tell.
    let _told = stderr.write_all(failure_text(failure, colour_on_stderr()).as_bytes());
}

/// Writes a message to stderr, one line.
pub(crate) fn message(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _told = writeln!(stderr, "{}", escape::line(text));
}

fn failure_text(failure: &Failure, colour: bool) -> String {
    let (on, off) = if colour { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let mut text = format!("{on}error:{off} {}\n", escape::line(&failure.what));
    for (name, part) in [("why", &failure.why), ("next", &failure.next)] {
        if !part.is_empty() {
            text += &format!("  {name}: {}\n", escape::line(part));
        }
    }
    text
}

/// Colour belongs on a terminal, and nowhere when the user says so (`NO_COLOR`).
pub(crate) fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && colour_wanted()
}

fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_three_lines_and_no_control_characters() {
        let failure = Failure::new(1, "sandbox \"a\x1b\" failed", "x\ny", "do z");
        assert_eq!(
            failure_text(&failure, false),
            "error: sandbox \"a\\u{1b}\" failed\n  why: x\\ny\n  next: do z\n"
        );
    }

    #[test]
    fn an_unknown_part_is_left_out() {
        let failure = Failure::new(1, "it failed", "", "");
        assert_eq!(failure_text(&failure, false), "error: it failed\n");
    }
}
