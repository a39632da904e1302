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
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let fixture = SimulatedFixture::new();
                check(&fixture, stringify!($name), PINNED_SKIPS).await;
                assert_eq!(fixture.world.violations(), Vec::<String>::new());
            }
        )*

        #[test]
        fn every_case_is_tested_and_every_pin_is_a_case() {
            check_pins(&[$(stringify!($name)),*], PINNED_SKIPS);
        }
    };
}

conformance! {
    identity_stays_the_same_and_outlives_the_process,
    inspect_of_an_absent_one_says_absent,
    a_created_one_is_idle_until_it_is_started,
    create_collides_and_is_adopted,
    create_with_a_newer_generation_takes_its_place_and_keeps_the_root,
    start_of_what_was_never_created_is_not_found,
    start_of_a_running_one_is_left_alone,
    stop_is_polite_first,
    stop_kills_after_the_grace,
    kill_ends_it_at_once_and_twice_is_once,
    remove_of_an_absent_one_is_done,
    remove_leaves_nothing,
    remove_of_a_running_one_ends_it,
    list_finds_exactly_what_carries_our_id,
    every_order_of_verbs_ends_where_the_verbs_say,
    recorded_provisioning_want_running_backing_idle,
    error_at_gateway_start_backing_exited_143_still_on_disk,
    a_killed_one_is_seen_exited_and_comes_back_as_another_run,
    a_reboot_is_seen_as_a_loss_and_start_brings_it_back,
    a_new_process_finds_what_runs_and_leaves_it_alone,
    the_end_of_a_running_one_is_told_to_who_watches,
    a_workspace_outlives_its_sandbox,
    a_marked_workspace_that_is_gone_is_missing_and_nothing_is_made,
    a_workspace_that_lost_its_mark_is_missing,
    start_refuses_an_empty_workspace_in_place_of_a_marked_one,
    ensuring_twice_is_once,
    discarding_twice_is_once_and_removes_every_byte,
    list_finds_marked_workspaces,
    pid_1_gets_a_session,
    a_second_process_gets_the_session_after_the_first_is_gone,
    a_process_inside_that_is_not_pid_1_gets_no_session,
    a_session_of_an_ended_run_is_refused,
    waiting_for_a_session_ends_with_the_run,
    a_frozen_one_is_paused_and_thaws,
    a_frozen_one_can_be_stopped,
    a_limit_that_cannot_be_enforced_is_refused_unless_accepted,
    an_image_that_cannot_run_here_is_invalid_and_nothing_is_made,
    twenty_side_by_side_come_up_and_go,
    one_that_is_busy_does_not_hold_up_the_others,
}
