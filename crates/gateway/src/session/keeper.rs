//! The task that keeps one sandbox's session: open, greet, serve, and again, until told to end.
//!
//! ```text
//!   open_session --> Hello/Welcome --> serve: read | write | probe
//!        ^                |                     | end of stream, broken, rules broken
//!        +---- backoff ---+<--------------------+
//! ```
//! A new stream is asked for only when the old one is over, so a second session can never take the
//! place of a live one.

use std::sync::Arc;
use std::time::Duration;

use sandkeep_frames::message::{Hello, LogAck};
use tokio::io::WriteHalf;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::session::dispatch::{Dispatch, tell_stored};
use crate::session::facts::{Connected, Facts, cut};
use crate::session::greeting::{Ended, read_hello, say_why, write_welcome};
use crate::session::link::Link;
use crate::session::logs::LogStore;
use crate::session::outbox::Batch;
use crate::session::probe::Probe;
use crate::session::wire::{FrameReader, Stream, write_frames};
use crate::sessions::SessionTarget;

/// First wait after a failure. A session that lasted is opened again at once.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// Longest wait after failures: a supervisor that comes back is seen within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A session that lasted this long clears the count of failures.
const LASTED: Duration = Duration::from_secs(10);

/// For the log store to say what it has. Without its answer the supervisor sends from where it
/// likes, and what is there already is dropped.
const LOGS_DEADLINE: Duration = Duration::from_secs(2);

/// Guards named in a message; there are not that many.
const GUARDS: usize = 16;

/// Keeps the session of one incarnation.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// With whom.
    pub(crate) target: SessionTarget,
    /// The epoch of `facts`.
    pub(crate) epoch: u64,
    /// Where what is learnt goes.
    pub(crate) facts: Arc<Facts>,
    /// The gateway's copy of the logs.
    pub(crate) logs: Arc<LogStore>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Keeper {
    /// Runs until cancelled; begins once the keeper before it, already cancelled, has ended.
    pub(crate) async fn run(self, cancel: CancellationToken, before: Option<JoinHandle<()>>) {
        if let Some(before) = before {
            // One that panicked has ended too.
            let _ended = before.await;
        }
        let mut wait = Duration::ZERO;
        let mut told = String::new();
        loop {
            let began = Instant::now();
            let ended = tokio::select! {
                ended = self.session() => ended,
                () = cancel.cancelled() => Ended::NotWanted,
            };
            // Whatever stage the session reached: from here on nobody may use it.
            if let Some(link) = self.facts.lost(self.epoch) {
                link.close();
            }
            if matches!(ended, Ended::NotWanted) {
                return;
            }
            self.tell(&ended, &mut told);
            if matches!(ended, Ended::Protocol(_) | Ended::Version(_) | Ended::Refused(_)) {
                self.facts.refused(self.epoch, cut(&ended.to_string()));
            }
            wait = if began.elapsed() >= LASTED {
                Duration::ZERO
            } else {
                (wait * 2).clamp(SHORTEST_WAIT, LONGEST_WAIT)
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = cancel.cancelled() => return,
            }
        }
    }

    /// A supervisor that cannot be talked to is told once, not at each try.
    fn tell(&self, ended: &Ended, told: &mut String) {
        let sandbox = &self.target.id;
        let text = ended.to_string();
        if matches!(ended, Ended::Protocol(_) | Ended::Version(_) | Ended::Refused(_))
            && *told != text
        {
            tracing::warn!(%sandbox, %ended, "no session with the supervisor");
            *told = text;
        } else {
            tracing::debug!(%sandbox, %ended, "session ended");
        }
    }

    /// One session from its beginning to its end.
    async fn session(&self) -> Ended {
        let target = &self.target;
        let opened = target.driver.open_session(&target.id, &target.backing_run).await;
        let (stream, peer) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ended::NotOpened(error.to_string()),
        };
        if peer.backing_run != target.backing_run {
            return Ended::NotOpened("the driver brought another run's supervisor".to_owned());
        }
        let (read, mut write) = tokio::io::split(stream);
        let ended = match self.serve(FrameReader::new(read), &mut write).await {
            Err(ended) => ended,
            Ok(never) => match never {},
        };
        say_why(&mut write, &ended).await;
        ended
    }

    async fn serve(
        &self,
        mut reader: FrameReader,
        write: &mut WriteHalf<Stream>,
    ) -> Result<std::convert::Infallible, Ended> {
        let (hello, version) = read_hello(&mut reader).await?;
        let have = self.logs_here(&hello).await;
        let incarnation = self.target.incarnation;
        write_welcome(write, version, incarnation, have, self.clock.now()).await?;

        let link = Link::new(incarnation);
        let dispatch = Dispatch {
            epoch: self.epoch,
            facts: Arc::clone(&self.facts),
            link: Arc::clone(&link),
            logs: Arc::clone(&self.logs),
            probe: Probe::default(),
            clock: Arc::clone(&self.clock),
        };
        let main = hello.main.unwrap_or_default();
        let guards: Vec<_> = hello.missing_guards.iter().take(GUARDS).map(|g| cut(g)).collect();
        match self.facts.connected(self.epoch, &link, &main, guards.clone()) {
            Connected::TooLate => return Err(Ended::NotWanted),
            Connected::Yes { result_is_stored: true } => {
                tell_stored(&link, main.run, main.restart);
            }
            Connected::Yes { result_is_stored: false } => {}
        }
        tracing::debug!(sandbox = %self.target.id, incarnation, build = ?hello.build, "connected");
        if !guards.is_empty() {
            tracing::warn!(sandbox = %self.target.id, ?guards, "guards are missing inside");
        }
        tokio::select! {
            ended = read_frames(&mut reader, &dispatch) => Err(ended),
            ended = write_outbox(write, &link) => Err(ended),
            () = dispatch.probe.run(&link, &self.facts, self.epoch) => Err(Ended::NotWanted),
        }
    }

    async fn logs_here(&self, hello: &Hello) -> Vec<LogAck> {
        let offered = self.logs.offered(&self.target.id, hello.boot_nonce, &hello.logs);
        timeout(LOGS_DEADLINE, offered).await.unwrap_or_default()
    }
}

async fn read_frames(reader: &mut FrameReader, dispatch: &Dispatch) -> Ended {
    loop {
        match reader.next().await {
            Ok(Some(frame)) => {
                if let Err(ended) = dispatch.frame(&frame) {
                    return ended;
                }
            }
            Ok(None) => return Ended::Closed,
            Err(error) => return Ended::Io(error),
        }
    }
}

async fn write_outbox(write: &mut WriteHalf<Stream>, link: &Link) -> Ended {
    let mut batch = Batch::default();
    loop {
        link.to_write(&mut batch).await;
        if let Err(error) = write_frames(write, &mut batch.frames).await {
            return Ended::Io(error);
        }
        for written in batch.written.drain(..) {
            // Whoever waited may have gone.
            let _told = written.send(());
        }
    }
}
