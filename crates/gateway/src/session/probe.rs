//! Round trips through the supervisor: what makes Ready true. A missed one is told, and ends
//! nothing: a machine may be busy, and the work goes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sandkeep_core::SandboxId;
use sandkeep_frames::{Encoded, Kind};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::session::facts::Facts;
use crate::session::link::Link;

/// Between two probes. A thousand sessions then cost 33 small frames a second each way.
const PROBE_EVERY: Duration = Duration::from_secs(30);

/// For an answer to come before Ready is doubted.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

/// The round trips of one session.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    sent: AtomicU64,
    answered: AtomicU64,
    news: Notify,
}

impl Probe {
    /// Probes for ever.
    pub(crate) async fn run(&self, link: &Link, facts: &Facts, epoch: u64) {
        loop {
            let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
            let payload = Bytes::copy_from_slice(&number.to_le_bytes());
            if let Ok(frame) = Encoded::raw(Kind::Ping, 0, payload) {
                // A full outbox is a peer that does not read: the answer is missed, and told so.
                let _posted = link.post(|outbox| outbox.control(frame, None));
            }
            if timeout(PROBE_DEADLINE, self.answer(number)).await.is_err() {
                facts.probed(epoch, false);
            }
            sleep(spread(facts.id(), number)).await;
        }
    }

    /// A pong came. An answer that is late is an answer.
    pub(crate) fn answered(&self, payload: &[u8], facts: &Facts, epoch: u64) {
        let Ok(number) = payload.try_into().map(u64::from_le_bytes) else {
            return;
        };
        let asked = number <= self.sent.load(Ordering::Relaxed);
        if asked && number > self.answered.load(Ordering::Relaxed) {
            self.answered.store(number, Ordering::Relaxed);
            facts.probed(epoch, true);
            self.news.notify_one();
        }
    }

    async fn answer(&self, number: u64) {
        while self.answered.load(Ordering::Relaxed) < number {
            self.news.notified().await;
        }
    }
}

/// Three quarters to five quarters of the interval, another for each sandbox and round, so that
/// sessions that began together do not stay together.
fn spread(id: &SandboxId, round: u64) -> Duration {
    let seed = id
        .as_str()
        .bytes()
        .fold(round, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let half = u64::try_from(PROBE_EVERY.as_millis()).unwrap_or(u64::MAX) / 2;
    PROBE_EVERY * 3 / 4 + Duration::from_millis(seed % half.max(1))
}
