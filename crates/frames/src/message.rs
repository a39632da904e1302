//! What the payloads hold. Protobuf by derive: fields may be added, numbers are never used again.
//!
//! A life of a session: the supervisor connects and says [`Hello`]; the gateway answers
//! [`Welcome`] (or [`Refused`]) and may send anything from then on. Results, execs and logs
//! outlive a session: whatever was not acknowledged is offered again in the next one.

use bytes::Bytes;

/// Supervisor → gateway, first.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Hello {
    /// Oldest protocol version spoken.
    #[prost(uint32, tag = "1")]
    pub oldest_version: u32,
    /// Newest protocol version spoken.
    #[prost(uint32, tag = "2")]
    pub newest_version: u32,
    /// Version of the supervisor program.
    #[prost(string, tag = "3")]
    pub build: String,
    /// Random, made once by this PID 1: the same over reconnects, another after a new start.
    #[prost(fixed64, tag = "4")]
    pub boot_nonce: u64,
    /// The main command now.
    #[prost(message, optional, tag = "5")]
    pub main: Option<MainState>,
    /// Execs that are known still, running or ended and not forgotten.
    #[prost(message, repeated, tag = "6")]
    pub execs: Vec<ExecKnown>,
    /// Log sources with bytes to offer.
    #[prost(message, repeated, tag = "7")]
    pub logs: Vec<LogOffer>,
    /// Guards that the supervisor could not put up, by name (`seccomp`, `landlock` …).
    #[prost(string, repeated, tag = "8")]
    pub missing_guards: Vec<String>,
}

/// Gateway → supervisor, the answer to [`Hello`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Welcome {
    /// The version that both speak.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// The number of the incarnation that this PID 1 is.
    #[prost(uint64, tag = "2")]
    pub incarnation: u64,
    /// Per log source, the offset up to which the gateway has everything durable.
    #[prost(message, repeated, tag = "3")]
    pub logs: Vec<LogAck>,
    /// The gateway's time in milliseconds since 1970, for a clock that was left behind.
    #[prost(uint64, tag = "4")]
    pub now_ms: u64,
}

/// Either way, last: why the session ends.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Refused {
    /// One CamelCase word: `Version`, `SecondSession`, `Protocol`.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// A sentence.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// How to start a process.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Process {
    /// As given, no shell in between. Empty in [`Go`]: the sandbox just stays up.
    #[prost(string, repeated, tag = "1")]
    pub argv: Vec<String>,
    /// `K=V`, on top of the supervisor's own PATH, HOME, USER, HOSTNAME.
    #[prost(string, repeated, tag = "2")]
    pub env: Vec<String>,
    /// Absolute path; empty: /workspace.
    #[prost(string, tag = "3")]
    pub workdir: String,
    /// `name|uid[:group|gid]`; empty: 0:0.
    #[prost(string, tag = "4")]
    pub user: String,
    /// With a terminal; stdout and stderr are then one stream (stdout).
    #[prost(bool, tag = "5")]
    pub tty: bool,
    /// Stdin is a stream; otherwise /dev/null.
    #[prost(bool, tag = "6")]
    pub stdin: bool,
    /// Terminal size; 0: 24.
    #[prost(uint32, tag = "7")]
    pub rows: u32,
    /// Terminal size; 0: 80.
    #[prost(uint32, tag = "8")]
    pub columns: u32,
    /// Output is kept in the log under the exec's id, and shipped.
    #[prost(bool, tag = "9")]
    pub keep_output: bool,
    /// Output waits for an attached client: the process blocks once a window is full, for at most
    /// [`ATTACH_PATIENCE_MS`](crate::message::ATTACH_PATIENCE_MS) without a client, and the main
    /// command no longer with one that takes nothing.
    #[prost(bool, tag = "10")]
    pub attached: bool,
}

/// How long a process's output waits for a client that went away (a gateway restart, a broken
/// connection) before it flows on into the log alone.
pub const ATTACH_PATIENCE_MS: u64 = 60_000;

