//! The beginning of a session: `Hello`, a version both speak, `Welcome`. The only part of a session
//! with a deadline, because nothing is lost when it ends here.

use std::io;
use std::time::Duration;

use sandkeep_core::Timestamp;
use sandkeep_frames::message::{Hello, LogAck, Refused, Welcome};
use sandkeep_frames::version::{OURS, Versions};
use sandkeep_frames::{Encoded, Kind, agree};
use tokio::io::WriteHalf;
use tokio::time::timeout;

use crate::session::wire::{FrameReader, Stream, write_frames};

/// For `Hello` to come and for `Welcome` to be taken. A supervisor says `Hello` at once; ten
/// seconds are for a machine that is busy beyond reason.
const GREETING_DEADLINE: Duration = Duration::from_secs(10);

/// For a last word to be taken.
const FAREWELL_DEADLINE: Duration = Duration::from_secs(1);

/// Why a session ended or did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The peer went away.
    #[error("the supervisor closed the connection")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The deadline of the greeting passed.
    #[error("the supervisor did not greet within {} s", GREETING_DEADLINE.as_secs())]
    Silent,
    /// Its frames make no sense; a sentence.
    #[error("the supervisor broke the protocol: {0}")]
    Protocol(String),
    /// No version in common; a sentence.
    #[error("{0}")]
    Version(String),
    /// The supervisor does not want this session; its words.
    #[error("the supervisor refused the session: {0}")]
    Refused(String),
    /// The driver could not open a stream.
    #[error("{0}")]
    NotOpened(String),
    /// The session is not wanted any more.
    #[error("the session is not wanted any more")]
    NotWanted,
}

/// Reads the first frame, which has to be `Hello`, and agrees on a version.
pub(crate) async fn read_hello(reader: &mut FrameReader) -> Result<(Hello, u32), Ended> {
    let first = timeout(GREETING_DEADLINE, reader.next()).await.map_err(|_late| Ended::Silent)?;
    let frame = first?.ok_or(Ended::Closed)?;
    if frame.kind() != Some(Kind::Hello) {
        return Err(Ended::Protocol(format!("kind {} came before Hello", frame.raw_kind)));
    }
    let hello: Hello = frame.decode().map_err(|error| Ended::Protocol(error.to_string()))?;
    let theirs = Versions { oldest: hello.oldest_version, newest: hello.newest_version };
    let version = agree(OURS, theirs).map_err(|error| Ended::Version(error.to_string()))?;
    Ok((hello, version))
}

/// Answers with `Welcome`, and with a first `Ping` in the same packet.
pub(crate) async fn write_welcome(
    half: &mut WriteHalf<Stream>,
    version: u32,
    incarnation: u64,
    logs: Vec<LogAck>,
    now: Timestamp,
) -> Result<(), Ended> {
    let welcome = Welcome { version, incarnation, logs, now_ms: now.as_millis() };
    let frame = Encoded::message(Kind::Welcome, 0, &welcome)
        .map_err(|error| Ended::Protocol(error.to_string()))?;
    let mut frames = [frame].into();
    timeout(GREETING_DEADLINE, write_frames(half, &mut frames))
        .await
        .map_err(|_late| Ended::Silent)?
        .map_err(Ended::Io)
}

/// Tells the peer why the session ends, if it is the peer's doing and it still listens.
pub(crate) async fn say_why(half: &mut WriteHalf<Stream>, ended: &Ended) {
    let (reason, message) = match ended {
        Ended::Protocol(message) => ("Protocol", message.clone()),
        Ended::Version(message) => ("Version", message.clone()),
        _ => return,
    };
    let refused = Refused { reason: reason.to_owned(), message };
    if let Ok(frame) = Encoded::message(Kind::Refused, 0, &refused) {
        // The session is over whether or not the peer hears why.
        let _said = timeout(FAREWELL_DEADLINE, write_frames(half, &mut [frame].into())).await;
    }
}
