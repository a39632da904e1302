//! What must hold for logs: nothing lost that had room, nothing doubled, bounds kept.

use sandkeep_frames::WINDOW_BYTES;
use sandkeep_frames::log_entry::{Entries, FD_GAP, LogEntry};
use sandkeep_frames::message::LogAck;

use super::*;
use crate::options::StatePlace;

struct World {
    dir: tempfile::TempDir,
    state: StateDir,
    spool: Spool,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&StatePlace::Directory(dir.path().to_owned())).unwrap();
        Self { dir, state, spool: Spool::default() }
    }

    fn write(&mut self, source: &str, text: &[u8]) {
        self.spool.append(&self.state, source, 1, 0, text);
    }

    fn open(&mut self, source: &str) {
        self.spool.open(&self.state, source, 0);
    }

    fn restart(&mut self) {
        self.spool = Spool::load(&self.state).unwrap();
    }

    /// Ships until nothing comes, acknowledging all; text and offset of the first byte.
    fn ship(&mut self) -> (u64, Vec<u8>) {
        let (mut first, mut bytes) = (None, Vec::new());
        while let Some(data) = self.spool.next(&self.state) {
            first.get_or_insert(data.offset);
            for entry in read(&data.entries) {
                bytes.extend_from_slice(&entry.bytes);
            }
            let offset = data.offset + data.entries.len() as u64;
            self.spool.acknowledge(&self.state, &LogAck { source: data.source, offset }, 0);
        }
        (first.unwrap_or(0), bytes)
    }

    fn disk_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }
}

fn read(entries: &bytes::Bytes) -> Vec<LogEntry> {
    let mut all = Entries::new(entries.clone());
    let list = all.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(all.consumed(), entries.len(), "a torn entry was shipped");
    list
}

#[test]
fn a_log_is_shipped_once_and_freed() {
    let mut world = World::new();
    world.open("a");
    world.write("a", b"one ");
    world.write("a", b"two");
    assert_eq!(world.ship().1, b"one two");
    world.write("a", b" three");
    world.spool.complete("a");
    assert_eq!(world.ship().1, b" three");
    assert_eq!((world.spool.offers().len(), world.disk_bytes()), (0, 0));
}

#[test]
fn the_newest_runs_log_keeps_its_offset_for_the_next_execution() {
    let mut world = World::new();
    for source in ["main-9", "main-10"] {
        world.open(source);
        world.write(source, b"one");
        world.spool.complete(source);
    }
    world.ship();
    let offers = world.spool.offers();
    let [offer] = &offers[..] else { panic!("{offers:?}") };
    assert!(offer.source == "main-10" && offer.to > 0, "{offer:?}");
    world.open("main-10");
    assert!(!world.spool.offers()[0].complete);
}

#[test]
fn what_was_not_acknowledged_is_shipped_again_in_the_next_session() {
    let mut world = World::new();
    world.open("a");
    world.write("a", b"text");
    let first = world.spool.next(&world.state).unwrap();
    assert!(world.spool.next(&world.state).is_none());
    world.spool.begin_session(&world.state, &[], 0);
    assert_eq!(world.spool.next(&world.state).unwrap(), first);
    let have = LogAck { source: "a".into(), offset: first.entries.len() as u64 };
    world.spool.begin_session(&world.state, &[have], 0);
    assert!(world.spool.next(&world.state).is_none());
}

#[test]
fn logs_outlive_the_process_and_the_main_command_goes_on_at_its_offset() {
    let mut world = World::new();
    for source in ["main-3", "a"] {
        world.open(source);
        world.write(source, b"before ");
    }
    world.restart();
    let complete: Vec<_> = world.spool.offers().iter().map(|offer| offer.complete).collect();
    assert_eq!(complete, [true, true]);
    let end = world.spool.offers()[1].to;
    world.open("main-3");
    world.write("main-3", b"after");
    assert_eq!(world.spool.offers()[1].to, end + 13 + 5);
    assert_eq!(world.ship().1, b"before before after");
}

#[test]
fn an_offset_outlives_the_bytes() {
    let mut world = World::new();
    world.open("main-3");
    world.write("main-3", &[b'x'; 400_000]);
    assert_eq!(world.ship().1.len(), 400_000);
    let end = world.spool.offers()[0].to;
    assert_eq!(world.disk_bytes(), 0);
    world.restart();
    assert_eq!((world.spool.offers()[0].from, world.spool.offers()[0].to), (end, end));
}

#[test]
fn a_torn_entry_is_cut_off_after_a_restart() {
    let mut world = World::new();
    world.open("main-3");
    world.write("main-3", b"whole");
    world.write("main-3", b"torn");
    let path = world.dir.path().join("log.main-3.0");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(13 + 5 + 13 + 2).unwrap();
    world.restart();
    world.open("main-3");
    world.write("main-3", b" next");
    assert_eq!(world.ship().1, b"whole next");
}

