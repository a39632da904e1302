//! A copy of a home has the ids and the records of the original: what runs there is nothing of the
//! copy's, whatever the copy is told to do.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandkeep_core::Backing;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver::{Driver, ErrorKind};
use sandkeep_driver_local::LocalDriver;
use support::{LocalFixture, can_run};

async fn running(fixture: &LocalFixture, wishes: &Wishes) -> String {
    let driver = fixture.local();
    driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
    driver.create(&wishes.backing(1)).await.unwrap();
    driver.start(&wishes.id).await.unwrap().backing_run.unwrap()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn copied(fixture: &LocalFixture) -> PathBuf {
    let place = fixture.home().with_file_name("copy");
    copy(fixture.home(), &place);
    place
}

async fn told_to_do_everything(copy: &LocalDriver, wishes: &Wishes) {
    let id = &wishes.id;
    let seen = copy.inspect(id).await.unwrap();
    assert_eq!((seen.backing, seen.backing_run), (Backing::Idle, None));
    let refused = copy.start(id).await.unwrap_err();
    assert_eq!((refused.kind, &*refused.reason), (ErrorKind::Conflict, "RunsInAnotherHome"));
    assert!(copy.freeze(id).await.is_err());
    assert!(copy.thaw(id).await.is_err());
    copy.stop(id, Duration::from_secs(1)).await.unwrap();
    copy.kill(id).await.unwrap();
    copy.create(&wishes.backing(2)).await.unwrap();
    assert!(copy.start(id).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_does_nothing_to_what_runs_in_the_original() {
    if !can_run() {
        return;
    }
    for (lost, legacy) in
        [("", false), ("runtime.json", false), ("uses.json", false), ("state", false), ("", true)]
    {
        let fixture = LocalFixture::new();
        let wishes = Wishes::new(&fixture, 1);
        let run = running(&fixture, &wishes).await;
        let place = copied(&fixture);
        let dir = place.join("sandboxes").join(wishes.id.as_str());
        match dir.join(lost) {
            _ if lost.is_empty() => {}
            path if path.is_dir() => fs::remove_dir_all(path).unwrap(),
            path => fs::remove_file(path).unwrap(),
        }
        if legacy {
            forget_directories(&dir);
        }
        let copy = fixture.opened_at(&place);
        told_to_do_everything(&copy, &wishes).await;
        let still = fixture.reopened_with(&Default::default()).inspect(&wishes.id).await.unwrap();
        assert_eq!((still.backing, still.backing_run), (Backing::Running, Some(run)), "{lost}");

        fixture.local().stop(&wishes.id, Duration::from_secs(20)).await.unwrap();
        let up = copy.start(&wishes.id).await.unwrap();
        assert_eq!(up.backing, Backing::Running);
        // Now it is the other way round.
        let original = fixture.local();
        assert_eq!(original.start(&wishes.id).await.unwrap_err().reason, "RunsInAnotherHome");
        original.remove(&wishes.id).await.unwrap();
        assert_eq!(copy.inspect(&wishes.id).await.unwrap().backing_run, up.backing_run);
        copy.remove(&wishes.id).await.unwrap();
        assert!(fixture.processes().is_empty());
    }
}

/// What an older build wrote.
fn forget_directories(dir: &Path) {
    for file in ["runtime.json", "uses.json"] {
        let path = dir.join(file);
        let mut value: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        value.as_object_mut().unwrap().remove("sandbox_dir").unwrap();
        fs::write(&path, value.to_string()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_of_a_home_that_was_replaced_by_its_backup_is_still_its_own() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let run = running(&fixture, &wishes).await;
    assert!(!fixture.local().inspect(&wishes.id).await.unwrap().workspace_replaced);
    let backup = copied(&fixture);
    fs::remove_dir_all(fixture.home()).unwrap();
    fs::rename(&backup, fixture.home()).unwrap();
    let next = fixture.reopened_with(&Default::default());
    let seen = next.inspect(&wishes.id).await.unwrap();
    assert_eq!((seen.backing, seen.backing_run), (Backing::Running, Some(run.clone())));
    assert!(seen.workspace_replaced, "what it writes is in the removed one");
    next.stop(&wishes.id, Duration::from_secs(20)).await.unwrap();
    let up = next.start(&wishes.id).await.unwrap();
    assert_ne!(up.backing_run, Some(run));
    assert!(!next.inspect(&wishes.id).await.unwrap().workspace_replaced);
    next.remove(&wishes.id).await.unwrap();
    assert!(fixture.processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_by_the_path_of_a_home_that_was_moved_away() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let run = running(&fixture, &wishes).await;
    let (driver, new) = (fixture.local(), Wishes::new(&fixture, 2));
    let away = fixture.home().with_file_name("away");
    fs::rename(fixture.home(), &away).unwrap();
    fs::create_dir(fixture.home()).unwrap();
    let refusals = [
        driver.ensure_workspace(&new.workspace(false)).await.unwrap_err(),
        driver.create(&new.backing(1)).await.unwrap_err(),
        driver.start(&wishes.id).await.unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!((refused.kind, &*refused.reason), (ErrorKind::Unavailable, "HomeMovedAway"));
    }
    assert_eq!(fs::read_dir(fixture.home()).unwrap().count(), 0);
    let moved = fixture.opened_at(&away);
    assert_eq!(moved.inspect(&wishes.id).await.unwrap().backing_run, Some(run));
    moved.remove(&wishes.id).await.unwrap();
}