/// Gateway → supervisor: run the main command. Idempotent for the same (run, restart); a lower one, or
/// another incarnation than in [`Welcome`], is ignored.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Go {
    /// The run.
    #[prost(uint64, tag = "1")]
    pub run: u64,
    /// The incarnation that it is meant for.
    #[prost(uint64, tag = "2")]
    pub incarnation: u64,
    /// The main command; its exec id is `main-RUN` and its output is always kept.
    #[prost(message, optional, tag = "3")]
    pub process: Option<Process>,
    /// How often this run has been started again, by its restart policy or after a loss; 0: the
    /// first time. (run, restart) names one execution of the command and only ever rises: a
    /// higher one runs the command again once the last execution has ended, the same one is
    /// answered with [`MainState`] and starts nothing, a lower one likewise.
    #[prost(uint32, tag = "4")]
    pub restart: u32,
}

/// Supervisor → gateway: what the main command does.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MainState {
    /// The run it speaks of; 0: no `go` yet.
    #[prost(uint64, tag = "1")]
    pub run: u64,
    /// The incarnation in which that run was started.
    #[prost(uint64, tag = "2")]
    pub incarnation: u64,
    /// Set once it has ended.
    #[prost(message, optional, tag = "3")]
    pub exited: Option<Exited>,
    /// Which execution of that run, as in [`Go`].
    #[prost(uint32, tag = "4")]
    pub restart: u32,
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Exited {
    /// Exit code; 128 + n for a signal; 126 not executable, 127 not found.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The signal; 0: none.
    #[prost(int32, tag = "2")]
    pub signal: i32,
    /// It was killed for memory.
    #[prost(bool, tag = "3")]
    pub oom: bool,
    /// Milliseconds since 1970 by the supervisor's clock.
    #[prost(uint64, tag = "4")]
    pub finished_at_ms: u64,
    /// Why it could not be started at all; empty: it was started.
    #[prost(string, tag = "5")]
    pub spawn_error: String,
}

/// Gateway → supervisor: the result of this run is durable, no need to offer it again.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResultStored {
    /// Which run.
    #[prost(uint64, tag = "1")]
    pub run: u64,
    /// Which execution of that run, as in [`Go`].
    #[prost(uint32, tag = "2")]
    pub restart: u32,
}

/// Gateway → supervisor: start a process and attach to it. Opening an id that is known attaches
/// to it instead (a repeated request after a broken connection starts nothing twice).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecOpen {
    /// Chosen by the client, `[a-z0-9-]{1,63}`.
    #[prost(string, tag = "1")]
    pub exec_id: String,
    /// What to start.
    #[prost(message, optional, tag = "2")]
    pub process: Option<Process>,
    /// Nobody attaches: answer once the program runs or the process has ended (pid 0; how, is told
    /// to who attaches), then let it run on, output kept.
    #[prost(bool, tag = "3")]
    pub detached: bool,
}

/// Gateway → supervisor: attach to a known exec, or to `main-RUN`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecAttach {
    /// Which.
    #[prost(string, tag = "1")]
    pub exec_id: String,
    /// The client has stdout up to this offset.
    #[prost(uint64, tag = "2")]
    pub stdout_offset: u64,
    /// The client has stderr up to this offset.
    #[prost(uint64, tag = "3")]
    pub stderr_offset: u64,
}

/// Supervisor → gateway: where the streams stand; data follows from there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecAttached {
    /// Empty: attached. Else one CamelCase word: `NotFound`, `InvalidArgument`, `Exhausted`; later
    /// on an attached stream, as its last frame, `FellBehind`: the main command goes on without a
    /// client that takes nothing, which may attach again.
    #[prost(string, tag = "1")]
    pub refused: String,
    /// A sentence, when refused.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Stdin bytes taken so far: the client goes on from here.
    #[prost(uint64, tag = "3")]
    pub stdin_offset: u64,
    /// First stdout byte that follows (higher than asked: older ones were dropped, see the log).
    #[prost(uint64, tag = "4")]
    pub stdout_offset: u64,
    /// First stderr byte that follows.
    #[prost(uint64, tag = "5")]
    pub stderr_offset: u64,
    /// PID inside; 0: it has ended or was never started.
    #[prost(uint32, tag = "6")]
    pub pid: u32,
}

