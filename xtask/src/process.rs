//! Runs commands, says which, and listens to what they print.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Cargo itself, as this process was started by it.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs to the end; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// What a suite printed that belongs in the summary.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The harness's `test result: …`.
    pub(crate) closing: Vec<String>,
    /// Lines that say that something was left out.
    pub(crate) skipped: Vec<String>,
    pub(crate) worked: bool,
}

/// Once a command has ended, its output is over when nothing comes for this long: something that it
/// left behind may hold the pipe for ever.
const QUIET: Duration = Duration::from_secs(1);

/// Runs to the end, passing everything on as it comes.
pub(crate) fn listen(command: &mut Command) -> Result<Heard> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("start {shown}"))?;
    // The command still holds its ends of the pipe; without them the pipe ends with the child.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (lines, heard_lines) = mpsc::channel();
    std::thread::spawn(move || {
        let all = BufReader::new(reader).split(b'\n').map_while(Result::ok);
        // Ends with the pipe, or when nobody listens any more.
        all.map(|line| lines.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    let mut heard = Heard::default();
    loop {
        match heard_lines.recv_timeout(QUIET) {
            Ok(line) => heard.line(&line)?,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if child.try_wait().with_context(|| format!("wait for {shown}"))?.is_some() {
                    println!("note: something that it started still holds its output");
                    break;
                }
            }
        }
    }
    heard.worked = child.wait().with_context(|| format!("wait for {shown}"))?.success();
    Ok(heard)
}

impl Heard {
    fn line(&mut self, line: &[u8]) -> Result<()> {
        let mut out = std::io::stdout();
        out.write_all(line).and_then(|()| out.write_all(b"\n")).context("pass it on")?;
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.starts_with("test result: ") {
            self.closing.push(text.to_owned());
        } else if text.starts_with("SKIPPED") {
            self.skipped.push(text.to_owned());
        }
        Ok(())
    }
}

/// Says what is run, as one could type it.
pub(crate) fn show(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        // The PATH with our own tools in front would drown the command.
        .filter(|(key, _)| *key != "PATH")
        .filter_map(|(key, value)| Some((key, value?)))
        .map(|(key, value)| format!("{}={}", key.to_string_lossy(), value.to_string_lossy()))
        .collect();
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    words.push(name.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    let line = words.join(" ");
    eprintln!("$ {line}");
    line
}
