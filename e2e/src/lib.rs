//! What the end-to-end tests share: the real binary, a home of its own for each test, waiting for
//! states, counting what is left behind.
//!
//! Nothing here knows the inside of Sandkeep: everything goes through the command line, as a user
//! or a script would.

pub mod guest;
pub mod home;
pub mod leftovers;
pub mod manifest;
pub mod pty;
pub mod wait;

pub use guest::{Guest, Speaker, Way};
pub use home::{Done, Home};
pub use wait::until;
