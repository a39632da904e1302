//! The two public faults that this system is built against, under their names.

use std::time::Duration;

use sandkeep_core::{Phase, Want};
use sandkeep_driver::simulated::{Disturbance, SimState};
use sandkeep_gateway::gateway::IntentVerb;

use crate::stage::{ENGINE, Stage};

/// The gateway dies after the backing was made and before it was started: the record wants Running
/// and was Provisioning, the backend holds the object and nothing runs. Answers with the sandbox as
/// the next gateway finds it.
async fn provisioning_and_idle() -> (Stage, sandkeep_core::SandboxId) {
    let mut stage = Stage::new().await;
    // Effects: the gateway's own facts, the record, the attempt, the workspace, the backing.
    stage.house.world.with_faults(|faults| faults.plan(5, Disturbance::CrashAfter));
    let id = stage.create("lab", "forever").await;
    stage.house.away = Duration::from_secs(3600);
    stage.until("made", |stage| stage.state(&id) == Some(SimState::Idle)).await;
    // The gateway dies, stays away, and another one has just started.
    stage.house.pass(Duration::from_millis(1)).await;
    assert_eq!(stage.state(&id), Some(SimState::Idle));
    let stored = stage.house.store.contents().records;
    assert_eq!(stored[0].intent.want, Want::Running);
    assert_eq!(stored[0].observed.incarnation, 0, "it never ran");
    (stage, id)
}

#[tokio::test(start_paused = true)]
async fn recorded_provisioning_want_running_backing_idle() {
    let (mut stage, id) = provisioning_and_idle().await;
    stage.ready(&id).await;
}

#[tokio::test(start_paused = true)]
async fn recorded_provisioning_want_running_backing_idle_and_start_is_asked() {
    let (mut stage, id) = provisioning_and_idle().await;
    stage.ask(&id, IntentVerb::Start).await;
    stage.ready(&id).await;
}

#[tokio::test(start_paused = true)]
async fn recorded_provisioning_want_running_backing_idle_and_stop_is_asked() {
    let (mut stage, id) = provisioning_and_idle().await;
    stage.ask(&id, IntentVerb::Stop).await;
    stage.shows(&id, Phase::Stopped).await;
    assert!(!stage.state(&id).is_some_and(SimState::is_live));
    stage.ask(&id, IntentVerb::Start).await;
    stage.ready(&id).await;
}

/// The engine stops everything (143), starting it again fails, and the gateway ends while it shows
/// Error. The next one finds the container on disk and brings it up, with no verb.
#[tokio::test(start_paused = true)]
async fn error_at_gateway_start_backing_exited_143_still_on_disk() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    assert!(stage.house.world.work(&id));
    let root = stage.root(&id);
    stage.minutes(2).await;
    // The loss is stored, then the start fails, that is stored, and so on.
    for number in [2, 4, 6, 8, 10] {
        let next = stage.house.world.effects() + number;
        stage.house.world.with_faults(|faults| faults.plan(next, Disturbance::Error));
    }
    stage.house.world.end_everything(ENGINE, Some(143));
    stage.shows(&id, Phase::Error).await;
    stage.house.kill("while it shows Error");
    assert_eq!(stage.state(&id), Some(SimState::Exited { code: Some(143), oom: false }));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    stage.house.start().await;
    stage.ready(&id).await;
    assert_eq!(stage.root(&id), root, "its root file system is kept");
    let restarts = stage.get(&id).map(|snapshot| snapshot.record.observed.restarts);
    assert_eq!(restarts, Some(1), "one loss was healed");
}
