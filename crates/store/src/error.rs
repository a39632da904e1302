//! What can go wrong, by what the caller can do about it.

/// An error of a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The compared revision differs: read again, decide again.
    #[error("{what} was changed by someone else (revision {expected} expected)")]
    Conflict {
        /// `sandbox ID` or `workspace ID`.
        what: String,
        /// The revision that was expected.
        expected: u64,
    },
    /// No room on the disk; what has [`Priority::Reserve`](crate::Priority::Reserve) still works.
    #[error("the disk of the store is full")]
    DiskFull,
    /// Another process has the store open.
    #[error("the store is in use by {holder}")]
    Locked {
        /// Who, as far as known: `process 123`.
        holder: String,
    },
    /// Read-only file or file system.
    #[error("the store cannot be written: {message}")]
    ReadOnly {
        /// The system's words.
        message: String,
    },
    /// Made by a newer version; left as it is.
    #[error("the store has schema version {found}, this program knows up to {known}")]
    Newer {
        /// What the file says.
        found: u32,
        /// What this program knows.
        known: u32,
    },
    /// Not readable as a store; left as it is.
    #[error("the store is damaged: {message}")]
    Damaged {
        /// What is wrong.
        message: String,
    },
    /// Anything else that may pass.
    #[error("the store does not work: {message}")]
    Unavailable {
        /// The system's words.
        message: String,
    },
}
