//! Workspaces: removed by a discard and by nothing else, and never replaced by an empty one.

use sandkeep_core::Backing;

use super::Outcome;
use super::fixture::{Fixture, Wishes, fine, refused};
use crate::{Driver, ErrorKind, WorkspaceReport};

async fn bound(driver: &dyn Driver, wishes: &Wishes, marked: bool) -> String {
    match fine("ensure_workspace", driver.ensure_workspace(&wishes.workspace(marked)).await) {
        WorkspaceReport::Bound { handle } => handle,
        WorkspaceReport::Missing { message } => panic!("it is missing: {message}"),
    }
}

async fn missing(driver: &dyn Driver, wishes: &Wishes) {
    for _ in 0..2 {
        let report = driver.ensure_workspace(&wishes.workspace(true)).await;
        let report = fine("ensure_workspace", report);
        let WorkspaceReport::Missing { message } = report else { panic!("{report:?}") };
        assert!(!message.is_empty());
    }
}

pub(super) async fn a_workspace_outlives_its_sandbox(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let handle = wishes.created(&*driver).await;
    wishes.started(&*driver).await;
    fixture.write_in_workspace(&handle, "work").await?;
    fine("kill", driver.kill(&wishes.id).await);
    wishes.started(&*driver).await;
    fine("remove", driver.remove(&wishes.id).await);
    let handle = bound(&*driver, &wishes, true).await;
    assert_eq!(fixture.read_in_workspace(&handle).await?.as_deref(), Some("work"));
    fine("create", driver.create(&wishes.backing(1)).await);
    wishes.started(&*driver).await;
    assert_eq!(fixture.read_in_workspace(&handle).await?.as_deref(), Some("work"));
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn a_marked_workspace_that_is_gone_is_missing_and_nothing_is_made(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let never_made = Wishes::new(fixture, 2);
    missing(&*driver, &never_made).await;
    let handle = bound(&*driver, &wishes, false).await;
    fixture.lose_workspace(&wishes.workspace, &handle).await?;
    missing(&*driver, &wishes).await;
    let found = fine("list_workspaces", driver.list_workspaces().await);
    assert!(found.iter().all(|workspace| workspace.id != never_made.workspace));
    Ok(())
}

pub(super) async fn a_workspace_that_lost_its_mark_is_missing(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let handle = bound(&*driver, &wishes, false).await;
    fixture.write_in_workspace(&handle, "work").await?;
    fixture.lose_mark(&wishes.workspace, &handle).await?;
    missing(&*driver, &wishes).await;
    assert_eq!(fixture.read_in_workspace(&handle).await?.as_deref(), Some("work"));
    Ok(())
}

pub(super) async fn start_refuses_an_empty_workspace_in_place_of_a_marked_one(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let handle = wishes.created(&*driver).await;
    fixture.lose_workspace(&wishes.workspace, &handle).await?;
    assert_eq!(refused("start", driver.start(&wishes.id).await), ErrorKind::Invalid);
    assert!(wishes.state(&*driver).await.is_down());
    missing(&*driver, &wishes).await;
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn ensuring_twice_is_once(fixture: &dyn Fixture) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let handle = bound(&*driver, &wishes, false).await;
    fixture.write_in_workspace(&handle, "work").await?;
    // The first answer was lost, so nobody knows that it is marked.
    for (driver, marked) in [(driver.clone(), false), (fixture.reopened(), false), (driver, true)] {
        assert_eq!(bound(&*driver, &wishes, marked).await, handle);
        assert_eq!(fixture.read_in_workspace(&handle).await?.as_deref(), Some("work"));
    }
    Ok(())
}

pub(super) async fn discarding_twice_is_once_and_removes_every_byte(
    fixture: &dyn Fixture,
) -> Outcome {
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let handle = bound(&*driver, &wishes, false).await;
    fixture.write_in_workspace(&handle, "work").await?;
    for _ in 0..2 {
        fine("discard", driver.discard_workspace(&wishes.workspace).await);
        missing(&*driver, &wishes).await;
    }
    let handle = bound(&*driver, &wishes, false).await;
    assert_eq!(fixture.read_in_workspace(&handle).await?, None);
    Ok(())
}

pub(super) async fn list_finds_marked_workspaces(fixture: &dyn Fixture) -> Outcome {
    let driver = fixture.driver();
    let (kept, gone) = (Wishes::new(fixture, 1), Wishes::new(fixture, 2));
    let handle = kept.created(&*driver).await;
    bound(&*driver, &gone, false).await;
    fine("remove", driver.remove(&kept.id).await);
    fine("discard", driver.discard_workspace(&gone.workspace).await);
    let found = fine("list_workspaces", fixture.reopened().list_workspaces().await);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0].id, &found[0].handle), (&kept.workspace, &handle));
    assert_eq!(found[0].name, kept.workspace(true).name);
    assert_eq!(kept.state(&*driver).await, Backing::Absent);
    Ok(())
}
