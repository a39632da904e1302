//! One table per subject: what is taken, and what is refused with which reason.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use sandkeep_core::{Image, Limits, Mount, Privilege};

use super::*;

const ABLE: Capabilities = Capabilities {
    freeze: true,
    keeps_rootfs: true,
    cpu_limit: true,
    memory_limit: true,
    pids_limit: true,
    disk_limit: true,
    host_image: true,
    directory_image: true,
    oci_image: true,
    tells_oom: true,
};

fn wishes() -> Wishes {
    Wishes {
        image: Image::Host,
        command: vec!["sleep".to_owned(), "60".to_owned()],
        env: BTreeMap::new(),
        user: None,
        workdir: None,
        limits: Limits::default(),
        restart: RestartPolicy::Never,
        labels: BTreeMap::new(),
        mounts: Vec::new(),
        tools: Vec::new(),
        privileges: Vec::new(),
        unenforced: false,
        remove_when_done: false,
        tty: false,
        stdin: false,
        attach: false,
        stop_grace_ms: 10_000,
    }
}

/// Checks wishes changed by `change`, expects this reason (empty: taken).
#[track_caller]
fn expect(reason: &str, change: impl FnOnce(&mut Wishes)) {
    expect_with(reason, &ABLE, change);
}

#[track_caller]
fn expect_with(reason: &str, capabilities: &Capabilities, change: impl FnOnce(&mut Wishes)) {
    let mut wishes = wishes();
    change(&mut wishes);
    match check(&wishes, capabilities, Path::new("/var/lib/sandkeep")) {
        Ok(()) => assert_eq!(reason, "", "taken: {wishes:?}"),
        Err(refusal) => {
            assert_eq!(refusal.reason, reason, "{refusal}");
            assert_eq!(refusal.kind, RefusalKind::Invalid);
            for part in [&refusal.what, &refusal.why, &refusal.next] {
                assert!(!part.is_empty() && part.len() < 400, "{part:?}");
                assert!(!part.contains(char::is_control), "{part:?}");
            }
        }
    }
}

fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

#[test]
fn plain_wishes_are_taken() {
    expect("", |_| {});
    expect("", |w| w.command.clear());
}

#[test]
fn names_are_refused_with_the_rule() {
    for bad in ["", "-a", "A", "a b", &"x".repeat(64), &"x".repeat(1 << 20), "a\u{1b}[31m"] {
        let refusal = name("the sandbox", bad).unwrap_err();
        assert_eq!((refusal.reason, refusal.kind), ("InvalidName", RefusalKind::Invalid));
        assert!(refusal.what.len() < 500 && !refusal.what.contains('\u{1b}'), "{}", refusal.what);
    }
    assert_eq!(name("the sandbox", "lab-1").unwrap().as_str(), "lab-1");
}

#[test]
fn commands() {
    for (reason, command) in [
        ("", strings(["a"])),
        ("", strings(["a", ""])),
        ("", strings(["ä", "\u{1b}[0m", "\n"])),
        ("InvalidCommand", strings([""])),
        ("InvalidCommand", strings(["a", "b\0c"])),
        ("CommandTooLong", vec!["x".repeat(128 * 1024)]),
        ("", vec!["x".repeat(128 * 1024 - 1)]),
        ("CommandTooLong", vec!["x".repeat(100); 2000]),
        ("CommandTooLong", vec!["x".to_owned(); 5000]),
    ] {
        expect(reason, |w| w.command = command);
    }
}

#[test]
fn environments() {
    for (reason, key, value) in [
        ("", "A", ""),
        ("", "with.dot-and space", "a=b\nc"),
        ("InvalidEnv", "", "x"),
        ("InvalidEnv", "A=B", "x"),
        ("InvalidEnv", "A\0", "x"),
        ("InvalidEnv", "A", "x\0"),
        ("CommandTooLong", "A", &"x".repeat(128 * 1024)),
    ] {
        expect(reason, |w| {
            w.env.insert(key.to_owned(), value.to_owned());
        });
    }
}

#[test]
fn exec_commands() {
    let run = |argv: &[&str], env: &[&str], user: &str, workdir: &str| {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        command::exec(&own(argv), &own(env), user, workdir).map_err(|refusal| refusal.reason)
    };
    assert_eq!(run(&["a"], &["A=B=C", "B="], "1000:1000", "/tmp"), Ok(()));
    assert_eq!(run(&["a"], &[], "", ""), Ok(()));
    assert_eq!(run(&[], &[], "", ""), Err("InvalidCommand"));
    assert_eq!(run(&["a\0"], &[], "", ""), Err("InvalidCommand"));
    assert_eq!(run(&["a"], &["A"], "", ""), Err("InvalidEnv"));
    assert_eq!(run(&["a"], &["=B"], "", ""), Err("InvalidEnv"));
    assert_eq!(run(&["a"], &[], ":", ""), Err("InvalidUser"));
    assert_eq!(run(&["a"], &[], "", "tmp"), Err("InvalidWorkdir"));
}

