//! The embedded runtime: sandboxes on this machine with no daemon and no image.
//!
//! The driver keeps files and looks at processes; whatever forks, mounts or enters a namespace is
//! done by a helper, the same binary again with one thread. What runs outlives every gateway. See
//! `home` for where things lie, `look` for how a run is recognised.
//!
//! Deliberately absent: intent, retries, phases, sessions' contents.

mod cgroup;
mod check;
mod config;
mod driver;
mod end;
mod failure;
mod helper;
mod home;
mod house;
mod local;
mod look;
mod make;
mod process;
mod record;
mod remove;
mod session;
mod start;
mod sys;
mod template;
mod tenant;
mod tree;
mod watch;
mod workspace;

pub use config::{DEFAULT_UID_BASE, Guard, HelperCommand, Knobs, LocalConfig, Step, UID_COUNT};
pub use driver::LocalDriver;
pub use helper::{HELPER_ARG, helper_main};