/// One of an exec's three byte streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Channel {
    /// Gateway → supervisor.
    Stdin = 0,
    /// Supervisor → gateway.
    Stdout = 1,
    /// Supervisor → gateway.
    Stderr = 2,
}

impl Channel {
    /// From its number; `None`: there is no such channel.
    pub fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Stdin),
            1 => Some(Self::Stdout),
            2 => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// Payload of `ExecData`: not protobuf, so that bytes are not copied once more. One byte channel,
/// eight bytes offset (little-endian) of the first byte in its stream, then the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamBytes {
    /// Which stream.
    pub channel: Channel,
    /// Offset of the first byte since the stream began.
    pub offset: u64,
    /// At most [`CHUNK_BYTES`](crate::CHUNK_BYTES).
    pub bytes: Bytes,
}

/// Either way: everything of this channel up to `offset` has been handed on; the sender may have
/// `offset` + [`WINDOW_BYTES`](crate::WINDOW_BYTES) under way.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecAck {
    /// [`Channel`] as a number.
    #[prost(uint32, tag = "1")]
    pub channel: u32,
    /// See above.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

/// Either way: the channel ends at `offset`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecEof {
    /// [`Channel`] as a number.
    #[prost(uint32, tag = "1")]
    pub channel: u32,
    /// Total bytes of the channel.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

/// New size of the terminal.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecResize {
    /// Rows.
    #[prost(uint32, tag = "1")]
    pub rows: u32,
    /// Columns.
    #[prost(uint32, tag = "2")]
    pub columns: u32,
}

/// Send a signal to the exec's process group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecSignal {
    /// Linux number.
    #[prost(int32, tag = "1")]
    pub signal: i32,
}

/// Supervisor → gateway: the process has ended and its output is complete.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecExited {
    /// How.
    #[prost(message, optional, tag = "1")]
    pub exited: Option<Exited>,
}

/// An exec that the supervisor knows of, in [`Hello`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecKnown {
    /// Its id.
    #[prost(string, tag = "1")]
    pub exec_id: String,
    /// Set once it has ended.
    #[prost(message, optional, tag = "2")]
    pub exited: Option<Exited>,
}

/// A log that the supervisor has bytes of, in [`Hello`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LogOffer {
    /// `main-RUN` or an exec id.
    #[prost(string, tag = "1")]
    pub source: String,
    /// Oldest byte kept.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// Bytes written so far.
    #[prost(uint64, tag = "3")]
    pub to: u64,
    /// Its writers have ended, as in [`LogData`].
    #[prost(bool, tag = "4")]
    pub complete: bool,
}

/// Supervisor → gateway: a stretch of a log's bytes (whole [`LogEntry`](crate::log_entry) items).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LogData {
    /// `main-RUN` or an exec id.
    #[prost(string, tag = "1")]
    pub source: String,
    /// Offset of the first byte; higher than the gateway has: the bytes between were dropped.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// At most [`CHUNK_BYTES`](crate::CHUNK_BYTES).
    #[prost(bytes = "bytes", tag = "3")]
    pub entries: Bytes,
    /// Its writers have ended. A main command's log goes on with the next execution of its run.
    #[prost(bool, tag = "4")]
    pub complete: bool,
}

/// Gateway → supervisor: the log is durable up to `offset`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LogAck {
    /// `main-RUN` or an exec id.
    #[prost(string, tag = "1")]
    pub source: String,
    /// See above.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

/// Supervisor → gateway: what the sandbox uses, as seen from inside.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Usage {
    /// Processes.
    #[prost(uint32, tag = "1")]
    pub processes: u32,
    /// CPU time of everything reaped or running, microseconds.
    #[prost(uint64, tag = "2")]
    pub cpu_us: u64,
    /// Resident memory of all processes, bytes (shared pages counted once per process).
    #[prost(uint64, tag = "3")]
    pub memory_bytes: u64,
    /// Execs with a client attached.
    #[prost(uint32, tag = "4")]
    pub attached_execs: u32,
    /// Milliseconds since 1970 by the supervisor's clock.
    #[prost(uint64, tag = "5")]
    pub now_ms: u64,
}
