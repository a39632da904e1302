//! Faults that users of this kind of system have reported, by their number in known-faults.tsv,
//! as far as the reconciler can have them. Each test says what it guards.

use std::time::Duration;

use sandkeep_core::{Image, Phase, RestartPolicy, WaitsFor};
use sandkeep_driver::simulated::{Disturbance, NO_IMAGE, Rates, Reach, SimState};
use sandkeep_gateway::gateway::IntentVerb;
use sandkeep_store::MemoryStore;

use crate::house::DRIVERS;
use crate::stage::{ENGINE, Stage};
use crate::wish::wishes;

/// 2: a healthy backing leaves Error by itself when its engine is back.
#[tokio::test(start_paused = true)]
async fn fault_002_a_healthy_backing_leaves_unknown_when_its_engine_is_back() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.house.world.set_reach("one", Reach::Down);
    stage.reason(&id, "EngineUnreachable").await;
    stage.house.world.set_reach("one", Reach::Up);
    stage.ready(&id).await;
    assert_eq!(stage.get(&id).map(|s| s.record.observed.incarnation), Some(1));
}

/// 10: exit codes decide nothing; a backing that ended with 0 and left no result was lost.
#[tokio::test(start_paused = true)]
async fn fault_010_exit_codes_alone_decide_nothing() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    for code in [0, 137, 143] {
        assert!(stage.house.world.kill_backing(ENGINE, &id, code, false));
        stage.until("down", |stage| !stage.house.world.can_run(&id)).await;
        stage.ready(&id).await;
    }
    stage.ask(&id, IntentVerb::Stop).await;
    stage.shows(&id, Phase::Stopped).await;
}

/// 11: a create in flight when the gateway ends is found and brought to its end.
#[tokio::test(start_paused = true)]
async fn fault_011_a_create_in_flight_at_the_end_of_the_gateway_is_not_lost() {
    let mut stage = Stage::new().await;
    let late = Disturbance::LateAnswer(Duration::from_secs(5));
    stage.house.world.with_faults(|faults| faults.plan(5, late));
    let id = stage.create("lab", "forever").await;
    stage.until("late", |stage| stage.house.world.with_faults(|f| f.all_met())).await;
    stage.minutes(1).await;
    stage.ready(&id).await;
}

/// 13: the intent is read anew before each call; a stop asked in the middle of a start wins.
#[tokio::test(start_paused = true)]
async fn fault_013_a_stop_in_the_middle_of_a_start_wins() {
    let mut stage = Stage::new().await;
    let id = stage.create("lab", "forever").await;
    stage.until("starting", |stage| stage.state(&id) == Some(SimState::Starting)).await;
    stage.ask(&id, IntentVerb::Stop).await;
    stage.shows(&id, Phase::Stopped).await;
    stage.minutes(5).await;
    assert!(!stage.state(&id).is_some_and(SimState::is_live));
}

/// 14, 104: an engine that hangs over one sandbox delays no verb and no other engine.
#[tokio::test(start_paused = true)]
async fn fault_014_a_delete_that_hangs_delays_nobody_else() {
    let mut stage = Stage::new().await;
    let stuck = stage.ready_one("stuck").await;
    stage.house.world.set_reach("one", Reach::Hung);
    stage.delete(&stuck, false).await;
    let other = stage.create_on(DRIVERS[1], "other", "forever", RestartPolicy::OnFailure).await;
    let asked = stage.house.world.elapsed();
    stage.ready(&other).await;
    assert!(stage.house.world.elapsed() - asked < Duration::from_secs(10));
}

/// 16: delete runs to its end whatever is missing already.
#[tokio::test(start_paused = true)]
async fn fault_016_delete_of_what_is_gone_already_comes_to_its_end() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.house.world.set_reach("one", Reach::Down);
    assert!(stage.house.world.remove_backing(ENGINE, &id));
    stage.delete(&id, false).await;
    stage.house.world.set_reach("one", Reach::Up);
    stage.gone(&id).await;
}

/// 17, 98, 137: a create that cannot be carried out waits for the user, is tried no more, can be
/// deleted, and leaves its name free.
#[tokio::test(start_paused = true)]
async fn fault_017_a_create_that_failed_does_not_keep_the_name() {
    let mut stage = Stage::new().await;
    let mut impossible = wishes("forever", RestartPolicy::OnFailure);
    impossible.image = Image::Directory(NO_IMAGE.to_owned());
    let id = stage.try_create(DRIVERS[0], "lab", impossible).await.expect("it is taken");
    stage.reason(&id, "NoImage").await;
    assert_eq!(stage.get(&id).and_then(|s| s.view.waits_for), Some(WaitsFor::User));
    let acted = stage.house.world.acted();
    stage.minutes(60).await;
    assert_eq!(stage.house.world.acted(), acted, "nothing is tried until the user has changed it");
    stage.delete(&id, false).await;
    let next = stage.create("lab", "forever").await;
    stage.ready(&next).await;
    stage.gone(&id).await;
}