#[test]
fn users() {
    for (reason, user) in [
        ("", "root"),
        ("", "0"),
        ("", "www-data:www-data"),
        ("", "1000:0"),
        ("", "_apt"),
        ("InvalidUser", ""),
        ("InvalidUser", ":"),
        ("InvalidUser", "a:"),
        ("InvalidUser", ":a"),
        ("InvalidUser", "a:b:c"),
        ("InvalidUser", "-a"),
        ("InvalidUser", "a b"),
        ("InvalidUser", "4294967295"),
        ("InvalidUser", "99999999999"),
        ("InvalidUser", "../etc"),
    ] {
        expect(reason, |w| w.user = Some(user.to_owned()));
    }
}

#[test]
fn working_directories() {
    for (reason, workdir) in [
        ("", "/"),
        ("", "/workspace/a/../b"),
        ("InvalidWorkdir", ""),
        ("InvalidWorkdir", "workspace"),
        ("InvalidWorkdir", "/a\0"),
        ("InvalidWorkdir", &format!("/{}", "x".repeat(5000))),
    ] {
        expect(reason, |w| w.workdir = Some(workdir.to_owned()));
    }
}

#[test]
fn labels() {
    for (reason, key, value) in [
        ("", "team", "a"),
        ("", "team", ""),
        ("", "example.org/Team_1.x", "A-b_c.d"),
        ("InvalidLabel", "", "a"),
        ("InvalidLabel", "/a", "a"),
        ("InvalidLabel", "a/", "a"),
        ("InvalidLabel", "a/b/c", "a"),
        ("InvalidLabel", "Example.org/a", "a"),
        ("InvalidLabel", "-a", "a"),
        ("InvalidLabel", "a-", "a"),
        ("InvalidLabel", "ä", "a"),
        ("InvalidLabel", "sandkeep/id", "a"),
        ("InvalidLabel", &"x".repeat(64), "a"),
        ("InvalidLabel", "a", &"x".repeat(64)),
        ("InvalidLabel", "a", "-"),
        ("InvalidLabel", "a", "b c"),
        ("InvalidLabel", "a", "\u{1b}"),
    ] {
        expect(reason, |w| {
            w.labels.insert(key.to_owned(), value.to_owned());
        });
    }
    let many = |count: usize| (0..count).map(|i| (format!("l{i}"), String::new())).collect();
    expect("", |w| w.labels = many(64));
    expect("TooManyLabels", |w| w.labels = many(65));
}

#[test]
fn limits_have_bounds() {
    let with = |cpu_millis, memory_bytes, pids, disk_bytes| Limits {
        cpu_millis,
        memory_bytes,
        pids,
        disk_bytes,
    };
    for (reason, limits) in [
        ("", with(Some(10), Some(16 << 20), Some(8), Some(16 << 20))),
        ("InvalidLimit", with(Some(9), None, None, None)),
        ("InvalidLimit", with(Some(u64::MAX), None, None, None)),
        ("InvalidLimit", with(None, Some((16 << 20) - 1), None, None)),
        ("InvalidLimit", with(None, Some(u64::MAX), None, None)),
        ("InvalidLimit", with(None, None, Some(7), None)),
        ("InvalidLimit", with(None, None, Some(u32::MAX), None)),
        ("InvalidLimit", with(None, None, None, Some(0))),
    ] {
        expect(reason, |w| w.limits = limits);
    }
}

#[test]
fn a_limit_that_cannot_be_enforced_has_to_be_accepted() {
    let unable = Capabilities { memory_limit: false, ..ABLE };
    let memory = Limits { memory_bytes: Some(1 << 30), ..Limits::default() };
    expect_with("", &unable, |w| w.limits.pids = Some(100));
    expect_with("LimitsNotEnforceable", &unable, |w| w.limits = memory);
    expect_with("", &unable, |w| {
        w.limits = memory;
        w.unenforced = true;
    });
}

#[test]
fn images() {
    let local = Capabilities { oci_image: false, ..ABLE };
    let oci = |text: &str| Image::Oci(text.to_owned());
    expect("", |w| w.image = oci("docker.io/library/debian:13@sha256:0123"));
    expect_with("ImageNotSupported", &local, |w| w.image = oci("debian"));
    for bad in ["", "-x", "a b", "a\0", "a;b", &"x".repeat(2000)] {
        expect("InvalidImage", |w| w.image = oci(bad));
    }
    for (reason, directory) in [
        ("", "/srv/rootfs"),
        ("InvalidPath", "srv/rootfs"),
        ("ForbiddenPath", "/"),
        ("ForbiddenPath", "/var/lib"),
    ] {
        expect(reason, |w| w.image = Image::Directory(directory.to_owned()));
    }
}

