//! Refusals on the wire: a gRPC status, with the three parts and the exit code in its metadata.

use prost::Message;
use sandkeep_proto::v1::ErrorDetail;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::refusal::{Refusal, RefusalKind};

/// Where an [`ErrorDetail`] is found in the metadata of a status.
pub const ERROR_DETAIL_KEY: &str = "sandkeep-error-bin";

/// Metadata travels in HTTP/2 headers, which peers bound to 16 KiB; base64 makes it a third longer.
const PART_MAX_BYTES: usize = 2048;

/// The status of a refusal.
pub(crate) fn of(refusal: &Refusal) -> Status {
    with_code(code(refusal), refusal)
}

/// The status of a refusal whose kind alone does not tell the code.
pub(crate) fn with_code(code: Code, refusal: &Refusal) -> Status {
    let detail = ErrorDetail {
        what: cut(&refusal.what),
        why: cut(&refusal.why),
        next: cut(&refusal.next),
        reason: refusal.reason.to_owned(),
        exit_code: refusal.kind.exit_code(),
    };
    let message = format!("{}: {}", detail.what, detail.why);
    let mut status = Status::new(code, message);
    let bytes = MetadataValue::from_bytes(&detail.encode_to_vec());
    status.metadata_mut().insert_bin(ERROR_DETAIL_KEY, bytes);
    status
}

fn code(refusal: &Refusal) -> Code {
    match refusal.kind {
        RefusalKind::Invalid => Code::InvalidArgument,
        RefusalKind::NotFound => Code::NotFound,
        RefusalKind::AlreadyExists => Code::AlreadyExists,
        RefusalKind::Conflict => Code::FailedPrecondition,
        RefusalKind::Unreachable => Code::Unavailable,
        RefusalKind::TimedOut => Code::DeadlineExceeded,
        RefusalKind::NotPermitted => Code::PermissionDenied,
        RefusalKind::DiskFull => Code::ResourceExhausted,
        RefusalKind::Failed => Code::Internal,
    }
}

/// The gateway goes away; what was asked can be asked again of the next one.
pub(crate) fn stopping() -> Status {
    of(&Refusal::new(
        RefusalKind::Unreachable,
        "GatewayStopping",
        "the connection was ended",
        "the gateway is stopping; sandboxes go on",
        "ask again once it is back: sandkeep gateway start",
    ))
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(PART_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_parts_and_the_exit_code_travel() {
        let refusal = Refusal::new(RefusalKind::NotFound, "NotFound", "a", "b", "c");
        let status = of(&refusal);
        assert_eq!((status.code(), status.message()), (Code::NotFound, "a: b"));
        let bytes = status.metadata().get_bin(ERROR_DETAIL_KEY).unwrap().to_bytes().unwrap();
        let detail = ErrorDetail::decode(bytes).unwrap();
        assert_eq!((detail.what.as_str(), detail.why.as_str()), ("a", "b"));
        assert_eq!((detail.next.as_str(), detail.exit_code), ("c", 3));
    }

    #[test]
    fn a_refusal_that_quotes_much_still_fits_into_headers() {
        let long = "ä".repeat(100_000);
        let refusal = Refusal::new(RefusalKind::Failed, "X", &long, &long, &long);
        let status = of(&refusal);
        assert!(status.message().len() < 5000);
        let bytes = status.metadata().get_bin(ERROR_DETAIL_KEY).unwrap();
        assert!(bytes.as_encoded_bytes().len() < 9000);
    }
}
