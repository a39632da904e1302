//! Root file systems and what is shown in them: a directory as image, mounts, tools, what a kept
//! root keeps.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use sandkeep_core::{Backing, Image, Limits, Mount};
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver::{CreateRequest, Driver, ErrorKind};
use sandkeep_driver_local::DEFAULT_UID_BASE;
use support::inside::Inside;
use support::{LocalFixture, can_run};

/// Creates, starts and opens a session.
async fn inside(fixture: &LocalFixture, request: &CreateRequest) -> Inside {
    let driver = fixture.local();
    let wishes = Wishes::new(fixture, 1);
    driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
    driver.create(request).await.unwrap();
    let run = driver.start(&request.id).await.unwrap().backing_run.unwrap();
    Inside::open(&driver, &request.id, &run).await
}

async fn shell(inside: &mut Inside, script: &str) -> String {
    let done = inside.run(&["/bin/sh", "-c", script]).await;
    assert_eq!(done.code, 0, "{script}: {done:?}");
    done.output.trim().to_owned()
}

/// A small root file system: the host's shell and what it needs, a file of root's alone.
fn image_directory() -> tempfile::TempDir {
    let image = tempfile::tempdir().unwrap();
    fs::set_permissions(image.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for dir in ["bin", "etc", "opt/app"] {
        fs::create_dir_all(image.path().join(dir)).unwrap();
    }
    for program in ["/bin/sh", "/bin/cat", "/bin/ls", "/bin/rm", "/usr/bin/id", "/usr/bin/stat"] {
        let name = Path::new(program).file_name().unwrap();
        fs::copy(program, image.path().join("bin").join(name)).unwrap();
        let libraries = std::process::Command::new("ldd").arg(program).output().unwrap();
        for word in String::from_utf8(libraries.stdout).unwrap().split_whitespace() {
            if let Some(path) = word.strip_prefix('/') {
                let target = image.path().join(path);
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::copy(word, target).unwrap();
            }
        }
    }
    let secret = image.path().join("etc/of-root");
    fs::write(&secret, "from the image").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let other = image.path().join("opt/app/of-another");
    fs::write(&other, "x").unwrap();
    chown(other, Some(1000), Some(1000)).unwrap();
    image
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_the_host_is_a_root_file_system_that_the_sandbox_owns() {
    if !can_run() {
        return;
    }
    let image = image_directory();
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let mut request = wishes.backing(1);
    request.spec.image = Image::Directory(image.path().to_str().unwrap().to_owned());
    let mut first = inside(&fixture, &request).await;
    assert_eq!(shell(&mut first, "cat /etc/of-root").await, "from the image");
    assert_eq!(shell(&mut first, "stat -c %u /etc/of-root /opt/app/of-another").await, "0\n1000");
    shell(&mut first, "echo changed >/etc/of-root; rm /opt/app/of-another; echo new >/opt/new")
        .await;
    shell(&mut first, "echo work >/workspace/file").await;
    // The image itself stays as it is.
    assert_eq!(fs::read_to_string(image.path().join("etc/of-root")).unwrap(), "from the image");
    assert!(image.path().join("opt/app/of-another").exists());
    assert!(!image.path().join("opt/new").exists());

    let driver = fixture.local();
    driver.stop(&wishes.id, Duration::from_secs(20)).await.unwrap();
    let run = driver.start(&wishes.id).await.unwrap().backing_run.unwrap();
    let mut again = Inside::open(&driver, &wishes.id, &run).await;
    assert_eq!(shell(&mut again, "cat /etc/of-root /opt/new").await, "changed\nnew");
    assert_eq!(shell(&mut again, "ls /opt/app; cat /workspace/file").await, "work");
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_image_begins_with_a_root_of_its_own() {
    if !can_run() {
        return;
    }
    let image = image_directory();
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let mut host = inside(&fixture, &wishes.backing(1)).await;
    shell(&mut host, "echo old >/opt/old").await;
    let driver = fixture.local();
    driver.kill(&wishes.id).await.unwrap();
    let mut request = wishes.backing(2);
    request.spec.image = Image::Directory(image.path().to_str().unwrap().to_owned());
    let mut other = inside(&fixture, &request).await;
    assert_eq!(shell(&mut other, "ls /opt").await, "app");
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_root_keeps_everything_but_tmp_and_run() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let mut first = inside(&fixture, &wishes.backing(1)).await;
    let places = ["/opt", "/usr/local/bin", "/etc", "/root", "/var/tmp", "/workspace", "/home"];
    let lost = ["/tmp", "/run", "/dev/shm"];
    for place in places.into_iter().chain(lost) {
        shell(&mut first, &format!("echo kept >{place}/mark")).await;
    }
    shell(&mut first, "rm /etc/services; echo mine >>/etc/hosts").await;
    let driver = fixture.local();
    for _ in 0..3 {
        driver.kill(&wishes.id).await.unwrap();
        let run = driver.start(&wishes.id).await.unwrap().backing_run.unwrap();
        let mut again = Inside::open(&driver, &wishes.id, &run).await;
        for place in places {
            assert_eq!(shell(&mut again, &format!("cat {place}/mark")).await, "kept", "{place}");
        }
        for place in lost {
            shell(&mut again, &format!("test ! -e {place}/mark && echo x >{place}/mark")).await;
        }
        shell(&mut again, "test ! -e /etc/services && grep -q mine /etc/hosts").await;
    }
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mounts_and_tools_are_shown_where_they_were_asked_for() {
    if !can_run() {
        return;
    }
    let (shared, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&shared, &tools] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(dir.path().join("file"), "shown").unwrap();
    }
    let source = shared.path().to_str().unwrap().to_owned();
    let tool = tools.path().to_str().unwrap().to_owned();
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let mut request = wishes.backing(1);
    let mount = |target: &str, read_only| Mount {
        source: source.clone(),
        target: target.to_owned(),
        read_only,
    };
    let file =
        Mount { source: format!("{source}/file"), target: "/data/one".into(), read_only: true };
    request.spec.mounts = vec![mount("/data/rw", false), mount("/data/ro", true), file];
    request.spec.tools = vec![tool.clone()];
    let mut sandbox = inside(&fixture, &request).await;
    for path in ["/data/rw/file", "/data/ro/file", "/data/one", &format!("{tool}/file")] {
        assert_eq!(shell(&mut sandbox, &format!("cat {path}")).await, "shown", "{path}");
    }
    shell(&mut sandbox, "echo written >/data/rw/new").await;
    assert_eq!(fs::metadata(shared.path().join("new")).unwrap().uid(), DEFAULT_UID_BASE);
    for path in ["/data/ro/x", "/data/one", &format!("{tool}/x")] {
        shell(&mut sandbox, &format!("! (echo x >{path}) 2>/dev/null")).await;
    }
    let driver = fixture.local();
    driver.kill(&wishes.id).await.unwrap();

    // A source that has gone is said to be; when it is back the sandbox is too.
    fs::rename(tools.path(), tools.path().with_extension("gone")).unwrap();
    let error = driver.start(&wishes.id).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    fs::rename(tools.path().with_extension("gone"), tools.path()).unwrap();
    driver.start(&wishes.id).await.unwrap();
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_target_that_the_agent_made_a_link_is_refused_and_not_followed() {
    if !can_run() {
        return;
    }
    let shared = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let driver = fixture.local();
    drop(inside(&fixture, &wishes.backing(1)).await);
    driver.kill(&wishes.id).await.unwrap();
    let upper = fixture.sandbox_dir(&wishes.id).join("rootfs/root/upper");
    symlink(outside.path(), upper.join("data")).unwrap();
    let mut request = wishes.backing(2);
    let source = shared.path().to_str().unwrap().to_owned();
    request.spec.mounts = vec![Mount { source, target: "/data/x".into(), read_only: false }];
    driver.create(&request).await.unwrap();
    let error = driver.start(&wishes.id).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(fixture.processes().is_empty());
    driver.remove(&wishes.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_out_of_memory_is_told() {
    if !can_run() {
        return;
    }
    let fixture = LocalFixture::new();
    let wishes = Wishes::new(&fixture, 1);
    let mut request = wishes.backing(1);
    request.spec.limits = Limits { memory_bytes: Some(32 << 20), ..Limits::default() };
    let mut sandbox = inside(&fixture, &request).await;
    let hungry = "head -c 100m /dev/zero | tail -c 100m >/dev/null; test $? -ne 0 || exit 1";
    sandbox.run(&["/bin/sh", "-c", hungry]).await;
    let driver = fixture.local();
    let run = driver.inspect(&wishes.id).await.unwrap().backing_run.unwrap();
    support::signal_and_wait(support::pid_of(&run), Some(rustix::process::Signal::KILL));
    for _ in 0..2 {
        let backing = driver.inspect(&wishes.id).await.unwrap().backing;
        assert!(matches!(backing, Backing::Exited { oom: true, .. }), "{backing:?}");
        // The group goes with the next stop; what it knew stays.
        driver.stop(&wishes.id, Duration::from_secs(5)).await.unwrap();
    }
    driver.start(&wishes.id).await.unwrap();
    driver.kill(&wishes.id).await.unwrap();
    let backing = driver.inspect(&wishes.id).await.unwrap().backing;
    assert!(matches!(backing, Backing::Exited { oom: false, .. }), "{backing:?}");
    driver.remove(&wishes.id).await.unwrap();
}
