//! Each verb by itself: what it does, and that doing it twice is doing it once.

use std::time::Duration;

use sandkeep_core::Backing;
use tokio::time::Instant;

use super::Outcome;
use super::fixture::{Fixture, Wishes, fine, refused};
use crate::ErrorKind;

const LONG: Duration = Duration::from_secs(20);

pub(super) async fn identity_stays_the_same_and_outlives_the_process(
    fixture: &dyn Fixture,
) -> Outcome {
    let driver = fixture.driver();
    let first = fine("identity", driver.identity().await);
    assert!(!first.is_empty());
    assert_eq!(fine("identity", driver.identity().await), first);
    assert_eq!(fine("identity", fixture.reopened().identity().await), first);
    Ok(())
}

pub(super) async fn inspect_of_an_absent_one_says_absent(fixture: &dyn Fixture) -> Outcome {
    let driver = fixture.driver();
    let report = fine("inspect", driver.inspect(&Wishes::new(fixture, 1).id).await);
    assert_eq!(report.backing, Backing::Absent);
    assert_eq!(report.backing_run, None);
    assert_eq!(report.engine, Some(fine("identity", driver.identity().await)));
    Ok(())
}

pub(super) async fn a_created_one_is_idle_until_it_is_started(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    wishes.created(&*driver).await;
    let report = fine("inspect", driver.inspect(&wishes.id).await);
    assert_eq!(report.backing, Backing::Idle);
    assert_eq!(report.backing_run, None);
    assert_eq!(report.generation, Some(1));
    let run = wishes.started(&*driver).await;
    let report = fine("inspect", driver.inspect(&wishes.id).await);
    assert_eq!(report.backing_run, Some(run));
    assert_eq!(report.generation, Some(1));
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn create_collides_and_is_adopted(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    // The next process does not know that it was made.
    fine("create", fixture.reopened().create(&wishes.backing(1)).await);
    let report = fine("inspect", driver.inspect(&wishes.id).await);
    assert_eq!((report.backing, report.backing_run), (Backing::Running, Some(run)));
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn create_with_a_newer_generation_takes_its_place_and_keeps_the_root(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    wishes.running(&*driver).await;
    if driver.capabilities().keeps_rootfs {
        fixture.write_in_root(&wishes.id, "kept").await?;
    }
    fine("stop", driver.stop(&wishes.id, LONG).await);
    fine("create", driver.create(&wishes.backing(2)).await);
    let report = fine("inspect", driver.inspect(&wishes.id).await);
    assert_eq!(report.generation, Some(2));
    assert!(report.backing.is_down(), "{report:?}");
    wishes.started(&*driver).await;
    if driver.capabilities().keeps_rootfs {
        assert_eq!(fixture.read_in_root(&wishes.id).await?.as_deref(), Some("kept"));
    }
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn start_of_what_was_never_created_is_not_found(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    assert_eq!(refused("start", driver.start(&wishes.id).await), ErrorKind::NotFound);
    assert_eq!(wishes.state(&*driver).await, Backing::Absent);
    Ok(())
}

pub(super) async fn start_of_a_running_one_is_left_alone(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    for again in [driver.clone(), fixture.reopened()] {
        let report = fine("start", again.start(&wishes.id).await);
        assert_eq!((report.backing, report.backing_run), (Backing::Running, Some(run.clone())));
    }
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn stop_is_polite_first(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    let before = Instant::now();
    fine("stop", driver.stop(&wishes.id, LONG).await);
    assert!(before.elapsed() < LONG / 2, "the polite signal was not heard");
    let report = fine("inspect", driver.inspect(&wishes.id).await);
    assert!(report.backing.is_down(), "{report:?}");
    assert_eq!(report.backing_run, Some(run));
    fine("stop", driver.stop(&wishes.id, LONG).await);
    assert!(wishes.state(&*driver).await.is_down());
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn stop_kills_after_the_grace(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    fixture.suspend_pid_1(&wishes.id, &run).await?;
    let (before, grace) = (Instant::now(), Duration::from_millis(300));
    fine("stop", driver.stop(&wishes.id, grace).await);
    assert!(before.elapsed() >= grace, "it was not given its grace");
    assert!(wishes.state(&*driver).await.is_down());
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn kill_ends_it_at_once_and_twice_is_once(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    fixture.suspend_pid_1(&wishes.id, &run).await?;
    for _ in 0..2 {
        fine("kill", driver.kill(&wishes.id).await);
        assert!(wishes.state(&*driver).await.is_down());
    }
    fine("remove", driver.remove(&wishes.id).await);
    fine("kill", driver.kill(&wishes.id).await);
    Ok(())
}

pub(super) async fn remove_of_an_absent_one_is_done(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    for _ in 0..2 {
        fine("remove", driver.remove(&wishes.id).await);
        assert_eq!(wishes.state(&*driver).await, Backing::Absent);
    }
    Ok(())
}

pub(super) async fn remove_leaves_nothing(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    fine("identity", driver.identity().await);
    let before = fixture.footprint().await?;
    for ended in [false, true] {
        wishes.running(&*driver).await;
        assert_ne!(fixture.footprint().await?, before, "the footprint sees nothing");
        if ended {
            fine("kill", driver.kill(&wishes.id).await);
        }
        fine("remove", driver.remove(&wishes.id).await);
        fine("discard", driver.discard_workspace(&wishes.workspace).await);
        assert_eq!(fixture.footprint().await?, before);
    }
    Ok(())
}

pub(super) async fn remove_of_a_running_one_ends_it(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    wishes.running(&*driver).await;
    fine("remove", driver.remove(&wishes.id).await);
    assert_eq!(wishes.state(&*driver).await, Backing::Absent);
    assert_eq!(refused("start", driver.start(&wishes.id).await), ErrorKind::NotFound);
    Ok(())
}

pub(super) async fn list_finds_exactly_what_carries_our_id(fixture: &dyn Fixture) -> Outcome {
    let driver = fixture.driver();
    let (idle, running, gone) =
        (Wishes::new(fixture, 1), Wishes::new(fixture, 2), Wishes::new(fixture, 3));
    idle.created(&*driver).await;
    running.running(&*driver).await;
    gone.created(&*driver).await;
    fine("remove", driver.remove(&gone.id).await);
    for driver in [driver.clone(), fixture.reopened()] {
        let mut found = fine("list", driver.list().await);
        found.sort_by_key(|backing| backing.backing != Backing::Idle);
        let states: Vec<_> = found.iter().map(|b| (b.id.clone(), b.backing.clone())).collect();
        let wished = [(idle.id.clone(), Backing::Idle), (running.id.clone(), Backing::Running)];
        assert_eq!(states, wished);
        assert_eq!(found[0].made_from, Some(idle.backing(1)));
    }
    let stranger = fixture.stranger()?;
    assert_eq!(fine("list", stranger.list().await), []);
    fine("remove", driver.remove(&idle.id).await);
    fine("remove", driver.remove(&running.id).await);
    Ok(())
}
