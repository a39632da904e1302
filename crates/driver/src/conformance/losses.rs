//! Losses: what was running is not any more, and nobody asked for it. The two faults that this
//! system is built against stand here under their names.

use futures::StreamExt;
use sandkeep_core::Backing;

use super::fixture::{Fixture, PATIENCE, Wishes, eventually, fine};
use super::{Outcome, Skip};
use crate::{Driver, WatchEvent};

/// The record says Provisioning and wants Running; the backend holds the object and nothing runs.
/// That state has a name, Idle, and start and stop both lead on from it.
pub(super) async fn recorded_provisioning_want_running_backing_idle(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    wishes.created(&*driver).await;
    // The gateway that recorded it is gone; the next one looks and acts.
    let next = fixture.reopened();
    assert_eq!(wishes.state(&*next).await, Backing::Idle);
    fine("stop", next.stop(&wishes.id, PATIENCE).await);
    assert!(wishes.state(&*next).await.is_down());
    wishes.started(&*next).await;
    fine("remove", next.remove(&wishes.id).await);
    Ok(())
}

/// The engine ended it politely (exit 143) while no gateway was there; it is still on disk.
pub(super) async fn error_at_gateway_start_backing_exited_143_still_on_disk(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let first_run = wishes.running(&*driver).await;
    let keeps_root = driver.capabilities().keeps_rootfs;
    if keeps_root {
        fixture.write_in_root(&wishes.id, "kept").await?;
    }
    fixture.end_pid_1(&wishes.id, &first_run).await?;

    let next = fixture.reopened();
    exited(&wishes, &*next, &first_run).await;
    let run = wishes.started(&*next).await;
    assert_ne!(run, first_run, "a new run has a new name");
    if keeps_root {
        assert_eq!(fixture.read_in_root(&wishes.id).await?.as_deref(), Some("kept"));
    }
    fine("remove", next.remove(&wishes.id).await);
    Ok(())
}

async fn exited(wishes: &Wishes, driver: &dyn Driver, run: &str) {
    let is_exited = |backing: &Backing| matches!(backing, Backing::Exited { .. });
    let report = wishes.until(driver, "exited", is_exited).await;
    assert_eq!(report.backing_run.as_deref(), Some(run), "the run that ended keeps its name");
}

pub(super) async fn a_killed_one_is_seen_exited_and_comes_back_as_another_run(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let mut run = wishes.running(&*driver).await;
    for _ in 0..3 {
        fixture.kill_pid_1(&wishes.id, &run).await?;
        exited(&wishes, &*driver, &run).await;
        let next = wishes.started(&*driver).await;
        assert_ne!(next, run);
        run = next;
    }
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn a_reboot_is_seen_as_a_loss_and_start_brings_it_back(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, ran, idle) = (fixture.driver(), Wishes::new(fixture, 1), Wishes::new(fixture, 2));
    let first_run = ran.running(&*driver).await;
    idle.created(&*driver).await;
    let keeps_root = driver.capabilities().keeps_rootfs;
    if keeps_root {
        fixture.write_in_root(&ran.id, "kept").await?;
    }
    let driver = fixture.reboot().await?;
    exited(&ran, &*driver, &first_run).await;
    assert_eq!(idle.state(&*driver).await, Backing::Idle);
    let found = fine("list", driver.list().await);
    assert_eq!(found.len(), 2, "a reboot loses no backing: {found:?}");
    assert_ne!(ran.started(&*driver).await, first_run);
    if keeps_root {
        assert_eq!(fixture.read_in_root(&ran.id).await?.as_deref(), Some("kept"));
    }
    fine("remove", driver.remove(&ran.id).await);
    fine("remove", driver.remove(&idle.id).await);
    Ok(())
}

pub(super) async fn a_new_process_finds_what_runs_and_leaves_it_alone(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    drop(driver);
    let next = fixture.reopened();
    let report = fine("inspect", next.inspect(&wishes.id).await);
    assert_eq!((report.backing, report.backing_run), (Backing::Running, Some(run)));
    fine("stop", next.stop(&wishes.id, PATIENCE).await);
    assert!(wishes.state(&*next).await.is_down());
    fine("remove", next.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn the_end_of_a_running_one_is_told_to_who_watches(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    // Also by a process that did not start it, once it has looked.
    for driver in [fixture.reopened(), driver] {
        let mut events = driver.watch();
        let run_now = eventually("running", || async {
            let report = fine("inspect", driver.inspect(&wishes.id).await);
            report.backing_run.filter(|_| report.backing == Backing::Running).ok_or(())
        })
        .await;
        fixture.kill_pid_1(&wishes.id, &run_now).await?;
        let told = async {
            loop {
                match events.next().await {
                    Some(WatchEvent::Look(id)) if id == wishes.id => break,
                    Some(WatchEvent::Resync) => break,
                    Some(WatchEvent::Look(_)) => {}
                    None => panic!("the stream of events ended"),
                }
            }
        };
        let told = tokio::time::timeout(PATIENCE, told).await;
        told.map_err(|_| Skip(String::new())).expect("nobody told of the end");
        exited(&wishes, &*driver, &run_now).await;
        wishes.started(&*driver).await;
    }
    assert!(!run.is_empty());
    fine("remove", fixture.driver().remove(&wishes.id).await);
    Ok(())
}
