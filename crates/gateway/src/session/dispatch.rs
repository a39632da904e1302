//! What each frame of a supervisor means. Never waits: whatever a frame brings goes into a bounded
//! place or is dropped.

use std::sync::Arc;

use prost::Message;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecAttached, ExecEof, ExecExited, LogData, MainState, Refused, ResultStored,
};
use sandkeep_frames::{Encoded, Frame, Kind, Malformed};

use crate::clock::Clock;
use crate::session::facts::{Facts, cut, exec_exit};
use crate::session::greeting::Ended;
use crate::session::inbox::Violation;
use crate::session::link::Link;
use crate::session::logs::LogStore;
use crate::session::probe::Probe;

/// Where the frames of one session go.
#[derive(Debug)]
pub(crate) struct Dispatch {
    /// The epoch of `facts` that this session belongs to.
    pub(crate) epoch: u64,
    /// What the reconciler sees.
    pub(crate) facts: Arc<Facts>,
    /// The execs and the outbox.
    pub(crate) link: Arc<Link>,
    /// The gateway's copy of the logs.
    pub(crate) logs: Arc<LogStore>,
    /// Round trips.
    pub(crate) probe: Probe,
    /// For times of exits.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Dispatch {
    /// Takes one frame. An error ends the session; what concerns one exec only closes that exec.
    pub(crate) fn frame(&self, frame: &Frame) -> Result<(), Ended> {
        // A newer supervisor may say more than we know.
        let Some(kind) = frame.kind() else {
            return Ok(());
        };
        match kind {
            Kind::Ping => self.ping(frame),
            Kind::Pong => self.probe.answered(&frame.payload, &self.facts, self.epoch),
            Kind::MainState => self.main_state(&decoded(frame)?),
            Kind::LogData => self.log_data(decoded(frame)?),
            Kind::Usage => {}
            Kind::Refused => {
                let refused: Refused = decoded(frame)?;
                return Err(Ended::Refused(cut(&refused.message)));
            }
            Kind::ExecAttached
            | Kind::ExecData
            | Kind::ExecAck
            | Kind::ExecEof
            | Kind::ExecExited => self.exec(kind, frame).map_err(|error| malformed(&error))?,
            Kind::Hello
            | Kind::Welcome
            | Kind::Go
            | Kind::ResultStored
            | Kind::ExecOpen
            | Kind::ExecAttach
            | Kind::ExecResize
            | Kind::ExecSignal
            | Kind::ExecForget
            | Kind::ExecDetach
            | Kind::LogAck
            | Kind::UsageAsk => {
                return Err(Ended::Protocol(format!("{kind:?} is not a supervisor's to say")));
            }
        }
        Ok(())
    }

    fn main_state(&self, state: &MainState) {
        if self.facts.main_state(self.epoch, state) {
            tell_stored(&self.link, state.run, state.restart);
        }
    }

    fn ping(&self, frame: &Frame) {
        self.link.post(|outbox| outbox.pong(frame.payload.clone()));
    }

    fn log_data(&self, data: LogData) {
        self.logs.append(self.facts.id(), data, &self.link);
    }

    fn exec(&self, kind: Kind, frame: &Frame) -> Result<(), Malformed> {
        match kind {
            Kind::ExecData => {
                let data = frame.stream_bytes()?;
                self.link.deliver(frame.stream, |inbox| {
                    inbox.data(data.channel, data.offset, data.bytes)
                });
            }
            Kind::ExecAck => {
                let ack: ExecAck = frame.decode()?;
                self.link.deliver(frame.stream, |inbox| match Channel::from_raw(ack.channel) {
                    Some(Channel::Stdin) => inbox.stdin_ack(ack.offset),
                    _ => Err(Violation("an acknowledgement of a channel that we do not send")),
                });
            }
            Kind::ExecEof => {
                let eof: ExecEof = frame.decode()?;
                self.link.deliver(frame.stream, |inbox| match Channel::from_raw(eof.channel) {
                    Some(channel) => inbox.end(channel, eof.offset),
                    None => Err(Violation("an end of a channel that does not exist")),
                });
            }
            Kind::ExecAttached => {
                let mut attached: ExecAttached = frame.decode()?;
                attached.refused = cut(&attached.refused);
                attached.message = cut(&attached.message);
                self.link.attached(frame.stream, attached);
            }
            _ => {
                let exited: ExecExited = frame.decode()?;
                let exit = exec_exit(&exited.exited.unwrap_or_default(), self.clock.now());
                self.link.deliver(frame.stream, |inbox| inbox.exited(exit));
            }
        }
        Ok(())
    }
}

/// Tells the supervisor that it need not offer this result again.
pub(crate) fn tell_stored(link: &Link, run: u64, restart: u32) {
    if let Ok(frame) = Encoded::message(Kind::ResultStored, 0, &ResultStored { run, restart }) {
        // Lost or full: the supervisor offers it again in the next session, and is told again.
        let _posted = link.post(|outbox| outbox.control(frame, None));
    }
}

fn decoded<M: Message + Default>(frame: &Frame) -> Result<M, Ended> {
    frame.decode().map_err(|error| malformed(&error))
}

fn malformed(error: &Malformed) -> Ended {
    Ended::Protocol(error.to_string())
}
