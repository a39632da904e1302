//! Session frames between the gateway and a supervisor.
//!
//! One format for both transports (the supervisor dials out; the gateway dials in through an
//! engine's exec stream), so a reader finds its place again after noise: every frame begins with a
//! magic number and a checksummed header. Either side treats the other as hostile: lengths are
//! bounded before memory is taken, and unknown kinds are skipped.
//!
//! Deliberately absent: sockets, files, async, gRPC. This crate turns bytes into frames and back.

pub mod decode;
pub mod encode;
pub mod frame;
pub mod log_entry;
pub mod message;
pub mod version;

pub use decode::{Decoder, Frame, Malformed};
pub use encode::{Encoded, PayloadTooLarge};
pub use frame::Kind;
pub use version::{NoCommonVersion, agree};

/// Newest protocol version that this code speaks.
pub const VERSION: u32 = 1;

/// Oldest protocol version that this code still speaks.
pub const OLDEST_VERSION: u32 = 1;

/// Bytes of one stream that may be under way unacknowledged, in either direction.
pub const WINDOW_BYTES: u64 = 1024 * 1024;

/// Largest chunk of a stream's bytes in one frame: 256 KiB measured best, more only holds memory.
pub const CHUNK_BYTES: usize = 256 * 1024;
