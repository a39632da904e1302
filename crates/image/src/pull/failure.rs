//! The registry client's errors as ours: what the user can do decides.

use std::error::Error;

use oci_client::errors::{OciDistributionError, OciErrorCode};

use crate::error::{ErrorKind, ImageError};

/// One error with its whole chain of causes in the message.
pub(super) fn of(doing: &str, error: &OciDistributionError) -> ImageError {
    let (kind, reason) = kind(error);
    ImageError { kind, reason, message: format!("{doing}: {}", chain(error)) }
}

fn kind(error: &OciDistributionError) -> (ErrorKind, &'static str) {
    use OciDistributionError as E;
    match error {
        E::AuthenticationFailure(_) | E::UnauthorizedError { .. } => DENIED,
        E::ImageManifestNotFoundError(_) => NOT_FOUND,
        E::RegistryError { envelope, .. } => {
            envelope.errors.first().map_or(INVALID, |first| of_code(&first.code))
        }
        E::ServerError { code, .. } => of_status(*code),
        E::RequestError(_) | E::IoError(_) | E::RegistryTokenDecodeError(_) => UNAVAILABLE,
        E::DigestError(_) => WRONG_DIGEST,
        _ => INVALID,
    }
}

const DENIED: (ErrorKind, &str) = (ErrorKind::Denied, "RegistryDenied");
const NOT_FOUND: (ErrorKind, &str) = (ErrorKind::NotFound, "ImageNotFound");
const UNAVAILABLE: (ErrorKind, &str) = (ErrorKind::Unavailable, "RegistryUnavailable");
const INVALID: (ErrorKind, &str) = (ErrorKind::Invalid, "InvalidImage");
const WRONG_DIGEST: (ErrorKind, &str) = (ErrorKind::Invalid, "WrongDigest");

const fn of_status(code: u16) -> (ErrorKind, &'static str) {
    match code {
        401 | 403 => DENIED,
        404 => NOT_FOUND,
        408 | 425 | 429 | 500.. => UNAVAILABLE,
        _ => INVALID,
    }
}

fn of_code(code: &OciErrorCode) -> (ErrorKind, &'static str) {
    match code {
        OciErrorCode::Denied | OciErrorCode::Unauthorized => DENIED,
        OciErrorCode::ManifestUnknown
        | OciErrorCode::NameUnknown
        | OciErrorCode::BlobUnknown
        | OciErrorCode::NotFound => NOT_FOUND,
        OciErrorCode::Toomanyrequests => UNAVAILABLE,
        _ => INVALID,
    }
}

/// Every level once: some libraries print their cause, some only name it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(level) = cause {
        let level_text = level.to_string();
        if !text.contains(&level_text) {
            text = format!("{text}: {level_text}");
        }
        cause = level.source();
    }
    text
}