#[test]
fn a_log_that_nobody_takes_keeps_its_newest_bytes() {
    let mut world = World::new();
    world.open("a");
    for number in 0..1000u32 {
        world.write("a", &[number.to_le_bytes().as_slice(), &[b'x'; 20_000]].concat());
    }
    assert!(world.disk_bytes() <= 2 * log::SEGMENT_BYTES);
    let (first, bytes) = world.ship();
    assert!(first > 0 && bytes.len() > 1024 * 1024, "{first} {}", bytes.len());
    assert!(bytes.ends_with(&[999u32.to_le_bytes().as_slice(), &[b'x'; 20_000]].concat()));
}

#[test]
fn all_logs_together_are_bounded() {
    let mut world = World::new();
    for number in 0..20 {
        let source = format!("e{number}");
        world.open(&source);
        for _ in 0..70 {
            world.write(&source, &[b'x'; 60_000]);
        }
    }
    assert!(world.disk_bytes() <= MOST_BYTES, "{}", world.disk_bytes());
    for number in 0..2 * MOST_LOGS {
        world.open(&format!("n{number}"));
    }
    assert!(world.spool.offers().len() <= MOST_LOGS);
}

#[test]
fn a_writer_waits_for_a_gateway_that_takes_and_for_no_other() {
    let mut world = World::new();
    world.open("a");
    let fill = |world: &mut World| world.write("a", &[b'x'; 1_500_000]);
    fill(&mut world);
    assert!(!world.spool.holds_back("a", 0), "there is no session");
    world.spool.begin_session(&world.state, &[], 1000);
    assert!(world.spool.holds_back("a", 1001));
    assert_eq!(world.spool.wakes_at(1001), Some(3000));
    assert!(!world.spool.holds_back("a", 3000), "it takes nothing");
    let data = world.spool.next(&world.state).unwrap();
    let offset = data.entries.len() as u64;
    let ack = LogAck { source: "a".into(), offset };
    world.spool.acknowledge(&world.state, &ack, 3500);
    assert!(!world.spool.holds_back("a", 3500), "there is room again");
    fill(&mut world);
    assert!(world.spool.holds_back("a", 5000));
    world.spool.end_session();
    assert!(!world.spool.holds_back("a", 5000));
}

#[test]
fn a_log_that_begins_within_a_session_holds_its_writer_back_too() {
    let mut world = World::new();
    world.spool.begin_session(&world.state, &[], 1000);
    world.spool.open(&world.state, "a", 50_000);
    world.write("a", &[b'x'; 1_500_000]);
    assert!(world.spool.holds_back("a", 50_001));
    assert!(!world.spool.holds_back("a", 52_000));
}

#[test]
fn a_burst_after_a_long_silence_holds_its_writer_back_too() {
    let mut world = World::new();
    world.open("a");
    world.spool.begin_session(&world.state, &[], 1000);
    world.write("a", b"early");
    assert_eq!(world.ship().1, b"early");
    world.spool.news_at("a", 900_000);
    world.write("a", &[b'x'; 1_500_000]);
    // More of the burst is no new beginning.
    world.spool.news_at("a", 901_999);
    assert!(world.spool.holds_back("a", 901_999));
    assert!(!world.spool.holds_back("a", 902_000));
}

#[test]
fn no_more_than_a_window_is_under_way() {
    let mut world = World::new();
    world.open("a");
    world.write("a", &[b'x'; 2_000_000]);
    let mut under_way = 0;
    while let Some(data) = world.spool.next(&world.state) {
        under_way += data.entries.len() as u64;
    }
    assert!((WINDOW_BYTES..2 * WINDOW_BYTES).contains(&under_way), "{under_way}");
}

#[test]
fn output_that_the_disk_does_not_take_is_marked_as_a_gap() {
    let mut world = World::new();
    world.open("a");
    // A directory in the place of the file, as good as a full disk.
    let in_the_way = world.dir.path().join("log.a.0");
    std::fs::create_dir(&in_the_way).unwrap();
    world.write("a", b"lost");
    world.write("a", b"lost too");
    std::fs::remove_dir(&in_the_way).unwrap();
    world.write("a", b"kept");
    let data = world.spool.next(&world.state).unwrap();
    let entries = read(&data.entries);
    assert_eq!((entries[0].fd, &entries[0].bytes[..]), (FD_GAP, &b"12"[..]));
    assert_eq!(&entries[1].bytes[..], b"kept");
}

#[test]
fn room_is_made_for_what_matters_more_and_the_offset_kept() {
    let mut world = World::new();
    world.open("main-1");
    world.write("main-1", &[b'x'; 1000]);
    let end = world.spool.offers()[0].to;
    assert!(world.spool.make_room(&world.state));
    assert_eq!((world.disk_bytes(), world.spool.offers()[0].to), (0, end));
    assert!(!world.spool.make_room(&world.state));
    world.write("main-1", b"next");
    assert_eq!(world.ship(), (end, b"next".to_vec()));
}

#[test]
fn a_new_run_completes_the_logs_of_the_others() {
    let mut world = World::new();
    for source in ["main-1", "main-2", "a"] {
        world.open(source);
    }
    world.spool.complete_other_runs("main-2");
    let complete: Vec<_> = world.spool.offers().iter().map(|offer| offer.complete).collect();
    assert_eq!(complete, [false, true, false]);
}
