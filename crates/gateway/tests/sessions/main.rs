//! Sessions: the hub against a supervisor that is played frame by frame, and against the real one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod execs;
mod hostile;
mod keeping;
mod noise;
mod peer;
mod process;
mod real;
mod world;
