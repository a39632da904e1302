//! A small house for stories: one user, one fault, and waiting for a state instead of a moment.

use std::time::Duration;

use sandkeep_core::{Phase, RestartPolicy, SandboxId};
use sandkeep_driver::simulated::{Pace, SimState};
use sandkeep_gateway::Snapshot;
use sandkeep_gateway::gateway::IntentVerb;
use sandkeep_gateway::refusal::Refusal;

use crate::house::{Answer, DRIVERS, House};
use crate::wish::{request, wishes};

/// The engine of the default driver.
pub(crate) const ENGINE: &str = "engine-one";

/// Longer than anything a story waits for.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

pub(crate) struct Stage {
    pub(crate) house: House,
    ids: u8,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let mut stage = Self { house: House::new(1, Pace::STEADY, false), ids: 0 };
        stage.house.start().await;
        stage
    }

    /// Asks for a sandbox on the first driver; does not wait for it.
    pub(crate) async fn create(&mut self, name: &str, command: &str) -> SandboxId {
        self.create_on(DRIVERS[0], name, command, RestartPolicy::OnFailure).await
    }

    pub(crate) async fn create_on(
        &mut self,
        driver: &str,
        name: &str,
        command: &str,
        policy: RestartPolicy,
    ) -> SandboxId {
        let asked = self.try_create(driver, name, wishes(command, policy)).await;
        asked.expect("create is taken")
    }

    pub(crate) async fn try_create(
        &mut self,
        driver: &str,
        name: &str,
        wishes: sandkeep_gateway::verbs::wishes::Wishes,
    ) -> Result<SandboxId, Refusal> {
        self.ids += 1;
        let id = SandboxId::from_random([self.ids; 8]);
        let request = request(&id, name, driver, wishes);
        let asked = self.house.ask(|gateway| async move { gateway.create(request, "user").await });
        match asked.await {
            Answer::Given(Ok(_)) | Answer::Died => Ok(id),
            Answer::Given(Err(refusal)) => Err(refusal),
            Answer::Never => panic!("create {name} was not answered"),
        }
    }

    /// Created, and Ready.
    pub(crate) async fn ready_one(&mut self, name: &str) -> SandboxId {
        let id = self.create(name, "forever").await;
        self.ready(&id).await;
        id
    }

    pub(crate) async fn ask(&mut self, id: &SandboxId, verb: IntentVerb) {
        let name = id.to_string();
        let asked = self
            .house
            .ask(|gateway| async move { gateway.set_intent(&name, verb, "user").await })
            .await;
        assert!(matches!(asked, Answer::Given(Ok(_))), "{verb:?} of {id}: {asked:?}");
    }

    pub(crate) async fn delete(&mut self, id: &SandboxId, forget: bool) {
        let name = id.to_string();
        let asked = self
            .house
            .ask(|gateway| async move { gateway.delete(&name, false, forget, "user").await })
            .await;
        assert!(matches!(asked, Answer::Given(Ok(_))), "delete of {id}: {asked:?}");
    }

    pub(crate) fn get(&self, id: &SandboxId) -> Option<Snapshot> {
        self.house.gateway().get(id.as_str()).ok()
    }

    pub(crate) fn phase(&self, id: &SandboxId) -> Option<Phase> {
        self.get(id).map(|snapshot| snapshot.view.phase)
    }

    pub(crate) fn state(&self, id: &SandboxId) -> Option<SimState> {
        self.house
            .world
            .with_engine(ENGINE, |engine| engine.backings.get(id).map(|backing| backing.state))
            .flatten()
    }

    pub(crate) fn root(&self, id: &SandboxId) -> Option<u64> {
        self.house
            .world
            .with_engine(ENGINE, |engine| engine.backings.get(id).map(|backing| backing.rootfs))
            .flatten()
    }

    /// Lets time pass until `wished` holds.
    pub(crate) async fn until(&mut self, what: &str, wished: impl Fn(&Self) -> bool) {
        let begun = self.house.world.elapsed();
        let end = begun + PATIENCE;
        while !wished(self) {
            let all = self.house.gateway().list(&std::collections::BTreeMap::new());
            let views: Vec<_> = all.iter().map(|snapshot| &snapshot.view).collect();
            assert!(self.house.world.elapsed() < end, "never {what}: {views:?}");
            // What passes quickly is looked for closely.
            let early = self.house.world.elapsed() - begun < Duration::from_secs(5);
            self.house.pass(Duration::from_millis(if early { 2 } else { 500 })).await;
        }
        self.sound();
    }

    /// Shown Ready, and a command can be run.
    pub(crate) async fn ready(&mut self, id: &SandboxId) {
        self.until("ready", |stage| {
            stage.phase(id) == Some(Phase::Ready) && stage.house.world.can_run(id)
        })
        .await;
    }

    pub(crate) async fn shows(&mut self, id: &SandboxId, phase: Phase) {
        self.until(&phase.to_string(), |stage| stage.phase(id) == Some(phase)).await;
    }

    pub(crate) async fn reason(&mut self, id: &SandboxId, reason: &str) {
        self.until(reason, |stage| stage.get(id).is_some_and(|s| s.view.reason == reason)).await;
    }

    pub(crate) async fn gone(&mut self, id: &SandboxId) {
        self.until("gone", |stage| stage.get(id).is_none()).await;
    }

    pub(crate) async fn minutes(&mut self, minutes: u64) {
        self.house.pass(Duration::from_secs(60 * minutes)).await;
        self.sound();
    }

    /// Nothing that must never happen has happened.
    pub(crate) fn sound(&self) {
        assert_eq!(self.house.world.violations(), Vec::<String>::new());
        assert_eq!(self.house.world.work_is_whole(), Ok(()));
    }
}
