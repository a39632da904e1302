//! The drivers of this gateway: found by name, called within bounds.
//!
//! A stuck engine holds its own permits and deadlines only; no other driver and no question waits
//! for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandkeep_driver::{Driver, DriverError, ErrorKind};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::gateway::DriverState;

/// Calls that change something, under way on one driver at once: enough to keep two cores and an
/// engine busy, few enough that 1,000 sandboxes do not all start at one moment.
const CALLS_AT_ONCE: usize = 16;

/// Looks under way on one driver at once.
const LOOKS_AT_ONCE: usize = 64;

/// One driver, with its bounds and what is known of its engine.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) driver: Arc<dyn Driver>,
    calls: Semaphore,
    looks: Semaphore,
    /// Held by the one that compares for the first time.
    pub(crate) comparing: tokio::sync::Mutex<()>,
    state: Mutex<EngineState>,
}

#[derive(Debug, Clone, Default)]
struct EngineState {
    engine: Option<String>,
    unreachable: Option<String>,
    /// What backends carry was compared with the records since this process started.
    compared: bool,
    /// Comparisons that were tried, and how the latest failed.
    comparisons: u64,
    comparison_error: Option<DriverError>,
}

impl Slot {
    fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            calls: Semaphore::new(CALLS_AT_ONCE),
            looks: Semaphore::new(LOOKS_AT_ONCE),
            comparing: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        }
    }

    fn with_state<T>(&self, f: impl FnOnce(&mut EngineState) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What backends carry was compared with the records: from now on the driver may be told to
    /// change things.
    pub(crate) fn set_compared(&self, engine: String) {
        self.with_state(|state| {
            state.compared = true;
            state.engine = Some(engine);
        });
    }

    /// See [`set_compared`](Self::set_compared).
    pub(crate) fn compared(&self) -> bool {
        self.with_state(|state| state.compared)
    }

    /// The engine that was compared; `None`: none was since this process started, or another one
    /// has answered meanwhile.
    pub(crate) fn compared_engine(&self) -> Option<String> {
        self.with_state(|state| state.engine.clone().filter(|_| state.compared))
    }

    /// Whether this is another engine than the one that was compared; `None`: it does not say.
    pub(crate) fn is_another_engine(&self, engine: Option<&str>) -> bool {
        engine.is_some() && self.with_state(|state| state.engine.as_deref() != engine)
    }

    /// The driver has to be compared anew before it is told to change anything.
    pub(crate) fn forget_comparison(&self) {
        self.with_state(|state| state.compared = false);
    }

    /// How many first comparisons were tried.
    pub(crate) fn comparisons(&self) -> u64 {
        self.with_state(|state| state.comparisons)
    }

    /// A first comparison was tried.
    pub(crate) fn count_comparison(&self, error: Option<&DriverError>) {
        self.with_state(|state| {
            state.comparisons += 1;
            state.comparison_error = error.cloned();
        });
    }

    /// How the latest first comparison failed, if it was tried after `comparisons` were.
    pub(crate) fn comparison_failed_since(&self, comparisons: u64) -> Option<DriverError> {
        self.with_state(|state| {
            state.comparison_error.clone().filter(|_| state.comparisons > comparisons)
        })
    }

    /// A call that changes something: waits for a permit, then at most `deadline`.
    pub(crate) async fn call<T>(
        &self,
        stage: &'static str,
        deadline: Duration,
        work: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let _permit = permit(&self.calls).await;
        self.within(stage, deadline, work).await
    }

    /// A look: waits for a permit, then at most `deadline`.
    pub(crate) async fn look<T>(
        &self,
        stage: &'static str,
        deadline: Duration,
        work: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let _permit = permit(&self.looks).await;
        self.within(stage, deadline, work).await
    }

    async fn within<T>(
        &self,
        stage: &'static str,
        deadline: Duration,
        work: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let outcome = tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| {
            let seconds = deadline.as_secs();
            let message = format!("the engine did not answer within {seconds} s");
            Err(DriverError::new(ErrorKind::Unavailable, stage, "EngineTimeout", message))
        });
        self.with_state(|state| match &outcome {
            Err(error) if error.kind == ErrorKind::Unavailable => {
                state.unreachable = Some(error.message.clone());
            }
            _ => state.unreachable = None,
        });
        outcome
    }

    fn report(&self) -> DriverState {
        let state = self.with_state(|state| state.clone());
        DriverState {
            name: self.driver.name().to_owned(),
            reachable: state.unreachable.is_none(),
            message: state.unreachable.unwrap_or_default(),
            engine: state.engine,
        }
    }
}

async fn permit(semaphore: &Semaphore) -> Option<SemaphorePermit<'_>> {
    // The semaphores are never closed.
    semaphore.acquire().await.ok()
}

/// All drivers, the default one first.
#[derive(Debug)]
pub(crate) struct Drivers {
    slots: Vec<Arc<Slot>>,
    by_name: HashMap<String, Arc<Slot>>,
}

impl Drivers {
    pub(crate) fn new(drivers: Vec<Arc<dyn Driver>>) -> Self {
        let slots: Vec<Arc<Slot>> = drivers.into_iter().map(|d| Arc::new(Slot::new(d))).collect();
        let named = |slot: &Arc<Slot>| (slot.driver.name().to_owned(), Arc::clone(slot));
        let by_name = slots.iter().map(named).collect();
        Self { slots, by_name }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Slot>> {
        self.by_name.get(name)
    }

    pub(crate) fn first(&self) -> Option<&Arc<Slot>> {
        self.slots.first()
    }

    pub(crate) fn all(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    pub(crate) fn report(&self) -> Vec<DriverState> {
        self.slots.iter().map(|slot| slot.report()).collect()
    }
}
