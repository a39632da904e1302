//! Time and attachment, with a clock that the test turns.

use rustix::pipe::{PipeFlags, pipe_with};

use super::*;

const LATER: u64 = ATTACH_PATIENCE_MS;

/// An exec on pipes whose other ends the test holds.
struct World {
    exec: Exec,
    stdout: Option<OwnedFd>,
    _stderr: OwnedFd,
}

impl World {
    fn new(attached: bool) -> Self {
        let pipe = || pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let ((out, stdout), (err, stderr), (failure, _)) = (pipe(), pipe(), pipe());
        let spawned = Spawned { pid: 77, stdin: None, stdout: out, stderr: Some(err), failure };
        let process = Process { attached, ..Process::default() };
        let exec = Exec::started("a".to_owned(), &process, spawned, 0);
        Self { exec, stdout: Some(stdout), _stderr: stderr }
    }

    /// The process writes; gives what is read at that time.
    fn write(&mut self, bytes: usize, now_ms: u64) -> usize {
        let mut read = 0;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(4096);
            let stdout = self.stdout.as_ref().unwrap();
            if rustix::io::write(stdout, &vec![b'x'; part]) != Ok(part) {
                break;
            }
            left -= part;
            read += self.read(now_ms);
        }
        read
    }

    fn read(&mut self, now_ms: u64) -> usize {
        let mut read = 0;
        loop {
            let room = self.exec.room(&self.exec.outputs[0], true, now_ms);
            self.exec.outputs[0].ready = true;
            match self.exec.outputs[0].fill(room) {
                output::Fill::Bytes(count) => read += count,
                _ => break,
            }
            self.exec.shed(now_ms);
        }
        read
    }

    fn end(&mut self, now_ms: u64) {
        self.exec.ended(Ended { pid: 77, code: 3, signal: 0 }, now_ms, 0);
    }
}

#[test]
fn output_waits_for_a_client_for_the_patience_and_no_longer() {
    let mut world = World::new(true);
    let window = usize::try_from(sandkeep_frames::WINDOW_BYTES).unwrap();
    assert_eq!(world.write(2 * window, LATER - 1), window);
    assert_eq!(world.exec.wakes_at(LATER - 1), Some(LATER));
    assert!(world.read(LATER) > 0);
    assert!(world.exec.held() <= UNATTENDED_BYTES);
    assert_eq!(world.exec.wakes_at(LATER), None);
}

#[test]
fn the_patience_begins_when_the_client_goes() {
    let mut world = World::new(true);
    world.exec.attach(1, 0, 0);
    assert!(!world.exec.flows_freely(10 * LATER));
    world.exec.detach(10 * LATER);
    assert!(!world.exec.flows_freely(11 * LATER - 1));
    assert!(world.exec.flows_freely(11 * LATER));
}

#[test]
fn a_process_that_waits_for_nobody_keeps_its_newest_output() {
    let mut world = World::new(false);
    assert_eq!(world.write(3_000_000, 1), 3_000_000);
    assert_eq!(world.exec.held(), UNATTENDED_BYTES);
    let attached = world.exec.attach(1, 0, 0);
    assert_eq!(attached.stdout_offset, 3_000_000 - UNATTENDED_BYTES as u64);
}

/// The turn that the loop makes: note whether there is room, and read what there is room for.
fn turn(world: &mut World, now_ms: u64) -> usize {
    let full = world.exec.room(&world.exec.outputs[0], true, now_ms) == 0;
    world.exec.note_room(full, now_ms);
    world.read(now_ms) + world.write(3_000_000, now_ms)
}

