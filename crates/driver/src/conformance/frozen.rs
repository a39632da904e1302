//! Freezing, where the driver can.

use sandkeep_core::Backing;

use super::fixture::{Fixture, PATIENCE, Wishes, fine};
use super::{Outcome, Skip};

fn can_freeze(fixture: &dyn Fixture) -> Outcome {
    match fixture.driver().capabilities().freeze {
        true => Ok(()),
        false => Err(Skip("the driver does not freeze".into())),
    }
}

pub(super) async fn a_frozen_one_is_paused_and_thaws(fixture: &dyn Fixture) -> Outcome {
    can_freeze(fixture)?;
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    for _ in 0..2 {
        fine("freeze", driver.freeze(&wishes.id).await);
    }
    let is_paused = |backing: &Backing| *backing == Backing::Paused;
    let report = wishes.until(&*driver, "paused", is_paused).await;
    assert_eq!(report.backing_run.as_deref(), Some(run.as_str()));
    for _ in 0..2 {
        fine("thaw", driver.thaw(&wishes.id).await);
    }
    let report = wishes.until(&*driver, "running", |b| *b == Backing::Running).await;
    assert_eq!(report.backing_run, Some(run), "it is the same run");
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn a_frozen_one_can_be_stopped(fixture: &dyn Fixture) -> Outcome {
    can_freeze(fixture)?;
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    wishes.running(&*driver).await;
    fine("freeze", driver.freeze(&wishes.id).await);
    fine("stop", driver.stop(&wishes.id, PATIENCE).await);
    assert!(wishes.state(&*driver).await.is_down());
    wishes.started(&*driver).await;
    fine("freeze", driver.freeze(&wishes.id).await);
    fine("remove", driver.remove(&wishes.id).await);
    assert_eq!(wishes.state(&*driver).await, Backing::Absent);
    Ok(())
}
