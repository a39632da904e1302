//! The command line against a gateway that follows a script: exit codes, attachments that go on
//! where they broke, waits, and what is printed where.

#![allow(clippy::unwrap_used, reason = "a test ends at what cannot be")]

mod exec;
mod fake;
mod process;
mod run;
mod usage;
mod verbs;
mod waits;
