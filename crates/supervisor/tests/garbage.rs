//! Files that make no sense: what lies in the state directory, and what a sandbox has made of its
//! own /etc. The next PID 1 starts all the same, keeps what is good, and goes on.

#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use prost::Message;
use sandkeep_frames::log_entry::{Entries, write_output};
use sandkeep_frames::message::{Exited, LogAck, MainState};
use sandkeep_supervisor::options::{StatePlace, Task};
use sandkeep_supervisor::results::Results;
use sandkeep_supervisor::spool::Spool;
use sandkeep_supervisor::state_dir::StateDir;

/// A seed that failed is kept beside this file, and tried first from then on.
fn config() -> ProptestConfig {
    let seeds = FileFailurePersistence::WithSource("seeds");
    ProptestConfig {
        cases: 512,
        failure_persistence: Some(Box::new(seeds)),
        ..ProptestConfig::default()
    }
}

fn open(dir: &Path) -> StateDir {
    StateDir::open(&StatePlace::Directory(dir.to_owned())).unwrap()
}

/// Names of log files, good and nearly good, with offsets that meet, overlap or are absurd.
fn name() -> impl Strategy<Value = String> {
    let source = prop_oneof![
        4 => Just("main-1".to_owned()),
        2 => Just("a".to_owned()),
        1 => "[a-z0-9.-]{0,70}",
        1 => Just("main-18446744073709551616".to_owned()),
    ];
    let start = prop_oneof![
        4 => Just("0".to_owned()),
        2 => (0..400u32).prop_map(|start| start.to_string()),
        1 => any::<u64>().prop_map(|start| start.to_string()),
        1 => Just(u64::MAX.to_string()),
        1 => Just((u64::MAX - 100).to_string()),
        1 => "[0-9+-]{0,25}",
    ];
    prop_oneof![
        8 => (source, start).prop_map(|(source, start)| format!("log.{source}.{start}")),
        1 => Just("result".to_owned()),
        1 => Just("result.new".to_owned()),
        1 => "[ -.0-~]{1,40}".prop_filter("no path", |name| name != "." && name != ".."),
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let entries = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 0..5);
    let log = entries.prop_map(|outputs| {
        let mut log = Vec::new();
        outputs.iter().for_each(|output| write_output(&mut log, 1, 5, output));
        log
    });
    prop_oneof![
        3 => log.clone(),
        2 => (log, any::<prop::sample::Index>()).prop_map(|(mut log, keep)| {
            log.truncate(keep.index(log.len() + 1));
            log
        }),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => Just(Vec::new()),
    ]
}

/// Ships until nothing comes, and takes everything; no entry is torn and the end is reached.
fn ship(spool: &mut Spool, state: &StateDir) {
    for _ in 0..200 {
        let Some(data) = spool.next(state) else {
            if spool.has_news() {
                // A stretch that cannot be read was passed over.
                continue;
            }
            return;
        };
        let mut entries = Entries::new(data.entries.clone());
        while let Some(Ok(_)) = entries.next() {}
        assert_eq!(entries.consumed(), data.entries.len(), "a torn entry was shipped");
        let offset = data.offset.saturating_add(data.entries.len() as u64);
        spool.acknowledge(state, &LogAck { source: data.source, offset }, 0);
    }
    panic!("the logs have no end");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_lies_in_the_state_directory_logs_go_on(
        files in prop::collection::vec((name(), content()), 0..8),
        acks in prop::collection::vec((Just("main-1"), any::<u64>()), 0..2),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in &files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let state = open(dir.path());
        let mut spool = Spool::load(&state).unwrap();
        for offer in spool.offers() {
            prop_assert!(offer.from <= offer.to, "{offer:?}");
        }
        let have: Vec<_> = acks
            .into_iter()
            .map(|(source, offset)| LogAck { source: source.to_owned(), offset })
            .collect();
        spool.begin_session(&state, &have, 0);
        ship(&mut spool, &state);
        // What is written now arrives, whatever lay there before.
        spool.open(&state, "main-1", 0);
        spool.append(&state, "main-1", 1, 9, b"after all");
        let data = spool.next(&state).expect("the new output");
        prop_assert_eq!(&data.source, "main-1");
        prop_assert!(data.entries.ends_with(b"after all"), "{data:?}");
    }

    #[test]
    fn whatever_lies_in_the_place_of_the_result_the_next_one_is_kept(
        content in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            any::<(u64, u64, i32)>().prop_map(|(run, incarnation, code)| {
                let exited = Some(Exited { code, ..Exited::default() });
                MainState { run, incarnation, restart: 0, exited }.encode_to_vec()
            }),
        ],
        keep in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let keep = keep.index(content.len() + 1);
        fs::write(dir.path().join("result"), &content[..keep]).unwrap();
        let state = open(dir.path());
        let mut results = Results::load(&state).unwrap();
        let next = MainState { run: 3, incarnation: 2, restart: 1, exited: None };
        results.record(&state, next.clone(), 0);
        let reread = Results::load(&state).unwrap();
        prop_assert_eq!(reread.last(), Some(&next));
    }

    #[test]
    fn any_command_line_is_a_task_or_a_sentence(words in prop::collection::vec(prop_oneof![
        Just("init".to_owned()), Just("--socket".to_owned()), Just("--state".to_owned()),
        Just("--state-fd".to_owned()), Just("--version".to_owned()), any::<String>(),
        any::<i64>().prop_map(|number| number.to_string()),
    ], 0..8)) {
        if let Err(sentence) = Task::read(words.into_iter()) {
            prop_assert!(!sentence.is_empty());
        }
    }
}

/// A gigabyte in the place of a small file, without the disk for it: read up to its bound.
#[test]
fn files_that_are_far_too_long_are_not_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["result", "log.main-1.0", "log.a.7"] {
        let file = fs::File::create(dir.path().join(name)).unwrap();
        file.set_len(1 << 30).unwrap();
    }
    let state = open(dir.path());
    let before = peak_kb();
    drop(Results::load(&state).unwrap());
    let mut spool = Spool::load(&state).unwrap();
    spool.begin_session(&state, &[], 0);
    ship(&mut spool, &state);
    assert!(peak_kb() - before < 64 * 1024, "{} kB more", peak_kb() - before);
}

fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Links and pipes in the place of files: never followed, never waited for.
#[test]
fn what_is_no_file_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("x"), b"precious").unwrap();
    std::os::unix::fs::symlink(outside.path().join("x"), dir.path().join("log.a.0")).unwrap();
    let state = open(dir.path());
    for name in ["result", "log.main-1.0"] {
        rustix::fs::mknodat(
            state.fd(),
            name,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    }
    drop(Results::load(&state));
    let mut spool = Spool::load(&state).unwrap();
    spool.begin_session(&state, &[], 0);
    ship(&mut spool, &state);
    assert_eq!(fs::read(outside.path().join("x")).unwrap(), b"precious");
}
