//! The way out of a sandbox: nothing, but what is allowed by name.
//!
//! ```text
//! program ─▶ loopback in the sandbox ─▶ session ─▶ serve() ─▶ rules ─▶ resolve ─▶ address ─▶ dial
//! ```
//! The sandbox's end only carries bytes; whatever is decided is decided here, outside, from the
//! request itself. A name is resolved here once, and the very addresses that were checked are the
//! ones that are dialled, so that a name cannot mean one thing to the check and another to the
//! connection. Addresses of this machine and its networks are reached only where a rule names that
//! address itself.
//!
//! Deliberately absent: sandboxes, sessions, where decisions are kept, secrets.

mod address;
mod dial;
mod proxy;
mod resolve;
mod rule;

pub use address::Inner;
pub use dial::{Decision, Dialer, Outcome, Refusal};
pub use proxy::serve;
pub use resolve::{Resolve, SystemResolver};
pub use rule::{Host, Rule, RuleError, Rules};