/// 20, 47, 85: however long the gateway is away, what runs is not disturbed and is found again.
#[tokio::test(start_paused = true)]
async fn fault_020_a_gateway_that_was_away_for_a_month_disturbs_nothing() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.house.kill("for a month");
    tokio::time::sleep(Duration::from_secs(30 * 24 * 3600)).await;
    stage.house.start().await;
    stage.ready(&id).await;
    assert_eq!(stage.get(&id).map(|s| s.record.observed.incarnation), Some(1));
    assert_eq!(stage.house.world.carried_out(&id, 1), 1);
}

/// 25, 133: after a reboot the command runs again, with no verb.
#[tokio::test(start_paused = true)]
async fn fault_025_after_a_reboot_the_command_runs_again() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.house.kill("the machine reboots");
    stage.house.world.end_everything(ENGINE, None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    stage.house.start().await;
    stage.ready(&id).await;
    stage.until("it runs", |stage| stage.house.world.carried_out(&id, 1) == 2).await;
}

/// 31: what is started behind our back ends where it was asked to be.
#[tokio::test(start_paused = true)]
async fn fault_031_a_stopped_one_started_from_outside_is_stopped_again() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.ask(&id, IntentVerb::Stop).await;
    stage.shows(&id, Phase::Stopped).await;
    assert!(stage.house.world.start_backing(ENGINE, &id));
    stage.until("down again", |stage| !stage.state(&id).is_some_and(SimState::is_live)).await;
    stage.shows(&id, Phase::Stopped).await;
}

/// 35, 44: work grows over many stops, starts and losses, and none of it is lost.
#[tokio::test(start_paused = true)]
async fn fault_044_work_is_kept_over_many_cycles() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    let root = stage.root(&id);
    for _ in 0..6 {
        assert!(stage.house.world.work(&id));
        stage.ask(&id, IntentVerb::Stop).await;
        stage.shows(&id, Phase::Stopped).await;
        stage.ask(&id, IntentVerb::Start).await;
        stage.ready(&id).await;
        assert!(stage.house.world.kill_backing(ENGINE, &id, 137, true));
        stage.until("down", |stage| !stage.house.world.can_run(&id)).await;
        stage.ready(&id).await;
    }
    assert_eq!(stage.root(&id), root);
}

/// 49, 50, 65: delete is accepted while the engine is away and tried for as long as it takes;
/// forget gives the record up.
#[tokio::test(start_paused = true)]
async fn fault_050_a_delete_waits_for_its_engine_as_long_as_it_takes() {
    let mut stage = Stage::new().await;
    let (kept, given_up) = (stage.ready_one("kept").await, stage.ready_one("given-up").await);
    stage.house.world.set_reach("one", Reach::Down);
    stage.delete(&kept, false).await;
    stage.delete(&given_up, true).await;
    stage.gone(&given_up).await;
    stage.minutes(24 * 60).await;
    stage.shows(&kept, Phase::Deleting).await;
    stage.house.world.set_reach("one", Reach::Up);
    stage.gone(&kept).await;
    stage
        .until("nothing is left", |stage| {
            stage.state(&kept).is_none() && stage.state(&given_up).is_none()
        })
        .await;
}

/// 59: a lost store puts the gateway in hold; nothing is destroyed, and adopt brings all back.
#[tokio::test(start_paused = true)]
async fn fault_059_a_lost_store_destroys_nothing_and_is_rebuilt() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    assert!(stage.house.world.work(&id));
    stage.house.kill("its store is lost");
    stage.house.store.restore(&MemoryStore::new().snapshot());
    stage.house.start().await;
    stage.until("hold", |stage| stage.house.gateway().hold().is_some()).await;
    let acted = stage.house.world.acted();
    stage.minutes(60).await;
    assert_eq!(stage.house.world.acted(), acted, "nothing is changed in hold");
    let adopted = stage.house.gateway().adopt("user").await.expect("the engine answers");
    assert!(adopted.contains(&"lab".to_owned()), "{adopted:?}");
    stage.ready(&id).await;
    assert_eq!(stage.house.world.carried_out(&id, 1), 1, "what runs was left alone");
}

