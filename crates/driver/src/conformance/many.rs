//! Many at once.

use std::time::Duration;

use futures::future::join_all;
use sandkeep_core::Backing;

use super::Outcome;
use super::fixture::{Fixture, PATIENCE, Wishes, fine};

pub(super) async fn twenty_side_by_side_come_up_and_go(fixture: &dyn Fixture) -> Outcome {
    let driver = fixture.driver();
    let all: Vec<Wishes> = (1..=20).map(|seed| Wishes::new(fixture, seed)).collect();
    let runs = join_all(all.iter().map(|wishes| wishes.running(&*driver))).await;
    let mut different = runs.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), all.len(), "two sandboxes share a run: {runs:?}");
    assert_eq!(fine("list", driver.list().await).len(), all.len());
    for removed in join_all(all.iter().map(|wishes| driver.remove(&wishes.id))).await {
        fine("remove", removed);
    }
    assert_eq!(fine("list", driver.list().await), []);
    Ok(())
}

pub(super) async fn one_that_is_busy_does_not_hold_up_the_others(fixture: &dyn Fixture) -> Outcome {
    let (driver, stuck, other) =
        (fixture.driver(), Wishes::new(fixture, 1), Wishes::new(fixture, 2));
    let run = stuck.running(&*driver).await;
    fixture.suspend_pid_1(&stuck.id, &run).await?;
    let stopping = tokio::spawn({
        let (driver, id) = (driver.clone(), stuck.id.clone());
        async move { driver.stop(&id, PATIENCE * 4).await }
    });
    // The stop has begun and waits for its long grace; nobody else does.
    let rest = async {
        other.running(&*driver).await;
        fine("remove", driver.remove(&other.id).await);
        assert_eq!(fine("list", driver.list().await).len(), 1);
        assert!(!matches!(stuck.state(&*driver).await, Backing::Absent));
    };
    let done = tokio::time::timeout(PATIENCE, rest).await;
    assert!(done.is_ok(), "another sandbox waited for a stuck one");
    assert!(!stopping.is_finished(), "the stuck one was stopped too early");
    stopping.abort();
    tokio::time::sleep(Duration::ZERO).await;
    fine("remove", driver.remove(&stuck.id).await);
    Ok(())
}
