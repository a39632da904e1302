//! Bytes on their way: from processes into windows and logs, from windows to the gateway, from the
//! gateway to processes. Each stream has its turn; none waits for another.

use sandkeep_frames::message::{Channel, ExecAck, ExecEof, ExecExited, StreamBytes};
use sandkeep_frames::{Encoded, Kind};

use super::Supervisor;
use crate::clock::now_ms;
use crate::exec::Exec;
use crate::exec::output::Fill;
use crate::session::Session;

impl Supervisor {
    /// One turn of every stream. True: some could go on at once.
    pub(super) fn move_bytes(&mut self) -> bool {
        let now = now_ms();
        let spare = self.execs.has_plenty();
        let mut more = false;
        let time_ms = self.wall_ms();
        let waits =
            |exec: &Exec| exec.log.as_ref().is_some_and(|log| self.spool.holds_back(log, now));
        let held_back: Vec<u32> =
            self.execs.iter().filter(|(_, exec)| waits(exec)).map(|(key, _)| key).collect();
        let (state, spool) = (&self.state, &mut self.spool);
        let mut log = |name: &str, channel: Channel, bytes: &[u8]| {
            let fd = if channel == Channel::Stderr { 2 } else { 1 };
            spool.news_at(name, now);
            spool.append(state, name, fd, time_ms, bytes);
        };
        for (key, exec) in self.execs.iter_mut() {
            exec.input.write();
            if !held_back.contains(&key) {
                more |= fill(exec, spare, now, &mut log);
            }
            exec.shed(now);
        }
        more |= self.lingering.read(&mut log);
        let first = self.first_turn;
        let keys: Vec<u32> = self.execs.iter().map(|(key, _)| key).collect();
        let split = keys.partition_point(|key| *key <= first);
        for key in keys[split..].iter().chain(&keys[..split]) {
            let Some(exec) = self.execs.get(*key) else {
                continue;
            };
            more |= send(exec, &mut self.session);
            self.first_turn = *key;
            if !self.session.takes_bulk() {
                break;
            }
        }
        more
    }

    /// The main command's log ends when the command has ended and all that it wrote is read;
    /// whoever it left behind with its streams ends it later. A next execution goes on with it.
    pub(super) fn end_main_log(&mut self) {
        let Some(current) = self.main.current else {
            return;
        };
        let ended = |key| self.execs.peek(key).is_some_and(|exec| exec.exited().is_some());
        let log = current.log();
        if current.exec.is_some_and(ended) && !self.lingering.writes(&log) {
            self.spool.complete(&log);
        }
    }

    /// Queues logs while there is room. True: there could be more at once.
    pub(super) fn ship_logs(&mut self) -> bool {
        while self.session.takes_bulk() && self.spool.has_news() {
            if let Some(data) = self.spool.next(&self.state) {
                self.session.send(Kind::LogData, 0, &data);
            }
        }
        false
    }
}

/// Reads each output once. True: there may be more.
fn fill(
    exec: &mut Exec,
    spare: bool,
    now: u64,
    log: &mut impl FnMut(&str, Channel, &[u8]),
) -> bool {
    let mut more = false;
    let mut full = false;
    for at in 0..exec.outputs.len() {
        let room = exec.room(&exec.outputs[at], spare, now);
        let output = &mut exec.outputs[at];
        full |= room == 0 && output.ready && !output.ended();
        match output.fill(room) {
            Fill::Bytes(count) => {
                more = true;
                if let Some(name) = &exec.log {
                    log(name, output.channel, output.window.newest(count));
                }
            }
            Fill::Ended => more = true,
            Fill::Wait => {}
        }
    }
    exec.note_room(full, now);
    more
}

/// Sends a chunk of each output to the attached client, then its end, then the exit. True: there
/// is more to send.
fn send(exec: &mut Exec, session: &mut Session) -> bool {
    let Some(stream) = exec.stream else {
        return false;
    };
    if let Some(offset) = exec.input.due_ack() {
        let ack = ExecAck { channel: Channel::Stdin as u32, offset };
        session.send(Kind::ExecAck, stream, &ack);
    }
    let mut all_told = true;
    for output in &mut exec.outputs {
        if !session.takes_bulk() {
            return false;
        }
        let channel = output.channel;
        if let Some((offset, bytes)) = output.window.take_next()
            && let Ok(frame) = Encoded::stream_bytes(stream, StreamBytes { channel, offset, bytes })
        {
            session.queue(frame);
        }
        let complete = output.ended() && output.window.all_sent();
        if complete && !output.end_sent {
            let eof = ExecEof { channel: channel as u32, offset: output.window.end() };
            session.send(Kind::ExecEof, stream, &eof);
            output.end_sent = true;
        }
        all_told &= output.end_sent;
    }
    if all_told
        && !exec.exit_sent
        && let Some(exited) = exec.exited()
    {
        let exited = ExecExited { exited: Some(exited.clone()) };
        session.send(Kind::ExecExited, stream, &exited);
        exec.exit_sent = true;
    }
    exec.outputs.iter().any(|output| !output.window.all_sent())
}
