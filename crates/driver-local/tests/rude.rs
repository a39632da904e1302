//! A home that somebody reaches into: whatever is taken away, a sandbox comes back with its work or
//! says what is missing; a workspace is never lost and never replaced by an empty one.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandkeep_core::Backing;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver::{Driver, ErrorKind, WorkspaceReport};
use sandkeep_driver_local::{Knobs, LocalDriver};
use support::inside::Inside;
use support::{LocalFixture, can_run};

const GRACE: Duration = Duration::from_secs(20);

fn files_of(fixture: &LocalFixture, wishes: &Wishes) -> PathBuf {
    fixture.home().join("workspaces").join(wishes.workspace.as_str()).join("files")
}

/// Created, started, with some work in its workspace.
async fn working(fixture: &LocalFixture, wishes: &Wishes) {
    let driver = fixture.local();
    driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
    driver.create(&wishes.backing(1)).await.unwrap();
    driver.start(&wishes.id).await.unwrap();
    fs::write(files_of(fixture, wishes).join("work"), "kept").unwrap();
}

/// What a reconciler does that wants it to run: looks, and does what is missing.
async fn comes_up(driver: &LocalDriver, wishes: &Wishes) -> String {
    let workspace = driver.ensure_workspace(&wishes.workspace(true)).await.unwrap();
    assert!(matches!(workspace, WorkspaceReport::Bound { .. }), "{workspace:?}");
    for _ in 0..5 {
        let seen = driver.inspect(&wishes.id).await.unwrap();
        match seen.backing {
            Backing::Running => return seen.backing_run.unwrap(),
            Backing::Absent => driver.create(&wishes.backing(1)).await.unwrap(),
            _ => drop(driver.start(&wishes.id).await.unwrap()),
        }
    }
    panic!("it does not come up");
}

async fn works(driver: &LocalDriver, wishes: &Wishes, run: &str) {
    let mut inside = Inside::open(driver, &wishes.id, run).await;
    let done = inside.run(&["/bin/sh", "-c", "cat /workspace/work /etc/hostname"]).await;
    assert_eq!((done.code, done.output.as_str()), (0, "keptcase\n"));
}

fn take_away(path: &Path) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
}

