//! One home on one machine: the real gateway on a simulated world, and the ways it can die and come
//! back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandkeep_core::GatewayId;
use sandkeep_driver::Driver;
use sandkeep_driver::simulated::{FaultKind, Pace, Rng, SimulatedDriver, World};
use sandkeep_gateway::reconcile::queue::{Key, Queue};
use sandkeep_gateway::refusal::Refusal;
use sandkeep_gateway::{Clock, Entropy, Gateway, GatewayParts, Metrics, Sessions};
use sandkeep_store::{MemoryStore, StoreError};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock::{EPOCH, SimClock};
use crate::disk::Disk;
use crate::life::{HeldDriver, Life};
use crate::sessions::{SimulatedSessions, Wake};
use crate::walk::SLICE;

/// The drivers of every house; the first is the default.
pub(crate) const DRIVERS: [&str; 2] = ["one", "two"];

/// A verb touches the store alone; one that takes longer waits for something that it must not
/// wait for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Randomness that a seed repeats.
#[derive(Debug)]
struct SeededEntropy(Mutex<Rng>);

impl Entropy for SeededEntropy {
    fn bytes(&self) -> std::io::Result<[u8; 8]> {
        Ok(self.0.lock().unwrap().next().to_le_bytes())
    }
}

/// What came of a verb.
#[derive(Debug, Clone)]
pub(crate) enum Answer<T> {
    /// It was answered.
    Given(Result<T, Refusal>),
    /// The gateway died over it: it holds, or it does not.
    Died,
    /// No answer came.
    Never,
}

/// The home, its machine, and the gateway while it runs.
pub(crate) struct House {
    pub(crate) world: World,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) store: MemoryStore,
    pub(crate) machine: String,
    /// Drivers that the next gateway is given.
    pub(crate) configured: Vec<&'static str>,
    /// How long a gateway that died stays away.
    pub(crate) away: Duration,
    pub(crate) process: Option<Process>,
    /// Actions that gateways carried out, by stage.
    pub(crate) actions: BTreeMap<String, u64>,
    id: GatewayId,
    entropy: Arc<SeededEntropy>,
    deaths: Option<UnboundedReceiver<String>>,
}

/// One gateway process.
pub(crate) struct Process {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) sessions: SimulatedSessions,
    life: Life,
    metrics: Arc<Metrics>,
    since: Duration,
}

impl House {
    pub(crate) fn new(seed: u64, pace: Pace, keep_trace: bool) -> Self {
        let world = World::new(seed, pace, keep_trace);
        world.set_epoch(EPOCH);
        for driver in DRIVERS {
            world.add_driver(driver, &format!("engine-{driver}"));
        }
        let deaths = world.crashes();
        Self {
            world,
            clock: Arc::new(SimClock::new()),
            store: MemoryStore::new(),
            machine: "machine-1".to_owned(),
            configured: DRIVERS.to_vec(),
            away: Duration::from_secs(1),
            process: None,
            actions: BTreeMap::new(),
            id: GatewayId::from_random([7; 8]),
            entropy: Arc::new(SeededEntropy(Mutex::new(Rng::new(seed)))),
            deaths: Some(deaths),
        }
    }

    /// The gateway that runs now.
    pub(crate) fn gateway(&self) -> &Arc<Gateway> {
        &self.process.as_ref().expect("a gateway runs").gateway
    }

