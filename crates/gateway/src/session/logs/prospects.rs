//! What may still come of a log, by the sandbox's record: when following it comes to its end.
//!
//! A log's own end is not enough. The main command's log ends with each execution and goes on with
//! the next one of the same run, perhaps after minutes; and a sandbox that is taken down may never
//! say that a log has ended.

use super::name::main_run;

/// What a sandbox's record says of those who write its logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prospects {
    /// The newest run that was asked for.
    pub run: u64,
    /// Nothing will be started any more, as long as nobody asks for it.
    pub settled: bool,
    /// Nothing runs: the sandbox is down, and this was seen.
    pub down: bool,
}

/// What that means for one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Its writer runs, or is to run again.
    Growing,
    /// Nobody will begin to write it; who still does ends it.
    Ending,
    /// Nobody is there to write it.
    Over,
}

impl Prospects {
    /// There is no such sandbox any more.
    pub(super) const fn gone() -> Self {
        Self { run: u64::MAX, settled: true, down: true }
    }

    /// Of this log.
    pub(super) fn outlook(&self, source: &str) -> Outlook {
        let outdated = main_run(source).is_some_and(|run| run < self.run);
        match (self.settled || outdated, self.down) {
            (false, _) => Outlook::Growing,
            (true, false) => Outlook::Ending,
            (true, true) => Outlook::Over,
        }
    }

    /// The newest run's log.
    pub(super) fn newest(&self) -> String {
        format!("main-{}", self.run)
    }

    /// This is the log of the newest run, as far as it will ever have one.
    pub(super) fn is_newest(&self, source: &str) -> bool {
        main_run(source) >= Some(self.run) || (self.settled && self.down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_grows_while_its_run_may_be_executed_again() {
        let check = |settled, down, expect: [Outlook; 3]| {
            let prospects = Prospects { run: 2, settled, down };
            assert_eq!(["main-1", "main-2", "exec"].map(|it| prospects.outlook(it)), expect);
        };
        use Outlook::{Ending, Growing, Over};
        check(false, false, [Ending, Growing, Growing]);
        // Down and wanted up: it comes back by itself.
        check(false, true, [Over, Growing, Growing]);
        check(true, false, [Ending, Ending, Ending]);
        check(true, true, [Over, Over, Over]);
    }
}
