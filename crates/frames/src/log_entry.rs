//! One piece of a command's output in a log, in the supervisor's spool and in the gateway's copy.
//!
//! ```text
//! 0        4     5               13
//! | length | fd  | time in ms    | bytes …
//! ```
//! Little-endian; `length` counts the bytes after the 13 of the header; `fd` is 1 or 2, or
//! [`FD_GAP`] for a place where output was dropped (the bytes are then a decimal count).

/// Bytes before an entry's own.
pub const ENTRY_HEADER_BYTES: usize = 13;

/// Largest entry; longer output is cut into several.
pub const MAX_ENTRY_BYTES: usize = 64 * 1024;

/// In place of a file descriptor: output was dropped here.
pub const FD_GAP: u8 = 255;
