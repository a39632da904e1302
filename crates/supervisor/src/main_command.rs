//! The main command: which execution of which run, and what may replace it.
//!
//! (run, restart) names an execution and only rises. The same one again is answered and starts
//! nothing, a lower one likewise, a higher one waits until the last has ended.

use sandkeep_frames::message::{Exited, Go, MainState};

/// How long the last execution has to end by itself once a higher one is asked for.
pub const REPLACE_GRACE_MS: u64 = 10_000;

/// One execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// Which run.
    pub run: u64,
    /// Which of that run.
    pub restart: u32,
    /// The incarnation in which it was started.
    pub incarnation: u64,
    /// Number of its exec; `None`: there is no command, the sandbox just stays up.
    pub exec: Option<u32>,
}

impl Execution {
    /// Exec id.
    pub fn exec_id(&self) -> String {
        match self.restart {
            0 => format!("main-{}", self.run),
            restart => format!("main-{}-{restart}", self.run),
        }
    }

    /// Log that all executions of the run share.
    pub fn log(&self) -> String {
        format!("main-{}", self.run)
    }

    /// To be told to the gateway.
    pub fn state(&self, exited: Option<Exited>) -> MainState {
        MainState { run: self.run, restart: self.restart, incarnation: self.incarnation, exited }
    }
}

/// What to do about a `go`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not for this incarnation.
    Ignore,
    /// Nothing new: say what is.
    Answer,
    /// A higher execution.
    Start,
}

/// The current execution, and the one that waits for its end.
#[derive(Debug, Default)]
pub struct MainCommand {
    /// The newest one that was started by this PID 1.
    pub current: Option<Execution>,
    /// The next one.
    pub waiting: Option<Go>,
    /// When the current one is killed for the waiting one.
    pub kill_at_ms: Option<u64>,
}

impl MainCommand {
    /// `last` is the result that an earlier PID 1 left.
    pub fn judge(&self, go: &Go, welcomed: Option<u64>, last: Option<&MainState>) -> Verdict {
        if welcomed != Some(go.incarnation) {
            return Verdict::Ignore;
        }
        let waiting = self.waiting.as_ref().map(|waiting| (waiting.run, waiting.restart));
        let current = self.current.map(|current| (current.run, current.restart));
        let last = last.map(|last| (last.run, last.restart));
        let newest = waiting.max(current).max(last);
        if Some((go.run, go.restart)) > newest { Verdict::Start } else { Verdict::Answer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(run: u64, restart: u32, incarnation: u64) -> Go {
        Go { run, restart, incarnation, process: None }
    }

    #[test]
    fn only_a_higher_execution_for_this_incarnation_starts() {
        let current = Execution { run: 5, restart: 2, incarnation: 9, exec: None };
        let main = MainCommand { current: Some(current), ..MainCommand::default() };
        let check = |go: Go, expect| assert_eq!(main.judge(&go, Some(9), None), expect, "{go:?}");
        check(go(5, 2, 9), Verdict::Answer);
        check(go(5, 1, 9), Verdict::Answer);
        check(go(4, 9, 9), Verdict::Answer);
        check(go(5, 3, 9), Verdict::Start);
        check(go(6, 0, 9), Verdict::Start);
        check(go(6, 0, 8), Verdict::Ignore);
        check(go(6, 0, 10), Verdict::Ignore);
        assert_eq!(main.judge(&go(6, 0, 9), None, None), Verdict::Ignore);
    }

    #[test]
    fn an_execution_that_ended_under_an_earlier_process_is_not_repeated() {
        let main = MainCommand::default();
        let last = MainState { run: 5, restart: 1, incarnation: 8, exited: None };
        assert_eq!(main.judge(&go(5, 1, 9), Some(9), Some(&last)), Verdict::Answer);
        assert_eq!(main.judge(&go(5, 2, 9), Some(9), Some(&last)), Verdict::Start);
    }

    #[test]
    fn what_waits_is_the_newest() {
        let main = MainCommand { waiting: Some(go(6, 0, 9)), ..MainCommand::default() };
        assert_eq!(main.judge(&go(6, 0, 9), Some(9), None), Verdict::Answer);
        assert_eq!(main.judge(&go(7, 0, 9), Some(9), None), Verdict::Start);
    }

    #[test]
    fn executions_have_their_own_names_and_share_the_log() {
        let first = Execution { run: 5, restart: 0, incarnation: 9, exec: None };
        let second = Execution { restart: 2, ..first };
        assert_eq!((first.exec_id(), second.exec_id()), ("main-5".into(), "main-5-2".into()));
        assert_eq!((first.log(), second.log()), ("main-5".to_owned(), "main-5".to_owned()));
    }
}
