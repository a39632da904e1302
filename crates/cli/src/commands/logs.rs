//! `sandkeep logs`: what a command has written, as it wrote it (a raw stream).

use std::io::Write;

use sandkeep_proto::v1::{LogChunk, LogsRequest};

use super::Context;
use crate::error::Failure;
use crate::render::{self, time};
use crate::size;

/// When following ends, for the help.
const FOLLOWING: &str = "\
Following:
  One run is followed, over every time that its restart policy starts the command again: also while
  the sandbox is down and is to come up again. It ends when the command has ended and is not to run
  again and nobody whom it left behind writes any more, when the sandbox is stopped or deleted, and
  when a start or restart begins the next run. Of a command that has ended it shows all and ends.";

/// What it accepts.
#[derive(Debug, clap::Args)]
#[command(after_help = FOLLOWING)]
pub(crate) struct Arguments {
    /// Name or id
    name: String,
    /// Go on as it is written, until the command has ended for good
    #[arg(long, short)]
    follow: bool,
    /// Only the last lines
    #[arg(long, short = 'n', value_name = "LINES", value_parser = tail)]
    tail: Option<u64>,
    /// Only what is newer: a time (2026-11-30T22:00:00Z) or a span (10m)
    #[arg(long, value_parser = since, value_name = "TIME")]
    since: Option<u64>,
    /// Show when each line was written
    #[arg(long)]
    timestamps: bool,
    /// main-RUN or the id of an exec [default: the command's newest run]
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
}

/// `all` is zero on the wire, so no lines at all cannot be asked for.
fn tail(text: &str) -> Result<u64, String> {
    match text {
        "all" => Ok(0),
        number => match number.parse() {
            Ok(lines) if lines > 0 => Ok(lines),
            _ => Err("a number of lines, or all, is expected".to_owned()),
        },
    }
}

fn since(text: &str) -> Result<u64, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(u64::try_from(at.as_millisecond()).unwrap_or(0).max(1));
    }
    let span = size::duration(text)
        .map_err(|_| "a time (2026-11-30T22:00:00Z) or a span (10m) is expected".to_owned())?;
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Ok(time::now_ms().saturating_sub(millis).max(1))
}

/// Does it; gives the exit code.
pub(crate) async fn carry_out(context: Context, arguments: Arguments) -> Result<u8, Failure> {
    let gateway = context.connector.connect().await?;
    let what = format!("the log of sandbox \"{}\" was not shown", arguments.name);
    let request = LogsRequest {
        name: arguments.name.clone(),
        follow: arguments.follow,
        source: arguments.source.clone().unwrap_or_default(),
        tail: arguments.tail.unwrap_or(0),
        since_ms: arguments.since.unwrap_or(0),
    };
    let response = gateway.client().logs(request).await;
    let mut stream = response.map_err(|status| Failure::of_status(&what, &status))?.into_inner();
    let mut printer = Printer { timestamps: arguments.timestamps, at_line_start: [true; 2] };
    loop {
        match stream.message().await {
            Ok(Some(chunk)) => printer.print(&chunk)?,
            Ok(None) => return Ok(0),
            Err(status) => return Err(Failure::of_status(&what, &status)),
        }
    }
}

/// Writes chunks to the stream they came from.
struct Printer {
    timestamps: bool,
    /// Of stdout and stderr: the next byte begins a line.
    at_line_start: [bool; 2],
}

impl Printer {
    fn print(&mut self, chunk: &LogChunk) -> Result<(), Failure> {
        match chunk.fd {
            1 => self.write(&mut std::io::stdout().lock(), 0, chunk),
            2 => self.write(&mut std::io::stderr().lock(), 1, chunk),
            _ => {
                render::message("(output was dropped here)");
                Ok(())
            }
        }
    }

    fn write(
        &mut self,
        out: &mut dyn Write,
        index: usize,
        chunk: &LogChunk,
    ) -> Result<(), Failure> {
        let written = if self.timestamps {
            self.write_stamped(out, index, chunk)
        } else {
            out.write_all(&chunk.data)
        };
        written.and_then(|()| out.flush()).map_err(|error| render::stdout_failed(&error))
    }

    fn write_stamped(
        &mut self,
        out: &mut dyn Write,
        index: usize,
        chunk: &LogChunk,
    ) -> std::io::Result<()> {
        let at = time::rfc3339(chunk.at_ms).unwrap_or_else(|| "-".to_owned());
        for line in chunk.data.split_inclusive(|byte| *byte == b'\n') {
            if self.at_line_start[index] {
                write!(out, "{at} ")?;
            }
            out.write_all(line)?;
            self.at_line_start[index] = line.ends_with(b"\n");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_in_pieces_is_stamped_once() {
        let mut printer = Printer { timestamps: true, at_line_start: [true; 2] };
        let mut out = Vec::new();
        for data in ["a", "b\nc\n", "d"] {
            let chunk = LogChunk { at_ms: 1, fd: 1, data: data.into() };
            printer.write_stamped(&mut out, 0, &chunk).unwrap();
        }
        let at = "1970-01-01T00:00:00.001Z";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{at} ab\n{at} c\n{at} d"));
    }

    #[test]
    fn since_is_a_time_or_a_span() {
        assert_eq!(since("1970-01-01T00:00:02Z"), Ok(2000));
        assert!(since("10m").unwrap() + 600_000 <= time::now_ms());
        assert!(since("yesterday").is_err());
        assert_eq!((tail("all"), tail("3"), tail("0").is_err()), (Ok(0), Ok(3), true));
    }
}
