//! PID 1 in every sandbox: starts, watches and ends processes for the gateway, and keeps their
//! results and output safe while no gateway is there. One thread, a few MB, no libc of the sandbox.
//!
//! Deliberately absent: deciding anything about the sandbox (the gateway's core does), mounts and
//! namespaces (the driver's), tokio and gRPC (size). The gateway is hostile input too: whatever it
//! sends is bounded before it takes memory.
//!
//! ```text
//!            .--- signals: children ended, stop
//!  poller ---+--- session: frames from and to the gateway
//!            '--- exec/*: pipes and terminals ----> window --> session
//!                                              '--> spool ---> session
//! ```

pub mod clock;
pub mod exec;
pub mod guards;
pub mod limits;
pub mod lingering;
pub mod loopback;
pub mod main_command;
pub mod options;
pub mod poller;
pub mod reap;
pub mod results;
pub mod session;
pub mod signals;
pub mod spool;
pub mod start;
pub mod state_dir;
pub mod supervisor;
pub mod usage;
pub mod user;
