//! How the main command ended, kept durably until a later execution ends: told again in every
//! session, also by the next PID 1 if this one is killed.

use std::io;

use prost::Message;
use sandkeep_frames::message::MainState;

use crate::state_dir::StateDir;

const FILE: &str = "result";

/// A message that holds one reason and some numbers.
const MOST_BYTES: usize = 64 * 1024;

/// A full disk is tried again so often.
const RETRY_MS: u64 = 2000;

/// The last result.
#[derive(Debug, Default)]
pub struct Results {
    last: Option<MainState>,
    unwritten: bool,
    retry_at_ms: u64,
    /// The gateway has stored it.
    stored: bool,
}

impl Results {
    /// What an earlier PID 1 left. A file that makes no sense counts as none.
    pub fn load(state: &StateDir) -> io::Result<Self> {
        let content = state.read(FILE, MOST_BYTES)?;
        let last = content.and_then(|bytes| MainState::decode(bytes.as_slice()).ok());
        // Runs are counted from 1: an empty file is no result.
        let last = last.filter(|last| last.run > 0);
        Ok(Self { last, ..Self::default() })
    }

    /// The last result.
    pub fn last(&self) -> Option<&MainState> {
        self.last.as_ref()
    }

    /// A new result. If it cannot be written now it is kept in memory, and tried again.
    pub fn record(&mut self, state: &StateDir, result: MainState, now_ms: u64) {
        self.last = Some(result);
        self.stored = false;
        self.write(state, now_ms);
    }

    /// Tries again if it is time.
    pub fn retry(&mut self, state: &StateDir, now_ms: u64) {
        if self.unwritten && now_ms >= self.retry_at_ms {
            self.write(state, now_ms);
        }
    }

    /// When to try again.
    pub fn wakes_at(&self) -> Option<u64> {
        self.unwritten.then_some(self.retry_at_ms)
    }

    /// The gateway has this one durable.
    pub fn stored(&mut self, run: u64, restart: u32) {
        let same = |last: &MainState| (last.run, last.restart) == (run, restart);
        self.stored |= self.last.as_ref().is_some_and(same);
    }

    /// The gateway may not know the last result yet.
    pub fn is_news(&self) -> bool {
        self.last.is_some() && !self.stored
    }

    /// It is kept in memory only, so far.
    pub fn is_unwritten(&self) -> bool {
        self.unwritten
    }

    /// Writes the last result once more.
    pub fn write(&mut self, state: &StateDir, now_ms: u64) {
        let Some(last) = &self.last else {
            return;
        };
        self.unwritten = state.replace(FILE, &last.encode_to_vec()).is_err();
        self.retry_at_ms = now_ms + RETRY_MS;
    }
}

#[cfg(test)]
mod tests {
    use sandkeep_frames::message::Exited;

    use super::*;
    use crate::options::StatePlace;

    fn state(dir: &tempfile::TempDir) -> StateDir {
        StateDir::open(&StatePlace::Directory(dir.path().to_owned())).unwrap()
    }

    fn result(run: u64) -> MainState {
        let exited = Some(Exited { code: 3, ..Exited::default() });
        MainState { run, incarnation: 1, restart: 0, exited }
    }

    #[test]
    fn the_next_process_finds_the_result() {
        let dir = tempfile::tempdir().unwrap();
        let mut results = Results::load(&state(&dir)).unwrap();
        assert_eq!(results.last(), None);
        results.record(&state(&dir), result(7), 0);
        assert_eq!(Results::load(&state(&dir)).unwrap().last(), Some(&result(7)));
    }

    #[test]
    fn a_damaged_file_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        for damaged in [&[0xff; 40][..], &[]] {
            std::fs::write(dir.path().join(FILE), damaged).unwrap();
            assert_eq!(Results::load(&state(&dir)).unwrap().last(), None);
        }
    }

    #[test]
    fn a_result_that_could_not_be_written_is_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(&dir);
        // A directory in the way, as good as a full disk.
        std::fs::create_dir(dir.path().join("result.new")).unwrap();
        let mut results = Results::default();
        results.record(&state, result(7), 0);
        assert_eq!((results.last(), results.wakes_at()), (Some(&result(7)), Some(RETRY_MS)));
        std::fs::remove_dir(dir.path().join("result.new")).unwrap();
        results.retry(&state, RETRY_MS);
        assert_eq!(results.wakes_at(), None);
        assert_eq!(Results::load(&state).unwrap().last(), Some(&result(7)));
    }

    #[test]
    fn only_the_same_execution_counts_as_stored() {
        let dir = tempfile::tempdir().unwrap();
        let mut results = Results::default();
        results.record(&state(&dir), result(7), 0);
        results.stored(6, 0);
        results.stored(7, 1);
        assert!(results.is_news());
        results.stored(7, 0);
        assert!(!results.is_news());
    }
}
