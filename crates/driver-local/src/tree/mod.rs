//! Trees that an agent owned and may have turned into anything: of any depth and any width, full of
//! links, pipes, devices and directories that nobody may enter.
//!
//! They are walked from one directory descriptor to the next; no link is followed, no mount is
//! entered, nothing but directories is ever opened. The walk itself knows no identity: the helper
//! does it with the agent's own (`helper::clear`), and only what the agent has no power over is
//! finished by the host's root.

mod remove;
mod walk;

pub(crate) use remove::{Left, clear, remove_as_root};
