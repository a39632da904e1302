//! The control plane: keeps sandboxes as asked for.
//!
//! Intent comes in through [`Gateway`] (the verbs), is durable in the store, and the reconciler
//! makes it come about: queue, observe, execute, report. What to do next is decided in
//! `sandkeep-core` alone; what a runtime can do is known by drivers alone.
//!
//! Deliberately absent: knowledge of any one runtime, and any decision about a sandbox's life.

mod adopt;
pub mod clock;
pub mod config;
mod connection;
mod drivers;
pub mod entropy;
pub mod failpoint;
mod follow;
pub mod gateway;
pub mod grpc;
pub mod home;
pub mod http;
pub mod metrics;
pub mod reconcile;
pub mod refusal;
mod registry;
pub mod serve;
pub mod session;
pub mod sessions;
mod shared;
pub mod verbs;

pub use clock::{Clock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
pub use gateway::{CreateSandbox, Gateway, GatewayParts, Snapshot, WorkspaceView};
pub use metrics::Metrics;
pub use serve::{DriverFactory, DriverPlace, GatewayOptions, ServeError, serve};
pub use sessions::{GoOrder, SessionError, SessionTarget, Sessions};
