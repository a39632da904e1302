//! The simulated driver against the suite that every driver must pass: what the simulation finds
//! is worth something only as long as its driver behaves as the real ones do.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test tells and fails aloud")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sandkeep_core::{GatewayId, SandboxId, WorkspaceId};
use sandkeep_driver::Driver;
use sandkeep_driver::conformance::{Fixture, Footprint, Skip, check, check_pins};
use sandkeep_driver::simulated::{Pace, SimulatedDriver, World};

const DRIVER: &str = "simulated";
const ENGINE: &str = "engine";

/// In a simulated world a process inside that is not PID 1 does not exist.
const PINNED_SKIPS: &[&str] = &["a_process_inside_that_is_not_pid_1_gets_no_session"];

struct SimulatedFixture {
    world: World,
    driver: Arc<SimulatedDriver>,
    /// Texts by the token that stands for them in a workspace.
    in_workspaces: Mutex<BTreeMap<u64, String>>,
    /// Texts by the root file system that they were written in.
    in_roots: Mutex<BTreeMap<u64, String>>,
}

fn gateway(number: u8) -> GatewayId {
    GatewayId::from_random([number; 8])
}

impl SimulatedFixture {
    fn new() -> Self {
        let world = World::new(1, Pace::STEADY, false);
        world.add_driver(DRIVER, ENGINE);
        let driver = Arc::new(SimulatedDriver::new(DRIVER, world.clone(), gateway(1)));
        Self { world, driver, in_workspaces: Mutex::default(), in_roots: Mutex::default() }
    }

    fn root_of(&self, id: &SandboxId) -> u64 {
        let root = self.world.with_backing(DRIVER, id, |backing| backing.map(|b| b.rootfs));
        root.expect("the backing is there")
    }

    /// The workspace behind a handle, and what it holds.
    fn workspace(&self, handle: &str) -> Option<(WorkspaceId, Vec<u64>)> {
        let found = self.world.with_engine(ENGINE, |engine| {
            let mut all = engine.workspaces.iter();
            let it = all.find(|(_, workspace)| format!("sim:{}", workspace.name) == handle);
            it.map(|(id, workspace)| (id.clone(), workspace.content.clone()))
        });
        found.flatten()
    }
}

#[async_trait]
impl Fixture for SimulatedFixture {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver) as Arc<dyn Driver>
    }

    fn reopened(&self) -> Arc<dyn Driver> {
        Arc::new(SimulatedDriver::new(DRIVER, self.world.clone(), gateway(1)))
    }

    fn stranger(&self) -> Result<Arc<dyn Driver>, Skip> {
        Ok(Arc::new(SimulatedDriver::new(DRIVER, self.world.clone(), gateway(2))))
    }

    fn say(&self, line: &str) {
        println!("{line}");
    }

    async fn kill_pid_1(&self, id: &SandboxId, _run: &str) -> Result<(), Skip> {
        assert!(self.world.kill_backing(ENGINE, id, 137, false), "it was not up");
        Ok(())
    }

    async fn end_pid_1(&self, id: &SandboxId, _run: &str) -> Result<(), Skip> {
        assert!(self.world.kill_backing(ENGINE, id, 143, false), "it was not up");
        Ok(())
    }

    async fn suspend_pid_1(&self, id: &SandboxId, _run: &str) -> Result<(), Skip> {
        assert!(self.world.suspend_pid_1(ENGINE, id), "it has no PID 1");
        Ok(())
    }

    async fn reboot(&self) -> Result<Arc<dyn Driver>, Skip> {
        self.world.end_everything(ENGINE, None);
        Ok(self.reopened())
    }

    async fn write_in_root(&self, id: &SandboxId, text: &str) -> Result<(), Skip> {
        let root = self.root_of(id);
        self.in_roots.lock().unwrap().insert(root, text.to_owned());
        Ok(())
    }

    async fn read_in_root(&self, id: &SandboxId) -> Result<Option<String>, Skip> {
        let root = self.root_of(id);
        Ok(self.in_roots.lock().unwrap().get(&root).cloned())
    }

    async fn write_in_workspace(&self, handle: &str, text: &str) -> Result<(), Skip> {
        let (id, _) = self.workspace(handle).expect("the workspace is there");
        self.world.allow_discard(&id);
        let mut texts = self.in_workspaces.lock().unwrap();
        let token = 1_000_000 + texts.len() as u64;
        texts.insert(token, text.to_owned());
        assert!(self.world.write_in_workspace(ENGINE, &id, token));
        Ok(())
    }

    async fn read_in_workspace(&self, handle: &str) -> Result<Option<String>, Skip> {
        let content = self.workspace(handle).map(|(_, content)| content).unwrap_or_default();
        let texts = self.in_workspaces.lock().unwrap();
        Ok(content.iter().rev().find_map(|token| texts.get(token)).cloned())
    }

    async fn lose_workspace(&self, id: &WorkspaceId, _handle: &str) -> Result<(), Skip> {
        assert!(self.world.lose_workspace(ENGINE, id), "it was not there");
        Ok(())
    }

    async fn lose_mark(&self, id: &WorkspaceId, _handle: &str) -> Result<(), Skip> {
        assert!(self.world.lose_mark(ENGINE, id), "it was not there");
        Ok(())
    }

    async fn connect_from_inside(&self, _id: &SandboxId, _run: &str) -> Result<(), Skip> {
        Err(Skip("only PID 1 is simulated".to_owned()))
    }

    fn has_sessions(&self) -> Result<(), Skip> {
        Ok(())
    }

    async fn footprint(&self) -> Result<Footprint, Skip> {
        let counted = self.world.with_engine(ENGINE, |engine| {
            let (backings, workspaces) = (engine.backings.len(), engine.workspaces.len());
            BTreeMap::from([
                ("backings".to_owned(), backings as u64),
                ("workspaces".to_owned(), workspaces as u64),
            ])
        });
        Ok(Footprint(counted.unwrap_or_default()))
    }
}

macro_rules! conformance {
    ($($module:ident: $($name:ident),* $(,)?;)*) => {
        $($(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let fixture = SimulatedFixture::new();
                check(&fixture, stringify!($name), PINNED_SKIPS).await;
                assert_eq!(fixture.world.violations(), Vec::<String>::new());
            }
        )*)*

        #[test]
        fn every_pin_is_a_case() {
            check_pins(PINNED_SKIPS);
        }
    };
}

sandkeep_driver::driver_cases!(conformance);
