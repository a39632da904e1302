//! Names of the files of one sandbox's logs: everything that has to survive a restart is in them.
//!
//! ```text
//! SOURCE.LIFE.START.log   bytes from offset START on, of the source's LIFE-th beginning
//! SOURCE.LIFE.END.end     that life is complete at offset END
//! boot.NONCE              the supervisor's PID 1 that these logs were last written by
//! ```
//! Numbers are hexadecimal of fixed width, so names sort as their numbers do. A source has no dot.

use crate::session::process::is_exec_id;

/// What a file name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileName {
    /// A stretch of log.
    Segment(Segment),
    /// A life of a source is complete.
    End(Segment),
    /// The PID 1.
    Boot(u64),
}

/// A place in a source's log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    /// `main-RUN` or an exec id.
    pub(super) source: String,
    /// How often the source had begun anew, its earlier log unknown to the supervisor.
    pub(super) life: u32,
    /// Offset in that life.
    pub(super) offset: u64,
}

impl Segment {
    /// The file that holds the bytes from here on.
    pub(super) fn log_name(&self) -> String {
        format!("{}.{:08x}.{:016x}.log", self.source, self.life, self.offset)
    }

    /// The file that says that the life ends here.
    pub(super) fn end_name(&self) -> String {
        format!("{}.{:08x}.{:016x}.end", self.source, self.life, self.offset)
    }
}

/// The file that names the PID 1.
pub(super) fn boot_name(nonce: u64) -> String {
    format!("boot.{nonce:016x}")
}

/// `None`: not one of ours.
pub(super) fn parse(name: &str) -> Option<FileName> {
    let mut parts = name.split('.');
    let source = parts.next()?;
    let number = parts.next()?;
    let Some(offset) = parts.next() else {
        let nonce = u64::from_str_radix(number, 16).ok();
        return nonce.filter(|_| source == "boot").map(FileName::Boot);
    };
    let kind = parts.next()?;
    if !is_exec_id(source) || parts.next().is_some() {
        return None;
    }
    let life = u32::from_str_radix(number, 16).ok()?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    let segment = Segment { source: source.to_owned(), life, offset };
    // A number that is written in another way (shorter, with a sign) names another file than ours:
    // it would be looked for under our name, and never found.
    match kind {
        "log" if segment.log_name() == name => Some(FileName::Segment(segment)),
        "end" if segment.end_name() == name => Some(FileName::End(segment)),
        _ => None,
    }
}

/// The run that a source is the main command of; `None`: an exec.
pub(super) fn main_run(source: &str) -> Option<u64> {
    source.strip_prefix("main-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were() {
        let segment = Segment { source: "main-12".to_owned(), life: 3, offset: 0xabc };
        assert_eq!(parse(&segment.log_name()), Some(FileName::Segment(segment.clone())));
        assert_eq!(parse(&segment.end_name()), Some(FileName::End(segment)));
        assert_eq!(parse(&boot_name(77)), Some(FileName::Boot(77)));
        for other in ["", "x", "x.log", "boot.zz", "A.0.0.log", "a.0.0.tmp", "a.0.0.log.1"] {
            assert_eq!(parse(other), None, "{other}");
        }
        let good = "a.00000000.0000000000000000.log";
        assert!(parse(good).is_some());
        for odd in ["a.0.0.log", &good.replace(".0", ".+"), &good.to_uppercase()] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}
