//! The envelope: a fixed header, then the payload.
//!
//! ```text
//! 0      4        5      6       8        12        16       20
//! | magic | version| kind | flags | stream | length  | crc32  | payload …
//! ```
//! All numbers little-endian; `crc32` covers the 16 bytes before it. `stream` is 0 for what
//! concerns the session, else a number that the gateway chose for one exec in this session.

/// First four bytes of every frame.
pub const MAGIC: [u8; 4] = [0xF5, b'S', b'K', 0x1A];

/// Version of this header. Another one is noise to a reader: what is spoken inside is agreed upon
/// in `Hello` and `Welcome`, so this number changes only if the header itself does.
pub const ENVELOPE_VERSION: u8 = 1;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 20;

/// Largest payload that a reader accepts: a chunk and its own small header, or a message.
pub const MAX_PAYLOAD_BYTES: usize = crate::CHUNK_BYTES + 64 * 1024;

/// What a payload is. Readers skip kinds that they do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// [`Hello`](crate::message::Hello), supervisor → gateway, first frame.
    Hello = 1,
    /// [`Welcome`](crate::message::Welcome), gateway → supervisor, the answer.
    Welcome = 2,
    /// [`Refused`](crate::message::Refused), either way, last frame.
    Refused = 3,
    /// Empty payload or any bytes; answered by `Pong` with the same bytes. Either way.
    Ping = 4,
    /// The answer to `Ping`.
    Pong = 5,
    /// [`Go`](crate::message::Go), gateway → supervisor.
    Go = 6,
    /// [`MainState`](crate::message::MainState), supervisor → gateway, at each change.
    MainState = 7,
    /// [`ResultStored`](crate::message::ResultStored), gateway → supervisor.
    ResultStored = 8,
    /// [`ExecOpen`](crate::message::ExecOpen), gateway → supervisor, on a new stream.
    ExecOpen = 16,
    /// [`ExecAttach`](crate::message::ExecAttach), gateway → supervisor, on a new stream.
    ExecAttach = 17,
    /// [`ExecAttached`](crate::message::ExecAttached), supervisor → gateway: answer to both.
    ExecAttached = 18,
    /// Bytes of one of the exec's streams; see [`StreamBytes`](crate::message::StreamBytes).
    ExecData = 19,
    /// [`ExecAck`](crate::message::ExecAck), either way: opens the window.
    ExecAck = 20,
    /// [`ExecEof`](crate::message::ExecEof), either way: no more bytes follow.
    ExecEof = 21,
    /// [`ExecResize`](crate::message::ExecResize), gateway → supervisor.
    ExecResize = 22,
    /// [`ExecSignal`](crate::message::ExecSignal), gateway → supervisor.
    ExecSignal = 23,
    /// [`ExecExited`](crate::message::ExecExited), supervisor → gateway, after the last byte.
    ExecExited = 24,
    /// Empty, gateway → supervisor: the client has everything, forget this exec.
    ExecForget = 25,
    /// Empty, gateway → supervisor: the client went away; the exec goes on unattached.
    ExecDetach = 26,
    /// [`LogData`](crate::message::LogData), supervisor → gateway.
    LogData = 32,
    /// [`LogAck`](crate::message::LogAck), gateway → supervisor.
    LogAck = 33,
    /// Empty, gateway → supervisor: report usage.
    UsageAsk = 34,
    /// [`Usage`](crate::message::Usage), supervisor → gateway.
    Usage = 35,
}

impl Kind {
    /// `None`: not known here.
    pub fn from_raw(raw: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| *kind as u8 == raw)
    }

    const ALL: [Self; 23] = [
        Self::Hello,
        Self::Welcome,
        Self::Refused,
        Self::Ping,
        Self::Pong,
        Self::Go,
        Self::MainState,
        Self::ResultStored,
        Self::ExecOpen,
        Self::ExecAttach,
        Self::ExecAttached,
        Self::ExecData,
        Self::ExecAck,
        Self::ExecEof,
        Self::ExecResize,
        Self::ExecSignal,
        Self::ExecExited,
        Self::ExecForget,
        Self::ExecDetach,
        Self::LogData,
        Self::LogAck,
        Self::UsageAsk,
        Self::Usage,
    ];
}
