//! A failure as the user reads it: what failed, why, what to do next, and the exit code.
//!
//! Statuses of the gateway become failures here and nowhere else; a transport error or a debug
//! print never reaches the user.

use prost::Message as _;
use sandkeep_gateway::refusal::Refusal;
use sandkeep_proto::v1::ErrorDetail;
use tonic::{Code, Status};

/// The metadata key under which the gateway sends an [`ErrorDetail`].
pub(crate) const DETAIL_KEY: &str = "sandkeep-error-bin";

/// The reason of a gateway that ends what is under way because it was told to stop.
pub(crate) const GATEWAY_STOPPING: &str = "GatewayStopping";

/// Exit codes of the contract.
pub(crate) mod exit {
    /// It failed.
    pub(crate) const FAILED: u8 = 1;
    /// The command line makes no sense.
    pub(crate) const USAGE: u8 = 2;
    /// There is no such thing.
    pub(crate) const NOT_FOUND: u8 = 3;
    /// It exists already, or not in this state.
    pub(crate) const CONFLICT: u8 = 4;
    /// Gateway or engine cannot be reached.
    pub(crate) const UNREACHABLE: u8 = 5;
    /// Timed out; work goes on.
    pub(crate) const TIMED_OUT: u8 = 6;
    /// Not permitted.
    pub(crate) const NOT_PERMITTED: u8 = 7;
    /// `run` and `exec`: Sandkeep itself failed, not the command.
    pub(crate) const SANDKEEP: u8 = 125;
    /// The waiting or the attachment was ended by Ctrl-C, as a shell reports it.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// What failed, why, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What failed, a clause.
    pub(crate) what: String,
    /// Why, a clause; empty: not known.
    pub(crate) why: String,
    /// What to do next; empty: nothing helps.
    pub(crate) next: String,
    /// One CamelCase word for this program itself.
    pub(crate) reason: String,
    /// The process's exit code.
    pub(crate) exit: u8,
    /// The connection broke, rather than that the gateway refused: asking again may help.
    pub(crate) transport: bool,
}

impl Failure {
    /// A failure found by this program itself.
    pub(crate) fn new(
        exit: u8,
        what: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            next: next.into(),
            reason: String::new(),
            exit,
            transport: false,
        }
    }

    /// An option's value makes no sense.
    pub(crate) fn usage(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(exit::USAGE, what, why, "see: sandkeep help")
    }

    /// The gateway's status, for an attempt that `what` names (`sandbox "lab" was not started`).
    pub(crate) fn of_status(what: &str, status: &Status) -> Self {
        detail(status).map_or_else(|| Self::of_bare_status(what, status), Self::of_detail)
    }

    fn of_detail(detail: ErrorDetail) -> Self {
        let exit = u8::try_from(detail.exit_code).ok().filter(|code| *code != 0);
        // A gateway that stops says so; the next one can be asked.
        let transport = detail.reason == GATEWAY_STOPPING;
        Self {
            what: detail.what,
            why: detail.why,
            next: detail.next,
            reason: detail.reason,
            exit: exit.unwrap_or(exit::FAILED),
            transport,
        }
    }

    /// Without a detail it was not the gateway's own code that answered.
    fn of_bare_status(what: &str, status: &Status) -> Self {
        let (exit, why, next) = match status.code() {
            Code::Unimplemented => (
                exit::FAILED,
                "the gateway that runs is of another version and does not know this",
                "bring it up to date: sandkeep gateway restart",
            ),
            Code::NotFound => (exit::NOT_FOUND, "there is none", "see: sandkeep list"),
            Code::AlreadyExists => (exit::CONFLICT, "it exists already", "see: sandkeep list"),
            Code::FailedPrecondition | Code::Aborted => {
                (exit::CONFLICT, "not in its present state", "see: sandkeep list")
            }
            Code::InvalidArgument | Code::OutOfRange => {
                (exit::USAGE, "the gateway does not accept the request", "see: sandkeep help")
            }
            Code::PermissionDenied | Code::Unauthenticated => {
                (exit::NOT_PERMITTED, "the gateway does not permit it", "ask its owner")
            }
            Code::DeadlineExceeded => {
                (exit::TIMED_OUT, "the gateway took too long", "the work may go on; look again")
            }
            _ => (
                exit::UNREACHABLE,
                "the connection to the gateway broke",
                "try again; to see how it is: sandkeep gateway status",
            ),
        };
        Self { transport: exit == exit::UNREACHABLE, ..Self::new(exit, what.to_owned(), why, next) }
    }

    /// The same failure with another exit code.
    #[must_use]
    pub(crate) fn with_exit(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }
}

impl From<Refusal> for Failure {
    /// A refusal of this process's own gateway.
    fn from(refusal: Refusal) -> Self {
        let exit = u8::try_from(refusal.kind.exit_code()).unwrap_or(exit::FAILED);
        let reason = refusal.reason.to_owned();
        Self { reason, ..Self::new(exit, refusal.what, refusal.why, refusal.next) }
    }
}

/// The detail that the gateway sent with a status; `None`: there is none or it is garbled.
pub(crate) fn detail(status: &Status) -> Option<ErrorDetail> {
    let value = status.metadata().get_bin(DETAIL_KEY)?;
    ErrorDetail::decode(value.to_bytes().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::metadata::{MetadataMap, MetadataValue};

    fn with_detail(detail: &ErrorDetail) -> Status {
        let mut metadata = MetadataMap::new();
        metadata.insert_bin(DETAIL_KEY, MetadataValue::from_bytes(&detail.encode_to_vec()));
        Status::with_metadata(Code::NotFound, "raw words", metadata)
    }

    #[test]
    fn the_gateways_own_words_and_exit_code_are_used() {
        let status = with_detail(&ErrorDetail {
            what: "no sandbox \"lab\"".into(),
            why: "it was never made".into(),
            next: "sandkeep list".into(),
            reason: "NotFound".into(),
            exit_code: 3,
        });
        let failure = Failure::of_status("x", &status);
        assert_eq!((failure.what.as_str(), failure.exit), ("no sandbox \"lab\"", 3));
        assert!(!failure.transport);
    }

    #[test]
    fn a_status_without_detail_never_shows_its_raw_message() {
        for (code, exit) in [
            (Code::Unavailable, 5),
            (Code::Unknown, 5),
            (Code::Internal, 5),
            (Code::Cancelled, 5),
            (Code::NotFound, 3),
            (Code::AlreadyExists, 4),
            (Code::FailedPrecondition, 4),
            (Code::InvalidArgument, 2),
            (Code::PermissionDenied, 7),
            (Code::DeadlineExceeded, 6),
            (Code::Unimplemented, 1),
        ] {
            let failure = Failure::of_status("it failed", &Status::new(code, "h2 hyper os error"));
            assert_eq!(failure.exit, exit, "{code:?}");
            assert!(!format!("{failure:?}").contains("hyper"));
        }
    }

    #[test]
    fn a_garbled_detail_counts_as_none() {
        let mut metadata = MetadataMap::new();
        metadata.insert_bin(DETAIL_KEY, MetadataValue::from_bytes(b"\xff\xff\xff"));
        let status = Status::with_metadata(Code::NotFound, "x", metadata);
        assert_eq!(Failure::of_status("it failed", &status).exit, 3);
    }
}
