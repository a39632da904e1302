//! From input and output errors to what the reconciler can do about them.

use std::io;

use sandkeep_driver::{DriverError, ErrorKind};

/// An [`io::Error`] met while doing `what` in `stage`.
pub(crate) fn io_failure(
    stage: &'static str,
    what: impl std::fmt::Display,
    error: &io::Error,
) -> DriverError {
    let (kind, reason) = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => (ErrorKind::Exhausted, "DiskFull"),
        Some(libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::EUSERS) => {
            (ErrorKind::Exhausted, "ResourcesExhausted")
        }
        Some(libc::EROFS | libc::EIO) => (ErrorKind::Unavailable, "DiskUnusable"),
        _ => (ErrorKind::Internal, "LocalFailure"),
    };
    DriverError::new(kind, stage, reason, format!("{what}: {error}"))
}

/// What was asked for cannot be done here until the spec changes.
pub(crate) fn invalid(
    stage: &'static str,
    reason: &'static str,
    message: impl Into<String>,
) -> DriverError {
    DriverError::new(ErrorKind::Invalid, stage, reason, message)
}

/// There is no such thing.
pub(crate) fn not_found(stage: &'static str, message: impl Into<String>) -> DriverError {
    DriverError::new(ErrorKind::NotFound, stage, "NotFound", message)
}

/// Something else has the place.
pub(crate) fn conflict(stage: &'static str, message: impl Into<String>) -> DriverError {
    DriverError::new(ErrorKind::Conflict, stage, "Conflict", message)
}

/// Anything else.
pub(crate) fn internal(stage: &'static str, message: impl Into<String>) -> DriverError {
    DriverError::new(ErrorKind::Internal, stage, "LocalFailure", message)
}
