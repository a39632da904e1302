//! Seeded simulation of the real gateway on a simulated world and virtual time.
//!
//! ```text
//!  Walk: users (verbs.rs), faults (faults.rs) ──▶ House: gateway, store, clock, sessions
//!    │ after every slice of time                          │ drivers, supervisors
//!    ▼                                                    ▼
//!  Book: what was promised  ◀── held against ──▶  World: what is (sandkeep-driver, simulated)
//! ```
//! A seed has two phases: rough times; then faults freeze (what is dead stays dead), all that can
//! must come about within a bound, and from then on nothing is written and nothing is done.
//!
//! `SANDKEEP_SIM_SEEDS=N` walks that many; `SANDKEEP_SIM_SEED=S` one, with its trace
//! (`cargo xtask sim S`).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test tells and fails aloud")]
#![allow(clippy::large_futures, reason = "one walk at a time on a stack of its own")]

mod book;
mod clock;
mod disk;
mod every_step;
mod faults;
mod house;
mod known_faults;
mod life;
mod public_faults;
mod seeds;
mod sessions;
mod settled;
mod stage;
mod tally;
mod verbs;
mod walk;
mod wish;
mod writes;
