//! A whole gateway process on a real home: one per home, signals, what a killed one leaves, stores
//! that cannot be used, and how soon it serves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod child;
mod client;
mod refusals;
mod start;
mod stop;
