//! What outlives its last use goes: templates of a host as it was, supervisors of older builds,
//! control groups of a run that has ended. What is in use stays.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use sandkeep_driver::Driver;
use sandkeep_driver::conformance::{Fixture, Wishes};
use sandkeep_driver_local::{Knobs, LocalDriver};
use support::{LocalFixture, can_run, pid_of, signal_and_wait};

async fn create(driver: &LocalDriver, wishes: &Wishes) {
    driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
    driver.create(&wishes.backing(1)).await.unwrap();
}

async fn start(driver: &LocalDriver, wishes: &Wishes) -> String {
    driver.start(&wishes.id).await.unwrap().backing_run.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ended_by_itself_keeps_no_control_group_once_that_is_seen() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    create(&driver, &wishes).await;
    let groups = || async { fixture.footprint().await.unwrap().0["groups"] };
    for lock_is_there in [true, false] {
        let run = start(&driver, &wishes).await;
        assert!(groups().await > 1, "a group of its own in every hierarchy");
        signal_and_wait(pid_of(&run), Some(Signal::KILL));
        if !lock_is_there {
            fs::remove_file(fixture.sandbox_dir(&wishes.id).join("lock")).unwrap();
        }
        assert!(driver.inspect(&wishes.id).await.unwrap().backing.is_down());
        assert_eq!(groups().await, 0, "with its lock: {lock_is_there}");
    }
    // Stopped ones keep none either, and one that runs keeps the groups above.
    let other = Wishes::new(&fixture, 2);
    create(&driver, &other).await;
    let run = start(&driver, &other).await;
    start(&driver, &wishes).await;
    driver.kill(&wishes.id).await.unwrap();
    assert_eq!(fixture.processes(), [pid_of(&run)]);
    assert!(groups().await > 1);
    driver.kill(&other.id).await.unwrap();
    assert_eq!(groups().await, 0);
    driver.remove(&wishes.id).await.unwrap();
    driver.remove(&other.id).await.unwrap();
}

/// The home of a host that was upgraded, and a gateway that was.
struct Old {
    templates: PathBuf,
    supervisors: PathBuf,
}

const TEMPLATES: [&str; 2] = ["0123456789abcdef", "fedcba9876543210"];

impl Old {
    fn plant(fixture: &LocalFixture) -> Self {
        let templates = fixture.home().join("templates");
        let supervisors = fixture.home().with_file_name("supervisors");
        let dirs = TEMPLATES.map(|name| templates.join(name)).into_iter();
        // Remains of a process that died while it made or removed one.
        let dirs = dirs.chain([templates.join("new-1"), templates.join("gone-2")]);
        let dirs = dirs.chain(Self::digests().map(|name| supervisors.join(name)));
        for dir in dirs.chain([supervisors.join("gone-3")]) {
            fs::create_dir_all(dir.join("root/etc")).unwrap();
            fs::write(dir.join("sandkeep-supervisor"), "old").unwrap();
        }
        // Nobody knows whose this is.
        fs::write(supervisors.join("README"), "kept").unwrap();
        Self { templates, supervisors }
    }

    fn digests() -> [String; 2] {
        ["a", "b"].map(|digit| digit.repeat(64))
    }

    /// What is left of what was planted, and whether what is in use is there too.
    #[track_caller]
    fn left(&self) -> Vec<String> {
        let (mut templates, mut supervisors) =
            (names_in(&self.templates), names_in(&self.supervisors));
        let is_planted = |name: &String| {
            TEMPLATES.contains(&name.as_str())
                || Self::digests().contains(name)
                || name.starts_with("gone-")
                || name.starts_with("new-")
        };
        assert!(supervisors.iter().any(|name| name == "README"));
        supervisors.retain(|name| name != "README");
        for names in [&templates, &supervisors] {
            assert_eq!(names.iter().filter(|name| !is_planted(name)).count(), 1, "{names:?}");
        }
        templates.append(&mut supervisors);
        templates.retain(is_planted);
        templates.sort();
        templates
    }
}

/// Names of what is in a directory, sorted.
fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// As if the run had been started on the host as it was, by the build of then.
fn started_then(sandbox: &Path, template: &str, supervisor: &str) {
    let uses = format!("{{\"template\":\"{template}\",\"supervisor\":\"{supervisor}\"}}");
    assert!(sandbox.join("uses.json").exists());
    fs::write(sandbox.join("uses.json"), uses).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_and_supervisors_go_when_the_last_one_that_uses_them_has_ended() {
    if !can_run() {
        return;
    }
    let (fixture, another) = (LocalFixture::new(), LocalFixture::new());
    let driver = fixture.local();
    let [user, gone, later] = [1, 2, 3].map(|seed| Wishes::new(&fixture, seed));
    for wishes in [&user, &gone, &later] {
        create(&driver, wishes).await;
    }
    let run = start(&driver, &user).await;
    let elsewhere = Wishes::new(&another, 1);
    create(&another.local(), &elsewhere).await;
    start(&another.local(), &elsewhere).await;
    let (old, others) = (Old::plant(&fixture), Old::plant(&another));
    let [supervisor, _] = Old::digests();
    started_then(&fixture.sandbox_dir(&user.id), TEMPLATES[0], &supervisor);

    driver.remove(&gone.id).await.unwrap();
    assert_eq!(old.left(), [TEMPLATES[0], &supervisor], "what a running one uses stays");
    driver.kill(&user.id).await.unwrap();
    driver.remove(&later.id).await.unwrap();
    assert_eq!(old.left(), [""; 0]);
    assert_eq!(others.left().len(), 7, "another home is another's");
    assert_ne!(start(&driver, &user).await, run);
    driver.remove(&user.id).await.unwrap();
    another.local().remove(&elsewhere.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_gateway_removes_what_is_unused_but_nothing_while_it_is_unknown_who_uses_what() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let run = {
        let first = fixture.reopened_with(&Knobs::default());
        create(&first, &wishes).await;
        start(&first, &wishes).await
    };
    let old = Old::plant(&fixture);
    // Started by a build that noted nothing.
    let uses = fixture.sandbox_dir(&wishes.id).join("uses.json");
    for damage in ["removed", "damaged"] {
        if damage == "removed" { fs::remove_file(&uses) } else { fs::write(&uses, "{") }.unwrap();
        fixture.reopened_with(&Knobs::default()).list().await.unwrap();
        assert_eq!(old.left().len(), 7, "{damage}");
    }
    signal_and_wait(pid_of(&run), Some(Signal::KILL));
    fixture.reopened_with(&Knobs::default()).list().await.unwrap();
    assert_eq!(old.left(), [""; 0]);
    assert_ne!(start(&fixture.local(), &wishes).await, run);
    fixture.local().remove(&wishes.id).await.unwrap();
}
