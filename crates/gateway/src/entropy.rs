//! The only place that takes random bytes, so that simulation can repeat a run.

use std::fmt;
use std::io;

/// A source of random bytes.
pub trait Entropy: Send + Sync + fmt::Debug + 'static {
    /// Eight random bytes, good enough for keys.
    fn bytes(&self) -> io::Result<[u8; 8]>;
}

/// The system's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bytes(&self) -> io::Result<[u8; 8]> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(bytes)
    }
}
