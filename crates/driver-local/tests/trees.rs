//! Trees as a hostile agent leaves them: removed to the last byte, by whoever may, and nothing
//! outside of them is touched.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, IFlags, Mode, OFlags, Uid, chownat, ioctl_getflags,
    ioctl_setflags, mkdirat, mknodat, openat,
};
use sandkeep_driver::Driver;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver_local::{DEFAULT_UID_BASE, HELPER_ARG, UID_COUNT};
use support::{LocalFixture, can_run};

const AGENT: u32 = DEFAULT_UID_BASE + 1000;

/// Gives everything below `top` and itself to the agent.
fn give(top: &Path) {
    let owner = format!("{AGENT}:{AGENT}");
    let done = Command::new("chown").args(["-hR", &owner]).arg(top).status().unwrap();
    assert!(done.success());
}

/// `depth` directories, one in the other; the path of the last is longer than any call takes.
fn deep(top: &Path, depth: usize) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at: OwnedFd = openat(CWD, top, flags, Mode::empty()).unwrap();
    let owner = (Some(Uid::from_raw(AGENT)), Some(Gid::from_raw(AGENT)));
    for _ in 0..depth {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        chownat(&at, "d", owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        at = openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    for name in ["x", "y"] {
        mknodat(&at, name, FileType::RegularFile, Mode::RWXU, 0).unwrap();
    }
}

fn many(top: &Path, files: usize) {
    fs::create_dir(top).unwrap();
    for number in 0..files {
        File::create(top.join(number.to_string())).unwrap();
    }
}

/// Everything that is no plain file: none of it may be opened, followed or entered.
fn odd(top: &Path, outside: &Path) {
    fs::create_dir_all(top.join("closed/inner")).unwrap();
    mknodat(CWD, top.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    drop(UnixListener::bind(top.join("socket")).unwrap());
    File::create(top.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    symlink(outside, top.join("out")).unwrap();
    symlink("/", top.join("root")).unwrap();
    symlink("loop", top.join("loop")).unwrap();
    fs::write(top.join("new\nline \u{1b}[31m"), "x").unwrap();
    fs::write(top.join("closed/inner/file"), "x").unwrap();
    fs::hard_link(top.join("closed/inner/file"), top.join("again")).unwrap();
    give(top);
    for closed in ["closed/inner", "closed"] {
        fs::set_permissions(top.join(closed), Permissions::from_mode(0o000)).unwrap();
    }
}

/// What no agent can make: files of others, and such as even root cannot remove at once.
fn foreign(top: &Path) {
    fs::create_dir_all(top.join("of-root/inner")).unwrap();
    fs::set_permissions(top.join("of-root"), Permissions::from_mode(0o700)).unwrap();
    for (path, attribute) in [
        ("of-root/inner/immutable", IFlags::IMMUTABLE),
        ("of-root/appendable", IFlags::APPEND),
        ("of-root/inner", IFlags::IMMUTABLE),
    ] {
        let path = top.join(path);
        if !path.exists() {
            fs::write(&path, "x").unwrap();
        }
        let file = File::open(&path).unwrap();
        ioctl_setflags(&file, ioctl_getflags(&file).unwrap() | attribute).unwrap();
    }
}

struct Outside(tempfile::TempDir);

impl Outside {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kept"), "kept").unwrap();
        Self(dir)
    }

    #[track_caller]
    fn is_untouched(&self) {
        assert_eq!(fs::read_to_string(self.0.path().join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 1);
    }
}

/// The workspace of `wishes`, made; where its files are.
async fn workspace(fixture: &LocalFixture, wishes: &Wishes) -> PathBuf {
    fixture.local().ensure_workspace(&wishes.workspace(false)).await.unwrap();
    fixture.home().join("workspaces").join(wishes.workspace.as_str()).join("files")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_of_any_depth_and_width_is_discarded_to_the_last_byte() {
    if !can_run() {
        return;
    }
    let (fixture, outside) = (LocalFixture::new(), Outside::new());
    let wishes = Wishes::new(&fixture, 1);
    let files = workspace(&fixture, &wishes).await;
    odd(&files, outside.0.path());
    many(&files.join("many"), 100_000);
    give(&files.join("many"));
    deep(&files, 5_000);
    fixture.local().discard_workspace(&wishes.workspace).await.unwrap();
    assert!(!files.parent().unwrap().exists());
    outside.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_agent_has_no_power_over_is_finished_by_root() {
    if !can_run() {
        return;
    }
    let (fixture, outside) = (LocalFixture::new(), Outside::new());
    let wishes = Wishes::new(&fixture, 1);
    let files = workspace(&fixture, &wishes).await;
    odd(&files, outside.0.path());
    foreign(&files);
    fixture.local().discard_workspace(&wishes.workspace).await.unwrap();
    assert!(!files.parent().unwrap().exists());
    outside.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_system_that_is_mounted_in_a_workspace_is_never_entered() {
    if !can_run() {
        return;
    }
    let (fixture, outside) = (LocalFixture::new(), Outside::new());
    let wishes = Wishes::new(&fixture, 1);
    let files = workspace(&fixture, &wishes).await;
    let at = files.join("mounted");
    fs::create_dir(&at).unwrap();
    let mount = |args: &[&Path]| Command::new("mount").arg("--bind").args(args).status().unwrap();
    assert!(mount(&[outside.0.path(), &at]).success());
    let error = fixture.local().discard_workspace(&wishes.workspace).await.unwrap_err();
    assert!(error.message.contains("mounted"), "{error}");
    outside.is_untouched();
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    fixture.local().discard_workspace(&wishes.workspace).await.unwrap();
    assert!(!files.parent().unwrap().exists());
    outside.is_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_or_a_file_in_place_of_a_workspace_is_removed_itself() {
    if !can_run() {
        return;
    }
    let (fixture, outside) = (LocalFixture::new(), Outside::new());
    let wishes = Wishes::new(&fixture, 1);
    for is_link in [true, false] {
        let files = workspace(&fixture, &wishes).await;
        fs::remove_dir(&files).unwrap();
        if is_link { symlink(outside.0.path(), &files) } else { fs::write(&files, "x") }.unwrap();
        fixture.local().discard_workspace(&wishes.workspace).await.unwrap();
        assert!(!files.parent().unwrap().exists());
        outside.is_untouched();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_is_removed_with_whatever_its_agent_left_in_every_place_of_its_own() {
    if !can_run() {
        return;
    }
    let (fixture, outside) = (LocalFixture::new(), Outside::new());
    let (driver, wishes) = (fixture.local(), Wishes::new(&fixture, 1));
    driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
    let before = {
        driver.create(&wishes.backing(1)).await.unwrap();
        driver.remove(&wishes.id).await.unwrap();
        fs::read_dir(fixture.home().join("sandboxes")).unwrap().count()
    };
    driver.create(&wishes.backing(1)).await.unwrap();
    driver.start(&wishes.id).await.unwrap();
    driver.kill(&wishes.id).await.unwrap();
    let dir = fixture.sandbox_dir(&wishes.id);
    for place in ["state", "rootfs/root/upper", "rootfs/usr/upper/local"] {
        let place = dir.join(place).join("odd");
        fs::create_dir_all(&place).unwrap();
        odd(&place, outside.0.path());
        foreign(&place);
        deep(&place, 1_500);
    }
    // What a start puts aside may be anything.
    fs::remove_dir_all(dir.join("rootfs/root/upper/tmp")).ok();
    symlink(outside.0.path(), dir.join("rootfs/root/upper/tmp")).unwrap();
    driver.start(&wishes.id).await.unwrap();
    driver.remove(&wishes.id).await.unwrap();
    assert!(!dir.exists());
    assert_eq!(fs::read_dir(fixture.home().join("sandboxes")).unwrap().count(), before);
    outside.is_untouched();
}

/// What the helper answers to a question; it is the same program that the driver asks.
fn answer(question: &serde_json::Value) -> serde_json::Value {
    let mut helper = Command::new(env!("CARGO_BIN_EXE_sandkeep-local-helper"))
        .arg(HELPER_ARG)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    helper.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    serde_json::from_slice(&helper.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn the_helper_that_empties_a_tree_has_the_agents_power_and_no_more() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let outside = Outside::new();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    odd(&tree, outside.0.path());
    deep(&tree, 300);
    // In a directory of root's nothing goes; a single file of root's in the agent's own does.
    for (place, owner) in [("of-root", 0), ("of-the-next-range", DEFAULT_UID_BASE + UID_COUNT)] {
        let place = tree.join(place);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("kept"), "x").unwrap();
        chown(place.join("kept"), Some(owner), Some(owner)).unwrap();
        chown(&place, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(tree.join("moved-here-by-the-agent"), "x").unwrap();

    let ids = serde_json::json!({ "uid_base": DEFAULT_UID_BASE, "uid_count": UID_COUNT });
    let mut clear = serde_json::json!({ "trees": [tree, dir.path().join("not-there")] });
    clear.as_object_mut().unwrap().extend(ids.as_object().unwrap().clone());
    let answer = answer(&serde_json::json!({ "Clear": clear }));
    assert_eq!(answer["Cleared"]["entries"], 4, "{answer}");
    assert_eq!(answer["Cleared"]["foreign"], 4, "{answer}");
    let mut left: Vec<_> =
        fs::read_dir(&tree).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["of-root", "of-the-next-range"]);
    for place in left {
        assert!(tree.join(place).join("kept").exists());
    }
    outside.is_untouched();
}
