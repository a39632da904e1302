//! Faults that only this driver can have: a helper that dies half-way, state that somebody deletes,
//! a root file system that its agent has taken apart, a home with a long path.

#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::Signal;
use sandkeep_core::{Backing, SandboxId};
use sandkeep_driver::conformance::{Fixture, Wishes};
use sandkeep_driver::{Driver, ErrorKind, WorkspaceReport};
use sandkeep_driver_local::{Knobs, LocalDriver, Step};
use support::{LocalFixture, can_run, pid_of, signal_and_wait};
use tokio::io::AsyncReadExt;

const PATIENCE: Duration = Duration::from_secs(30);

async fn create(driver: &LocalDriver, wishes: &Wishes) {
    driver.identity().await.unwrap();
    let workspace = driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
    assert!(matches!(workspace, WorkspaceReport::Bound { .. }));
    driver.create(&wishes.backing(1)).await.unwrap();
}

async fn start(driver: &LocalDriver, wishes: &Wishes) -> String {
    let report = driver.start(&wishes.id).await.unwrap();
    assert_eq!(report.backing, Backing::Running);
    report.backing_run.unwrap()
}

/// A session with PID 1, and its first byte.
async fn speaks(driver: &LocalDriver, id: &SandboxId, run: &str) {
    let opened = tokio::time::timeout(PATIENCE, driver.open_session(id, run)).await;
    let (mut session, _) = opened.expect("nobody came for a session").unwrap();
    let byte = tokio::time::timeout(PATIENCE, session.read_u8()).await;
    assert!(matches!(byte, Ok(Ok(_))), "{byte:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_dies_at_any_step_leaves_nothing_that_the_next_start_cannot_settle() {
    if !can_run() {
        return;
    }
    for step in [Step::Locked, Step::Mounted, Step::Made, Step::Recorded, Step::LetGo] {
        let fixture = LocalFixture::new();
        let wishes = Wishes::new(&fixture, 1);
        let dying = Knobs { helper_dies_at: Some(step), ..Knobs::default() };
        let next = fixture.local();
        create(&next, &wishes).await;
        let before = fixture.footprint().await.unwrap();
        let error = fixture.reopened_with(&dying).start(&wishes.id).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal, "{step:?}: {error}");

        let run = start(&next, &wishes).await;
        speaks(&next, &wishes.id, &run).await;
        assert_eq!(fixture.processes().len(), 1, "{step:?}: PID 1 and nothing else");

        // The same without a start: looking settles it, and removing it leaves nothing.
        next.kill(&wishes.id).await.unwrap();
        fixture.reopened_with(&dying).start(&wishes.id).await.unwrap_err();
        let seen = next.inspect(&wishes.id).await.unwrap().backing;
        if step != Step::LetGo {
            assert!(seen.is_down(), "{step:?}: {seen:?}");
            assert_eq!(fixture.processes(), [0; 0], "{step:?}: looking settles it");
        }
        next.remove(&wishes.id).await.unwrap();
        create(&next, &wishes).await;
        assert_eq!(fixture.footprint().await.unwrap(), before, "{step:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_cut_off_at_any_moment_is_found_or_removed_without_a_trace() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    driver.remove(&wishes.id).await.unwrap();
    let before = fixture.footprint().await.unwrap();
    for ms in 0..40 {
        create(&driver, &wishes).await;
        let cut = tokio::time::timeout(Duration::from_millis(ms), driver.start(&wishes.id)).await;
        if ms % 2 == 0 {
            let run = start(&driver, &wishes).await;
            assert!(cut.is_err() || cut.unwrap().unwrap().backing_run == Some(run.clone()));
            assert_eq!(fixture.processes(), [pid_of(&run)], "after {ms} ms");
        }
        driver.remove(&wishes.id).await.unwrap();
        assert_eq!(fixture.footprint().await.unwrap(), before, "after {ms} ms");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runtime_state_that_is_deleted_while_it_runs_is_found_again_as_the_same_run() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let run = {
        let driver = fixture.reopened_with(&Knobs::default());
        create(&driver, &wishes).await;
        start(&driver, &wishes).await
    };
    for damage in ["removed", "emptied", "nonsense"] {
        fs::remove_dir_all(fixture.home().join("runtime")).unwrap();
        let record = fixture.sandbox_dir(&wishes.id).join("runtime.json");
        match damage {
            "removed" => fs::remove_file(&record).unwrap(),
            "emptied" => fs::write(&record, "").unwrap(),
            _ => fs::write(&record, "{\"birth\":7}").unwrap(),
        }
        let next = fixture.reopened_with(&Knobs::default());
        let report = next.inspect(&wishes.id).await.unwrap();
        assert_eq!((report.backing, report.backing_run), (Backing::Running, Some(run.clone())));
        assert_eq!(start(&next, &wishes).await, run);
        speaks(&next, &wishes.id, &run).await;
    }
    let driver = fixture.local();
    driver.stop(&wishes.id, PATIENCE).await.unwrap();
    assert_ne!(start(&driver, &wishes).await, run);
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_directory_that_is_removed_while_it_runs_is_mounted_anew() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    let run = start(&driver, &wishes).await;
    speaks(&driver, &wishes.id, &run).await;
    let session = fixture.sandbox_dir(&wishes.id).join("run");
    for _ in 0..3 {
        fs::remove_dir_all(&session).unwrap();
        speaks(&driver, &wishes.id, &run).await;
        fs::remove_file(session.join("s")).unwrap();
        speaks(&driver, &wishes.id, &run).await;
        fs::rename(&session, session.with_extension("old")).unwrap();
        fs::create_dir(&session).unwrap();
        // Also by a gateway that was not there.
        let next = fixture.reopened_with(&Knobs::default());
        speaks(&next, &wishes.id, &run).await;
        fs::remove_dir_all(session.with_extension("old")).unwrap();
    }
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_directory_that_is_removed_while_somebody_waits_is_noticed() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    let run = start(&driver, &wishes).await;
    // PID 1 holds this one, so nobody comes until it is dropped.
    let (mut held, _) = driver.open_session(&wishes.id, &run).await.unwrap();
    held.read_u8().await.unwrap();
    let waiting = tokio::spawn({
        let (driver, id, run) = (driver.clone(), wishes.id.clone(), run.clone());
        async move { driver.open_session(&id, &run).await.map(|_| ()) }
    });
    fs::remove_dir_all(fixture.sandbox_dir(&wishes.id).join("run")).unwrap();
    drop(held);
    tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_with_a_path_of_200_bytes_works() {
    if !can_run() {
        return;
    }
    let deeper = format!("{}/{}", "long".repeat(25), "path".repeat(25));
    let fixture = LocalFixture::with(Knobs::default(), &deeper);
    assert!(fixture.home().as_os_str().len() > 200);
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    let run = start(&driver, &wishes).await;
    speaks(&driver, &wishes.id, &run).await;
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_its_agent_took_apart_comes_up_again() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    let outside = tempfile::tempdir().unwrap();
    create(&driver, &wishes).await;
    start(&driver, &wishes).await;
    driver.kill(&wishes.id).await.unwrap();
    // As `rm -rf /` and worse would leave its layer.
    let root = fixture.sandbox_dir(&wishes.id).join("rootfs/root/upper");
    let all = ["bin", "dev", "etc", "lib", "proc", "root", "run", "sys", "tmp", "usr", "var"];
    for name in all.into_iter().chain(["workspace", "opt"]) {
        let path = root.join(name);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            fs::remove_dir_all(&path).unwrap();
        }
        symlink(outside.path(), &path).unwrap();
    }
    let run = start(&driver, &wishes).await;
    speaks(&driver, &wishes.id, &run).await;
    let outside = fs::read_dir(outside.path()).unwrap().count();
    assert_eq!(outside, 0, "a link out of the sandbox was followed");
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pid_that_was_given_to_another_process_is_never_taken_for_pid_1() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    let run = start(&driver, &wishes).await;
    signal_and_wait(pid_of(&run), Some(Signal::KILL));
    // As if the pid had come round: the record names a process that lives and was born later.
    let record = fixture.sandbox_dir(&wishes.id).join("runtime.json");
    let text = fs::read_to_string(&record).unwrap();
    let own = std::process::id().to_string();
    fs::write(
        &record,
        text.replace(&format!("\"pid\":{}", pid_of(&run)), &format!("\"pid\":{own}")),
    )
    .unwrap();
    assert!(fs::read_to_string(&record).unwrap().contains(&own));
    let report = driver.inspect(&wishes.id).await.unwrap();
    assert!(matches!(report.backing, Backing::Exited { .. }), "{report:?}");
    driver.kill(&wishes.id).await.unwrap();
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_was_cut_off_is_found_again_and_finished() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    start(&driver, &wishes).await;
    driver.kill(&wishes.id).await.unwrap();
    // The label goes last, so whatever else is missing it is still listed as ours.
    let dir = fixture.sandbox_dir(&wishes.id);
    for gone in ["rootfs", "state", "run", "lock", "trash"] {
        let path = dir.join(gone);
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
        let found = driver.list().await.unwrap();
        assert_eq!(found.len(), 1, "without {gone}");
        assert_eq!(found[0].made_from, Some(wishes.backing(1)));
    }
    driver.remove(&wishes.id).await.unwrap();
    assert!(!dir.exists());
}