#[test]
fn a_client_that_takes_nothing_holds_the_main_command_up_for_the_patience_alone() {
    let window = usize::try_from(sandkeep_frames::WINDOW_BYTES).unwrap();
    let mut world = World::new(true);
    world.exec.is_main = true;
    world.exec.attach(7, 0, 0);
    assert_eq!(turn(&mut world, 500), window);
    assert_eq!(turn(&mut world, 1000), 0);
    assert_eq!(world.exec.wakes_at(1000), Some(1000 + LATER));
    assert_eq!(world.exec.leave_stalled_client(1000 + LATER - 1), None);
    assert_eq!(world.exec.leave_stalled_client(1000 + LATER), Some(7));
    assert!(turn(&mut world, 1000 + LATER) >= 3_000_000);
    assert!(world.exec.held() <= MISSED_BYTES);
    // Back again, it hears from the offset how much it missed, and is waited for anew.
    let attached = world.exec.attach(8, 0, 0);
    assert_eq!(attached.stdout_offset, world.exec.outputs[0].window.start());
    assert!(attached.stdout_offset > 0);
    assert_eq!(turn(&mut world, 2000 + LATER), 0);
    assert_eq!(world.exec.leave_stalled_client(2000 + 2 * LATER - 1), None);
}

#[test]
fn a_client_that_takes_a_little_is_waited_for() {
    let mut world = World::new(true);
    world.exec.is_main = true;
    world.exec.attach(7, 0, 0);
    turn(&mut world, 0);
    for round in 1..10 {
        turn(&mut world, round * (LATER - 1));
        assert_eq!(world.exec.leave_stalled_client(round * (LATER - 1)), None);
        let (offset, bytes) = world.exec.outputs[0].window.take_next().unwrap();
        world.exec.outputs[0].window.acknowledge(offset + bytes.len() as u64);
        turn(&mut world, round * (LATER - 1) + 1);
    }
}

#[test]
fn an_exec_waits_for_its_client_however_long_that_takes_nothing() {
    let mut world = World::new(true);
    world.exec.attach(7, 0, 0);
    turn(&mut world, 0);
    turn(&mut world, 1000);
    assert_eq!(world.exec.leave_stalled_client(1000 + 100 * LATER), None);
    assert_eq!(turn(&mut world, 1000 + 100 * LATER), 0);
}

#[test]
fn streams_are_small_when_memory_is_short() {
    let mut world = World::new(true);
    world.exec.attach(1, 0, 0);
    let output = &world.exec.outputs[0];
    assert_eq!(world.exec.room(output, false, 0), UNATTENDED_BYTES);
    assert!(world.exec.room(output, true, 0) > UNATTENDED_BYTES);
}

#[test]
fn streams_held_by_others_are_cut_after_the_drain() {
    let mut world = World::new(true);
    world.exec.attach(1, 0, 0);
    world.end(1000);
    assert_eq!(world.exec.wakes_at(1000), Some(1000 + DRAIN_MS));
    assert!(world.exec.cut_held_streams(1000 + DRAIN_MS - 1).is_empty());
    assert_eq!(world.exec.exited(), None);
    assert_eq!(world.exec.cut_held_streams(1000 + DRAIN_MS).len(), 2);
    assert_eq!(world.exec.exited().unwrap().code, 3);
}

#[test]
fn what_the_process_wrote_itself_is_read_before_a_stream_is_cut() {
    let mut world = World::new(true);
    world.exec.attach(1, 0, 0);
    let stdout = world.stdout.as_ref().unwrap();
    rustix::io::write(stdout, b"last words").unwrap();
    world.end(1000);
    // Only stderr, in which nothing lies.
    assert_eq!(world.exec.cut_held_streams(5000).len(), 1);
    assert_eq!(world.read(5000), 10);
    assert_eq!(world.exec.cut_held_streams(5000).len(), 1);
    assert_eq!(world.exec.outputs[0].window.take_next().unwrap().1, "last words");
}

#[test]
fn an_exit_waits_for_no_drain_when_all_streams_have_ended() {
    let mut world = World::new(true);
    world.stdout = None;
    world.end(1000);
    assert_eq!(world.read(1000), 0);
    assert!(world.exec.outputs[0].ended());
}
