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

mod book;
mod clock;
mod disk;
mod every_step;
mod faults;
mod house;
mod life;
mod seeds;
mod sessions;
mod settled;
mod tally;
mod verbs;
mod walk;
mod wish;
