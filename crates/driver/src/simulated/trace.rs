//! What happened, line by line, and a fingerprint of it: two runs of a seed must agree in it.

use std::fmt::Write as _;

/// FNV-1a, 64 bits: no dependency, and a fingerprint needs to resist nobody.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A running fingerprint of all lines, and the lines themselves where asked for.
#[derive(Debug, Clone)]
pub struct Trace {
    hash: u64,
    kept: Option<Vec<String>>,
    line: String,
}

impl Trace {
    /// Keeps the lines with `keep`; else only the fingerprint.
    pub fn new(keep: bool) -> Self {
        Self { hash: OFFSET, kept: keep.then(Vec::new), line: String::new() }
    }

    /// Adds a line, `millis` after the beginning of the world.
    pub fn add(&mut self, millis: u64, text: std::fmt::Arguments<'_>) {
        self.line.clear();
        // Writing into a String cannot fail.
        let _written = write!(self.line, "{:>9}.{:03} {text}", millis / 1000, millis % 1000);
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        if let Some(lines) = &mut self.kept {
            lines.push(self.line.clone());
        }
    }

    /// The fingerprint so far.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines so far; empty when they are not kept.
    pub fn lines(&self) -> &[String] {
        self.kept.as_deref().unwrap_or_default()
    }
}
