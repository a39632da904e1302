//! Trees as tar streams, and streams as trees below one held directory.
//!
//! ```text
//! pack:    directory ── held, never left, no symlink followed ──▶ stream
//! unpack:  stream ── every length bounded, every name checked ──▶ directory
//! ```
//! Both ends are used on trees and streams of agents: neither a name, a symlink, a hard link, a
//! length nor a file that changes meanwhile may lead anywhere else or take more than it should.
//! Modes, times to the nanosecond, symlinks, hard links, holes, FIFOs, `user.` attributes and any
//! name that Linux takes come out as they went in; GNU tar reads what is written here.
//!
//! Deliberately absent: compression, where a stream comes from, whose files they are.

mod error;
mod header;
mod pack;
mod place;
mod room;
mod rooted;
mod sparse;
mod tape;
mod walk;

pub use error::ArchiveError;
pub use pack::{Packed, pack};
pub use place::{Existing, Owners, ParentLinks, Rules, Unpacked, Whiteouts, unpack};
pub use room::{Room, has_room};
pub use tape::{Entry, Kind, Tape};