    /// Starts a gateway, again and again until one stays.
    pub(crate) async fn start(&mut self) {
        loop {
            let life = Life::new();
            let mut deaths = self.deaths.take().expect("one waits at a time");
            let opened = tokio::select! {
                biased;
                Some(why) = deaths.recv() => {
                    life.end();
                    self.world.note(format_args!("the gateway dies while it starts: {why}"));
                    None
                }
                opened = self.open(&life) => opened.ok(),
            };
            self.deaths = Some(deaths);
            if let Some(process) = opened {
                self.world.note(format_args!("a gateway runs"));
                self.process = Some(process);
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn open(&self, life: &Life) -> Result<Process, StoreError> {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let disk =
            Disk { store: self.store.clone(), world: self.world.clone(), life: life.clone() };
        let meta = Gateway::identify(&disk, self.id.clone(), &self.machine).await?;
        let queue = Queue::new();
        let wake: Wake = {
            let queue = queue.clone();
            Arc::new(move |id| queue.wake(Key::Sandbox(id.clone())))
        };
        let sessions =
            SimulatedSessions::new(self.world.clone(), Arc::clone(&clock), life.clone(), wake);
        let held = |name: &&str| {
            let driver = SimulatedDriver::new(name, self.world.clone(), meta.gateway.clone());
            Arc::new(HeldDriver { driver, life: life.clone() }) as Arc<dyn Driver>
        };
        let metrics = Arc::new(Metrics::default());
        let parts = GatewayParts {
            store: Arc::new(disk),
            drivers: self.configured.iter().map(held).collect(),
            sessions: Arc::new(sessions.clone()) as Arc<dyn Sessions>,
            queue,
            clock,
            metrics: Arc::clone(&metrics),
            entropy: Arc::clone(&self.entropy) as Arc<dyn Entropy>,
            home: "/var/lib/sandkeep".into(),
            meta,
            machine: self.machine.clone(),
            directory: None,
        };
        let gateway = Gateway::open(parts).await?;
        let (running, its_life) = (Arc::clone(&gateway), life.clone());
        tokio::spawn(async move { its_life.during(running.run()).await });
        Ok(Process { gateway, sessions, life: life.clone(), metrics, since: self.world.elapsed() })
    }

    /// The gateway dies at this moment; another one starts after a while.
    pub(crate) async fn crash(&mut self, why: &str) {
        self.kill(why);
        tokio::time::sleep(self.away).await;
        self.start().await;
    }

    /// The gateway dies at this moment.
    pub(crate) fn kill(&mut self, why: &str) {
        let Some(process) = self.process.take() else { return };
        process.life.end();
        for (action, count) in process.metrics.actions.get() {
            *self.actions.entry(action.to_owned()).or_default() += count;
        }
        self.world.note(format_args!("the gateway dies: {why}"));
        self.world.with_faults(|faults| faults.count(FaultKind::GatewayCrashed));
    }

    /// Asks the gateway something that needs no engine, which may kill it.
    pub(crate) async fn ask<T, F>(&mut self, ask: impl FnOnce(Arc<Gateway>) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        self.ask_for(ANSWER_WITHIN, ask).await
    }

    /// Asks the gateway something, and waits for the answer no longer than `patience`.
    pub(crate) async fn ask_for<T, F>(
        &mut self,
        patience: Duration,
        ask: impl FnOnce(Arc<Gateway>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        let process = self.process.as_ref().expect("a gateway runs");
        let life = process.life.clone();
        let question = ask(Arc::clone(&process.gateway));
        let died = tokio::select! {
            biased;
            why = next_death(&mut self.deaths) => why,
            answer = life.during(question) => return Answer::Given(answer),
            () = tokio::time::sleep(patience) => return Answer::Never,
        };
        self.crash(&died).await;
        Answer::Died
    }

    /// Lets time pass; a gateway that dies meanwhile comes back.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        loop {
            let died = tokio::select! {
                biased;
                why = next_death(&mut self.deaths) => why,
                () = tokio::time::sleep_until(until) => return,
            };
            self.crash(&died).await;
        }
    }

    /// The gateway has started within the last slice of time.
    pub(crate) fn is_fresh(&self) -> bool {
        self.process.as_ref().is_some_and(|process| self.world.elapsed() - process.since <= SLICE)
    }

    /// Actions carried out so far, the living gateway's included.
    pub(crate) fn all_actions(&self) -> BTreeMap<String, u64> {
        let mut all = self.actions.clone();
        if let Some(process) = &self.process {
            for (action, count) in process.metrics.actions.get() {
                *all.entry(action.to_owned()).or_default() += count;
            }
        }
        all
    }
}

/// The next order to die.
async fn next_death(deaths: &mut Option<UnboundedReceiver<String>>) -> String {
    match deaths {
        Some(deaths) => deaths.recv().await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}
