//! What work on images can fail with, by what the caller can do about it.

use std::io;

use sandkeep_archive::ArchiveError;

/// What the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such image, here or in the registry.
    NotFound,
    /// The registry wants credentials, or other ones.
    Denied,
    /// The registry does not answer, or asks to come later: try again.
    Unavailable,
    /// The image or the archive is not what it should be: trying again does not help.
    Invalid,
    /// Something still uses it.
    InUse,
    /// No room on the disk.
    Exhausted,
    /// Anything else of this machine.
    Internal,
}

/// An error with the whole cause in its message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImageError {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// One CamelCase word for the user.
    pub reason: &'static str,
    /// A sentence for the user.
    pub message: String,
}

impl ImageError {
    /// The content is not what it should be.
    pub(crate) fn invalid(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, reason, message: message.into() }
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::NotFound, reason: "ImageNotFound", message: message.into() }
    }

    /// A failure of the file system, with what was being done.
    pub(crate) fn io(doing: &str, error: &io::Error) -> Self {
        let full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let (kind, reason) = if full {
            (ErrorKind::Exhausted, "DiskFull")
        } else {
            (ErrorKind::Internal, "ImageStoreFailed")
        };
        Self { kind, reason, message: format!("{doing}: {error}") }
    }
}

impl From<ArchiveError> for ImageError {
    fn from(error: ArchiveError) -> Self {
        let message = error.to_string();
        match error {
            _ if error.is_full() => {
                Self { kind: ErrorKind::Exhausted, reason: "DiskFull", message }
            }
            ArchiveError::Damaged(_) => Self::invalid("InvalidArchive", message),
            ArchiveError::Stream(source) => Self::io("an archive could not be read", &source),
            ArchiveError::Disk { doing, source } => Self::io(&doing, &source),
            ArchiveError::NoRoom { .. } => {
                Self { kind: ErrorKind::Exhausted, reason: "DiskFull", message }
            }
        }
    }
}

/// Says what was being done when the file system failed.
pub(crate) trait While<T> {
    /// The error, with `doing` in front.
    fn when(self, doing: &str) -> Result<T, ImageError>;
}

impl<T> While<T> for io::Result<T> {
    fn when(self, doing: &str) -> Result<T, ImageError> {
        self.map_err(|error| ImageError::io(doing, &error))
    }
}

impl<T> While<T> for rustix::io::Result<T> {
    fn when(self, doing: &str) -> Result<T, ImageError> {
        self.map_err(|error| ImageError::io(doing, &error.into()))
    }
}
