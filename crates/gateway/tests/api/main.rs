//! The API as a client meets it: over a Unix socket, on a real gateway with a store in memory, the
//! simulated driver, real sessions, and a supervisor that speaks real frames.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_messages;
mod callers;
mod driver;
mod every_method;
mod execs;
mod http;
mod names;
mod scene;
mod streams;
mod supervisor;
mod verbs;
