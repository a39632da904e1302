//! The hub against a supervisor that is played by the test, frame by frame.

mod execs;
mod hostile;
mod noise;
mod peer;
mod real;
mod sessions;
mod throughput;
mod world;
