//! Sessions with supervisors: one per sandbox, kept open for ever, shared by everything that talks
//! to the inside of a sandbox.
//!
//! ```text
//!  reconciler --want/go/result--> SessionHub <--exec_open/exec_attach-- gRPC
//!                                    |
//!            one task per sandbox:  keeper --open_session--> driver
//!                                    |  handshake, probe, reconnect
//!                                  link: reader -> dispatch -> exec inboxes, log store, facts
//!                                        writer <- outbox (fair between streams)
//! ```
//! What a supervisor says is untrusted and touches its own sandbox only: every queue here is
//! bounded by a window that the supervisor must keep, or it loses that exec.
//!
//! Deliberately absent: any decision about a sandbox's life. The hub says what it knows and wakes
//! the reconciler.

mod dispatch;
pub mod exec;
mod facts;
mod greeting;
pub mod hub;
mod inbox;
mod keeper;
mod link;
pub mod logs;
mod outbox;
mod probe;
mod process;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use exec::{ExecExit, ExecInput, ExecOutput, ExecRequest, ExecStream};
pub use hub::SessionHub;
pub use logs::{LogError, LogQuery, LogStore, LogStream, Prospects};

/// Locks. A panic elsewhere while it was held left nothing half-done that matters here: every
/// critical section is a few moves of values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