/// Everything in a home that is not the work itself.
const PARTS: [&str; 17] = [
    "sandboxes/ID/backing.json",
    "sandboxes/ID/lock",
    "sandboxes/ID/runtime.json",
    "sandboxes/ID/uses.json",
    "sandboxes/ID/state",
    "sandboxes/ID/run",
    "sandboxes/ID/trash",
    "sandboxes/ID/boot.log",
    "sandboxes/ID/rootfs/root/upper",
    "sandboxes/ID/rootfs/root/work",
    "sandboxes/ID/rootfs/usr/upper",
    "sandboxes/ID/rootfs/usr",
    "sandboxes/ID/rootfs",
    "sandboxes/ID",
    "sandboxes",
    "templates",
    "runtime",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_removed_of_the_home_a_sandbox_comes_back_with_its_work() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    working(&fixture, &wishes).await;
    for part in PARTS {
        let path = fixture.home().join(part.replace("ID", wishes.id.as_str()));
        for running in [true, false] {
            println!("{part}, running: {running}");
            if !running {
                driver.stop(&wishes.id, GRACE).await.unwrap();
            }
            take_away(&path);
            // By the same gateway or by the next: neither knows more than what lies there.
            let found = driver.list().await.unwrap();
            assert!(found.iter().all(|backing| backing.id == wishes.id), "{found:?}");
            let next = fixture.reopened_with(&Knobs::default());
            let run = comes_up(&next, &wishes).await;
            next.kill(&wishes.id).await.unwrap();
            assert_eq!(fixture.processes(), [0; 0], "{part}: one was doubled");
            let again = comes_up(&driver, &wishes).await;
            assert_ne!(run, again);
            works(&driver, &wishes, &again).await;
            assert_eq!(fixture.processes().len(), 1, "{part}: one was doubled");
        }
    }
    driver.remove(&wishes.id).await.unwrap();
    assert_eq!(fs::read_to_string(files_of(&fixture, &wishes).join("work")).unwrap(), "kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_runs_and_lost_its_label_is_not_absent_and_not_made_a_second_time() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    working(&fixture, &wishes).await;
    let before = driver.inspect(&wishes.id).await.unwrap();
    take_away(&fixture.sandbox_dir(&wishes.id).join("backing.json"));
    let after = driver.inspect(&wishes.id).await.unwrap();
    assert_eq!(after.backing_run, before.backing_run);
    assert_eq!((after.backing, after.generation), (Backing::Running, Some(1)));
    driver.remove(&wishes.id).await.unwrap();
    assert_eq!(driver.inspect(&wishes.id).await.unwrap().backing, Backing::Absent);
    assert_eq!(fixture.processes(), [0; 0]);
}

/// A way to take a workspace away, and whether the work is still to be found where it was moved.
const LOSSES: [&str; 6] = ["link", "file", "empty", "gone", "no mark", "nonsense"];

fn lose(loss: &str, files: &Path) {
    let (aside, mark) = (files.with_extension("aside"), files.with_file_name("mark.json"));
    match loss {
        "no mark" => fs::rename(&mark, mark.with_extension("aside")).unwrap(),
        "nonsense" => {
            fs::rename(&mark, mark.with_extension("aside")).unwrap();
            fs::write(&mark, "{\"id\":7}").unwrap();
        }
        _ => fs::rename(files, &aside).unwrap(),
    }
    match loss {
        "link" => symlink(&aside, files).unwrap(),
        "file" => fs::write(files, "").unwrap(),
        "empty" => fs::create_dir(files).unwrap(),
        _ => {}
    }
}

fn give_back(files: &Path) {
    let mark = files.with_file_name("mark.json");
    for path in [files, &mark] {
        let aside = path.with_extension("aside");
        if aside.exists() {
            take_away(path);
            fs::rename(aside, path).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_that_was_replaced_is_missing_until_it_is_back() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    working(&fixture, &wishes).await;
    let files = files_of(&fixture, &wishes);
    driver.stop(&wishes.id, GRACE).await.unwrap();
    for loss in LOSSES {
        lose(loss, &files);
        for driver in [&*driver, &fixture.reopened_with(&Knobs::default())] {
            let report = driver.ensure_workspace(&wishes.workspace(true)).await.unwrap();
            let WorkspaceReport::Missing { message } = report else { panic!("{loss}: {report:?}") };
            assert!(message.contains("files"), "{loss}: {message}");
            let error = driver.start(&wishes.id).await.unwrap_err();
            let told = (error.kind, error.reason.as_str());
            assert_eq!(told, (ErrorKind::Invalid, "WorkspaceMissing"), "{loss}: {error}");
        }
        assert_eq!(fixture.processes(), [0; 0], "{loss}");
        give_back(&files);
        let run = comes_up(&driver, &wishes).await;
        works(&driver, &wishes, &run).await;
        driver.stop(&wishes.id, GRACE).await.unwrap();
    }
    // One that was brought back from a copy is the workspace; an agent may empty its own.
    let copy = files.with_extension("copy");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("work"), "kept").unwrap();
    take_away(&files);
    fs::rename(&copy, &files).unwrap();
    let run = comes_up(&driver, &wishes).await;
    works(&driver, &wishes, &run).await;
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_empties_its_workspace_keeps_an_empty_one() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    working(&fixture, &wishes).await;
    let run = comes_up(&driver, &wishes).await;
    let mut inside = Inside::open(&driver, &wishes.id, &run).await;
    let script = "cd /workspace && rm -rf ./* && touch x && rm x && \
                  if command -v setfattr; then ! setfattr -x trusted.sandkeep.workspace .; fi";
    let done = inside.run(&["/bin/sh", "-c", script]).await;
    assert_eq!(done.code, 0, "{done:?}");
    driver.kill(&wishes.id).await.unwrap();
    comes_up(&driver, &wishes).await;
    driver.remove(&wishes.id).await.unwrap();
}
