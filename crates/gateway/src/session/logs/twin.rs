//! A property: whatever happens between, a log on disk reads as a simple twin in memory says.

use std::path::Path;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use sandkeep_frames::log_entry::FD_GAP;
use sandkeep_frames::message::LogData;

use super::reading::{More, Reader};
use super::shelf::Shelf;
use super::tests::{entry, offer};

/// What a supervisor, or the machine, does with one log.
#[derive(Debug, Clone)]
enum Step {
    /// The next entries follow.
    Next(u8),
    /// The supervisor dropped so many bytes before the next entry.
    Hole(u16),
    /// Everything of this life is sent again, and one entry more.
    Again,
    /// The gateway is killed: nothing is synced, a torn entry may be left behind.
    Killed { torn: bool },
    /// Another PID 1 that lost its spool.
    Anew,
}

/// The log as it should be read, kept the simplest way.
#[derive(Default)]
struct Twin {
    text: String,
    life: Vec<(usize, Bytes)>,
    end: usize,
    entries: usize,
}

impl Twin {
    fn next(&mut self) -> (usize, Bytes) {
        self.entries += 1;
        let text = format!("<{}>", self.entries);
        let (start, bytes) = (self.end, entry(&text));
        self.text.push_str(&text);
        self.end += bytes.len();
        self.life.push((start, bytes.clone()));
        (start, bytes)
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5u8).prop_map(Step::Next),
        2 => (1..2000u16).prop_map(Step::Hole),
        1 => Just(Step::Again),
        2 => any::<bool>().prop_map(|torn| Step::Killed { torn }),
        1 => Just(Step::Anew),
    ]
}

fn put(shelf: &mut Shelf, (offset, entries): (usize, Bytes)) {
    let source = "main-1".to_owned();
    let data = LogData { source, offset: offset as u64, entries, complete: false };
    shelf.append(&data).unwrap();
}

fn take(step: &Step, twin: &mut Twin, shelf: &mut Shelf, nonce: &mut u64, directory: &Path) {
    match step {
        Step::Next(count) => (0..*count).for_each(|_| put(shelf, twin.next())),
        Step::Hole(bytes) => {
            twin.end += usize::from(*bytes);
            twin.text.push_str("<gap>");
            put(shelf, twin.next());
        }
        Step::Again => {
            shelf.offered(*nonce, &[offer("main-1", twin.end)]);
            twin.life.clone().into_iter().for_each(|piece| put(shelf, piece));
            put(shelf, twin.next());
        }
        Step::Killed { torn } => {
            let source = "main-1".to_owned();
            shelf.sync([source].iter());
            let newest = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let newest = newest.map(|file| file.path()).filter(|path| is_log(path)).max();
            if let Some(path) = newest.filter(|_| *torn) {
                let torn = entry("torn").split_to(15);
                let whole = std::fs::read(&path).unwrap();
                std::fs::write(&path, [&whole[..], &torn[..]].concat()).unwrap();
            }
            *shelf = Shelf::load(directory.to_owned()).unwrap();
            let have = shelf.offered(*nonce, &[offer("main-1", twin.end)]);
            let have = have.first().map_or(0, |ack| ack.offset);
            assert_eq!(have, twin.end as u64);
        }
        Step::Anew => {
            *nonce += 1;
            shelf.offered(*nonce, &[]);
            (twin.life, twin.end) = (Vec::new(), 0);
            put(shelf, twin.next());
        }
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_log_reads_as_it_was_written_whatever_happens_between(steps in vec(step(), 0..12)) {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("logs");
        let mut shelf = Shelf::load(directory.clone()).unwrap();
        let (mut twin, mut nonce) = (Twin::default(), 1);
        shelf.offered(nonce, &[]);
        for step in &steps {
            take(step, &mut twin, &mut shelf, &mut nonce, &directory);
        }
        let mut reader = Reader::new(directory, "main-1".to_owned());
        let mut entries = std::collections::VecDeque::new();
        while reader.read(&mut entries).unwrap() == More::Entries {}
        let text: String = entries
            .into_iter()
            .map(|entry| match entry.fd {
                FD_GAP => "<gap>".to_owned(),
                _ => String::from_utf8(entry.bytes.to_vec()).unwrap(),
            })
            .collect();
        prop_assert_eq!(text, twin.text);
    }
}
