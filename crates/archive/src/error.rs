//! What packing and unpacking can fail with, by whose fault it is.

use std::io;

/// An error with the whole cause in its message.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The stream is not an archive, or asks for what is not done. Another try ends the same.
    #[error("the archive cannot be unpacked: {0}")]
    Damaged(String),
    /// The stream itself broke: the other end, a pipe, a network.
    #[error("the stream broke off: {0}")]
    Stream(#[source] io::Error),
    /// The file system refused.
    #[error("{doing}: {source}")]
    Disk {
        /// What was being done, with the file's name where one is known.
        doing: String,
        /// The file system's answer.
        source: io::Error,
    },
    /// Writing on would leave less room than must stay.
    #[error("the disk has {} MiB free; {} MiB must stay", .free_bytes >> 20, .kept_bytes >> 20)]
    NoRoom {
        /// Bytes free now.
        free_bytes: u64,
        /// Bytes that are not for this.
        kept_bytes: u64,
    },
}

impl ArchiveError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }

    /// Whether the disk is full, by whatever way that was found out.
    pub fn is_full(&self) -> bool {
        match self {
            Self::NoRoom { .. } => true,
            Self::Disk { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// What a reader of the stream answered: damage inside it, or the stream broken.
pub(crate) fn of_stream(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::Other => ArchiveError::Damaged(error.to_string()),
        _ => ArchiveError::Stream(error),
    }
}

/// Says what was being done when the file system failed.
pub(crate) trait While<T> {
    fn when(self, doing: impl FnOnce() -> String) -> Result<T, ArchiveError>;
}

impl<T, E: Into<io::Error>> While<T> for Result<T, E> {
    fn when(self, doing: impl FnOnce() -> String) -> Result<T, ArchiveError> {
        self.map_err(|error| ArchiveError::Disk { doing: doing(), source: error.into() })
    }
}

/// A name for a message: control characters of whoever made it do nothing there.
pub(crate) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}
