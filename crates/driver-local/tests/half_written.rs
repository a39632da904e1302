//! A label or a mark of which a crash of the machine left half: the one is written again, the other
//! never stands for a workspace that was in use.
#![allow(clippy::unwrap_used, reason = "a test fails aloud")]

mod support;

use std::fs;

use sandkeep_core::Backing;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver::{Driver, WorkspaceReport};
use sandkeep_driver_local::LocalDriver;
use support::{LocalFixture, can_run};

const HALVES: [&str; 3] = ["", "{\"gateway\":\"", "\0\0\0\0"];

async fn create(driver: &LocalDriver, wishes: &Wishes) {
    let workspace = driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
    assert!(matches!(workspace, WorkspaceReport::Bound { .. }));
    driver.create(&wishes.backing(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_label_is_none_while_nothing_is_alive_and_is_made_again() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    for half in HALVES {
        create(&driver, &wishes).await;
        fs::write(fixture.sandbox_dir(&wishes.id).join("backing.json"), half).unwrap();
        assert_eq!(driver.inspect(&wishes.id).await.unwrap().backing, Backing::Absent, "{half:?}");
        assert_eq!(driver.list().await.unwrap().len(), 1, "{half:?}: what is left is ours");
        create(&driver, &wishes).await;
        driver.start(&wishes.id).await.unwrap();
        fs::write(fixture.sandbox_dir(&wishes.id).join("backing.json"), half).unwrap();
        driver.inspect(&wishes.id).await.expect_err("it is alive, so it is not absent");
        driver.remove(&wishes.id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_mark_is_written_again_only_while_the_workspace_was_never_in_use() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    let mark = fixture.home().join("workspaces").join(wishes.workspace.as_str()).join("mark.json");
    let whole = fs::read(&mark).unwrap();
    for half in HALVES {
        fs::write(&mark, half).unwrap();
        let seen = driver.ensure_workspace(&wishes.workspace(true)).await.unwrap();
        assert!(matches!(seen, WorkspaceReport::Missing { .. }), "{half:?}: {seen:?}");
        assert_eq!(fs::read_to_string(&mark).unwrap(), half, "it was not touched");
        let made = driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
        assert!(matches!(made, WorkspaceReport::Bound { .. }), "{half:?}: {made:?}");
        assert_eq!(fs::read(&mark).unwrap(), whole);
    }
    driver.remove(&wishes.id).await.unwrap();
}