/// 61: a workspace that is gone is said to be gone; no empty one takes its place.
#[tokio::test(start_paused = true)]
async fn fault_061_a_lost_workspace_is_not_replaced_by_an_empty_one() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.ask(&id, IntentVerb::Stop).await;
    stage.shows(&id, Phase::Stopped).await;
    let workspace = stage.get(&id).map(|s| s.record.intent.spec.workspace.clone());
    let workspace = workspace.expect("it has one");
    assert!(stage.house.world.lose_workspace(ENGINE, &workspace));
    stage.ask(&id, IntentVerb::Start).await;
    stage.reason(&id, "WorkspaceMissing").await;
    stage.minutes(60).await;
    assert!(stage.house.world.is_missing("one", &workspace));
}

/// 62: list needs no engine.
#[tokio::test(start_paused = true)]
async fn fault_062_list_is_answered_at_once_with_a_hung_engine() {
    let mut stage = Stage::new().await;
    stage.ready_one("lab").await;
    stage.house.world.set_reach("one", Reach::Hung);
    stage.minutes(5).await;
    let before = stage.house.world.elapsed();
    assert_eq!(stage.house.gateway().list(&std::collections::BTreeMap::new()).len(), 1);
    assert_eq!(stage.house.world.elapsed(), before);
}

/// 64, 73: a gateway and a machine that end in the middle of a stop leave nothing stuck in it.
#[tokio::test(start_paused = true)]
async fn fault_064_a_stop_that_was_cut_off_is_resumed() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.ask(&id, IntentVerb::Stop).await;
    stage.house.pass(Duration::from_millis(20)).await;
    assert_eq!(stage.state(&id), Some(SimState::Stopping));
    stage.house.kill("in the middle of a stop");
    stage.house.world.end_everything(ENGINE, None);
    stage.house.start().await;
    stage.shows(&id, Phase::Stopped).await;
    stage.ask(&id, IntentVerb::Start).await;
    stage.ready(&id).await;
}

/// 70: what was stopped stays stopped over reboots.
#[tokio::test(start_paused = true)]
async fn fault_070_a_stopped_one_is_never_revived() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    stage.ask(&id, IntentVerb::Stop).await;
    stage.shows(&id, Phase::Stopped).await;
    for _ in 0..3 {
        stage.house.kill("the machine reboots");
        stage.house.world.end_everything(ENGINE, None);
        stage.house.start().await;
        stage.minutes(30).await;
        assert!(!stage.state(&id).is_some_and(SimState::is_live));
    }
}

/// 71: what waited for an engine goes on when that is back.
#[tokio::test(start_paused = true)]
async fn fault_071_what_waited_for_an_engine_goes_on() {
    let mut stage = Stage::new().await;
    stage.house.world.set_reach("one", Reach::Down);
    let id = stage.create("lab", "forever").await;
    stage.reason(&id, "EngineUnreachable").await;
    stage.minutes(120).await;
    stage.house.world.set_reach("one", Reach::Up);
    stage.ready(&id).await;
}

/// 76: a start that fails is tried again, and the first error is kept until it is Ready.
#[tokio::test(start_paused = true)]
async fn fault_076_a_start_that_fails_is_tried_again() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    let failing = Rates { boot_failed: 1000, ..Rates::NONE };
    stage.house.world.with_faults(|faults| faults.rates = failing);
    assert!(stage.house.world.kill_backing(ENGINE, &id, 137, false));
    stage.minutes(30).await;
    assert_ne!(stage.phase(&id), Some(Phase::Ready));
    stage.house.world.with_faults(|faults| faults.rates = Rates::NONE);
    stage.ready(&id).await;
}

/// 110: a supervisor that does not answer is waited for; its work is never killed by us.
#[tokio::test(start_paused = true)]
async fn fault_110_a_missed_heartbeat_kills_no_work() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    for _ in 0..5 {
        let process = stage.house.process.as_ref().expect("a gateway runs");
        process.sessions.cut_all();
        stage.minutes(1).await;
    }
    stage.ready(&id).await;
    assert_eq!(stage.get(&id).map(|s| s.record.observed.incarnation), Some(1));
    assert_eq!(stage.house.world.carried_out(&id, 1), 1);
}

/// 7, 154: a supervisor that never reports is started again, and a delete does not wait for it.
#[tokio::test(start_paused = true)]
async fn fault_154_a_delete_never_waits_for_readiness() {
    let mut stage = Stage::new().await;
    let mute = Rates { boot_mute: 1000, ..Rates::NONE };
    stage.house.world.with_faults(|faults| faults.rates = mute);
    let id = stage.create("lab", "forever").await;
    stage.reason(&id, "SupervisorNeverConnected").await;
    stage.delete(&id, false).await;
    let asked = stage.house.world.elapsed();
    stage.gone(&id).await;
    assert!(stage.house.world.elapsed() - asked < Duration::from_secs(60));
}