#[test]
fn mount_sources() {
    for (reason, source) in [
        ("", "/srv/data"),
        ("", "/srv/data/"),
        ("", "/etc/ssl/certs"),
        ("InvalidPath", ""),
        ("InvalidPath", "data"),
        ("InvalidPath", "/srv/../etc"),
        ("InvalidPath", "/a\0"),
        ("ForbiddenPath", "/"),
        ("ForbiddenPath", "//"),
        ("ForbiddenPath", "/."),
        ("ForbiddenPath", "/proc"),
        ("ForbiddenPath", "/proc/1/root"),
        ("ForbiddenPath", "/sys/fs/cgroup"),
        ("ForbiddenPath", "/dev/mem"),
        ("ForbiddenPath", "/var/run/docker.sock"),
        ("ForbiddenPath", "/run"),
        ("ForbiddenPath", "/run/podman"),
        ("ForbiddenPath", "/run/user/1000"),
        ("ForbiddenPath", "/home/ann/.docker/run/docker.sock"),
        ("ForbiddenPath", "/var"),
        ("ForbiddenPath", "/var/lib/sandkeep"),
        ("ForbiddenPath", "/var/lib/sandkeep/gateway.sock"),
    ] {
        let mount =
            Mount { source: source.to_owned(), target: "/mnt/x".to_owned(), read_only: true };
        expect(reason, |w| w.mounts = vec![mount]);
    }
}

#[test]
fn a_symbolic_link_hides_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("other-home");
    fs::create_dir_all(home.join("workspaces")).unwrap();
    fs::write(home.join("gateway.lock"), "").unwrap();
    fs::write(home.join("gateway.db"), "").unwrap();
    let link = scratch.path().join("link");
    let to_proc = scratch.path().join("to-proc");
    symlink(home.join("workspaces"), &link).unwrap();
    symlink("/proc", &to_proc).unwrap();
    for path in [link, to_proc, home] {
        let mount = Mount {
            source: path.to_str().unwrap().to_owned(),
            target: "/mnt".to_owned(),
            read_only: false,
        };
        expect("ForbiddenPath", |w| w.mounts = vec![mount]);
    }
}

#[test]
fn mount_targets() {
    for (reason, targets) in [
        ("", vec!["/mnt", "/workspace/data", "/opt/x"]),
        ("InvalidPath", vec!["mnt"]),
        ("InvalidPath", vec!["/mnt/../proc"]),
        ("InvalidMount", vec!["/"]),
        ("InvalidMount", vec!["/workspace/"]),
        ("InvalidMount", vec!["/proc/x"]),
        ("InvalidMount", vec!["/dev"]),
        ("InvalidMount", vec!["/mnt", "/mnt/."]),
    ] {
        let mount = |target: &str| Mount {
            source: "/srv/data".to_owned(),
            target: target.to_owned(),
            read_only: false,
        };
        expect(reason, |w| w.mounts = targets.into_iter().map(mount).collect());
    }
    let many = vec!["/opt/tools".to_owned(); 65];
    expect("TooManyMounts", |w| w.tools = many);
}

#[test]
fn tools() {
    for (reason, tools) in [
        ("", "/home/ann/.cargo"),
        ("InvalidPath", "~/.cargo"),
        ("ForbiddenPath", "/"),
        ("ForbiddenPath", "/var/lib/sandkeep"),
        ("InvalidMount", "/workspace"),
    ] {
        expect(reason, |w| w.tools = vec![tools.to_owned()]);
    }
}

#[test]
fn removal_needs_an_end_to_wait_for() {
    expect("", |w| w.remove_when_done = true);
    expect("NothingToWaitFor", |w| {
        w.remove_when_done = true;
        w.command.clear();
    });
    expect("NothingToWaitFor", |w| {
        w.remove_when_done = true;
        w.restart = RestartPolicy::Always;
    });
}

#[test]
fn graces_and_privileges() {
    expect("", |w| w.stop_grace_ms = 0);
    expect("", |w| w.stop_grace_ms = GRACE_MAX_MS);
    expect("InvalidGrace", |w| w.stop_grace_ms = GRACE_MAX_MS + 1);
    expect("", |w| w.privileges = vec![Privilege::Packages]);
    expect("InvalidPrivileges", |w| w.privileges = vec![Privilege::Packages; 2]);
}
