//! Guards: what PID 1 takes from itself, and so from everything that it starts.

pub mod capabilities;
