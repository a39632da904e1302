//! OCI images on this machine: named, pulled, imported, unpacked into layers, removed.
//!
//! Everything lies in one directory ([`ImageStore`]): layers are unpacked once and shared by every
//! image that has them, and what a process that was killed left half-done is never taken for whole.
//! A registry and an archive are untrusted input: digests are checked on every byte, and layers are
//! unpacked below a held directory that no path and no symlink leads out of.
//!
//! Deliberately absent: sandboxes, mounts, who uses an image (the caller says what is in use).

mod config;
mod error;
mod import;
mod name;
mod pull;
mod store;
mod unpack;

pub use config::ImageConfig;
pub use error::{ErrorKind, ImageError};
pub use import::import;
pub use name::{Digest, ImageName};
pub use pull::{Mirror, Progress, ProgressSink, PullOptions, Puller};
pub use sandkeep_archive::{Owners, Whiteouts};
pub use store::{ImageStore, Layer, Removed, StoredImage};
