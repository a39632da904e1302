//! Isolation from inside: what a hostile process tries, on the whole real stack (this driver and
//! the real supervisor). Each probe is run with everything up, and again with its guard down, where
//! it has to get out: a probe that cannot fail shows nothing.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod support;

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use sandkeep_core::Limits;
use sandkeep_driver::Driver;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver_local::{DEFAULT_UID_BASE, Guard, Knobs};
use support::inside::{Done, Inside};
use support::{LocalFixture, can_run};

const PYTHON: &str = "/usr/bin/python3";
const PROBE: &str = include_str!("probe.py");

/// The supervisor's guards that give powers to what runs inside when they are down.
const POWERS: &[&str] = &["capabilities", "no-new-privs", "landlock", "seccomp"];

/// A sandbox that is probed.
struct Probed {
    fixture: LocalFixture,
    wishes: Wishes,
    workspace: PathBuf,
    limits: Limits,
}

impl Probed {
    async fn new(without: &[Guard], without_supervisor: &[&str]) -> Self {
        Self::with_limits(without, without_supervisor, Limits::default()).await
    }

    async fn with_limits(without: &[Guard], supervisor: &[&str], limits: Limits) -> Self {
        let knobs = Knobs {
            without_guards: without.to_vec(),
            without_supervisor_guards: supervisor.iter().map(|&name| name.to_owned()).collect(),
            ..Knobs::default()
        };
        let fixture = LocalFixture::with(knobs, "");
        let wishes = Wishes::new(&fixture, 1);
        let driver = fixture.local();
        driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
        let mut request = wishes.backing(1);
        request.spec.limits = limits;
        driver.create(&request).await.unwrap();
        let workspaces = fixture.home().join("workspaces");
        let workspace = workspaces.join(wishes.workspace.as_str()).join("files");
        Self { fixture, wishes, workspace, limits }
    }

    /// Starts it and runs one probe.
    async fn probe(&self, probe: &[&str]) -> Done {
        let driver = self.fixture.local();
        let report = driver.start(&self.wishes.id).await.unwrap();
        let run = report.backing_run.unwrap();
        let mut inside = Inside::open(&driver, &self.wishes.id, &run).await;
        let argv = [&[PYTHON, "-c", PROBE], probe].concat();
        let done = inside.run(&argv).await;
        driver.kill(&self.wishes.id).await.unwrap();
        done
    }
}

fn can_probe() -> bool {
    if can_run() && Path::new(PYTHON).exists() {
        return true;
    }
    eprintln!("skipped: probes need root and {PYTHON}");
    assert!(std::env::var_os("CI").is_none(), "a suite was skipped with CI set");
    false
}

/// Contained with all guards; out without those.
async fn held_by(probe: &[&str], without: &[Guard], supervisor: &[&str]) {
    let with_all = Probed::new(&[], &[]).await.probe(probe).await;
    assert_eq!(with_all.code, 0, "{with_all:?}");
    let without_it = Probed::new(without, supervisor).await.probe(probe).await;
    assert_eq!(without_it.code, 1, "the probe cannot fail: {without_it:?}");
}

/// Root of a login is in root's group too, and that group is nobody's inside.
#[tokio::test]
async fn groups_of_whoever_started_the_gateway_open_nothing() {
    if !can_probe() {
        return;
    }
    let path = PathBuf::from("/usr/local/share").join(unique("planted"));
    let planted = Planted::new(path, 0o640);
    // On one thread, which is the one that starts the helper.
    rustix::thread::set_thread_groups(&[rustix::fs::Gid::ROOT]).unwrap();
    held_by(&["paths_are_unreachable", planted.path()], &[Guard::Groups], &[]).await;
}

macro_rules! isolation {
    ($($name:ident: $body:block)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if can_probe() $body
            }
        )*
    };
}

/// A file on the host, of root's, gone with the test.
struct Planted(PathBuf);

impl Planted {
    fn new(path: impl Into<PathBuf>, mode: u32) -> Self {
        let path = path.into();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// Different in every test run.
fn unique(prefix: &str) -> String {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    format!("{prefix}-{}", uuid.trim())
}

isolation! {
    tools_can_be_installed_and_the_hosts_cannot_be_changed: {
        let done = Probed::new(&[], &[]).await.probe(&["tools_can_be_installed"]).await;
        assert_eq!(done.code, 0, "{done:?}");
    }

    homes_and_data_of_the_host_are_not_there: {
        let home = Planted::new(format!("/home/{}", unique("planted")), 0o644);
        let data = Planted::new(format!("/var/lib/{}", unique("planted")), 0o644);
        held_by(&["paths_do_not_exist", home.path(), data.path()], &[Guard::HostPaths], &[]).await;
    }

    passwords_of_the_host_are_not_there: {
        let shadow = ["paths_are_unreachable", "/etc/shadow", "/etc/gshadow"];
        held_by(&shadow, &[Guard::HostPaths, Guard::ForeignOwners], &[]).await;
    }

    files_that_others_may_not_read_on_the_host_cannot_be_read: {
        let dir = PathBuf::from("/usr/local/share");
        let owner = Planted::new(dir.join(unique("planted")), 0o600);
        let group = Planted::new(dir.join(unique("planted")), 0o640);
        for planted in [owner, group] {
            let probe = ["paths_are_unreachable", planted.path()];
            held_by(&probe, &[Guard::ForeignOwners], &[]).await;
        }
    }

    a_directory_that_others_may_not_enter_on_the_host_stays_closed: {
        let dir = PathBuf::from("/usr/local/lib").join(unique("planted"));
        let planted = Planted::new(dir.join("open-file"), 0o644);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        held_by(&["paths_are_unreachable", planted.path()], &[Guard::ForeignOwners], &[]).await;
        drop(planted);
        fs::remove_dir(dir).unwrap();
    }

    sockets_of_engines_and_of_the_gateway_are_not_there: {
        let engine = format!("/run/{}.sock", unique("planted"));
        let _listening = UnixListener::bind(&engine).unwrap();
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o666)).unwrap();
        // With its guard down the host's /run is shown beside the sandbox's own.
        let beside = engine.replace("/run", "/host-run");
        held_by(&["paths_do_not_exist", &engine, &beside], &[Guard::HostPaths], &[]).await;
        fs::remove_file(engine).unwrap();
    }

    state_of_the_gateway_and_other_sandboxes_is_not_there: {
        let probed = Probed::new(&[], &[]).await;
        let other = Wishes::new(&probed.fixture, 2);
        let driver = probed.fixture.local();
        driver.ensure_workspace(&other.workspace(false)).await.unwrap();
        driver.create(&other.backing(1)).await.unwrap();
        driver.start(&other.id).await.unwrap();
        let home = probed.fixture.home().to_str().unwrap().to_owned();
        let done = probed.probe(&["paths_do_not_exist", &home]).await;
        assert_eq!(done.code, 0, "{done:?}");
        driver.remove(&other.id).await.unwrap();
    }

    processes_of_the_host_are_not_seen: {
        held_by(&["only_own_processes"], &[Guard::Processes], &[]).await;
    }

    processes_of_the_host_cannot_be_signalled: {
        let pid = std::process::id().to_string();
        let done = Probed::new(&[], &[]).await.probe(&["no_signal_reaches", &pid]).await;
        assert_eq!(done.code, 0, "{done:?}");
    }

    the_network_of_the_host_is_not_reached: {
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listening.local_addr().unwrap().port().to_string();
        held_by(&["port_is_closed", &port], &[Guard::Network], &[]).await;
        let name = unique("planted");
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listening = UnixListener::bind_addr(&address).unwrap();
        held_by(&["abstract_socket_is_closed", &name], &[Guard::Network], &[]).await;
    }

    there_is_loopback_and_nothing_else: {
        held_by(&["only_loopback"], &[Guard::Network], &[]).await;
    }

    a_server_can_be_started_on_any_port: {
        let done = Probed::new(&[], &[]).await.probe(&["first_ports_can_be_opened"]).await;
        assert_eq!(done.code, 0, "{done:?}");
    }

    sockets_of_other_families_are_denied: {
        let vsock = ["socket_is_denied", "40", "1", "0"];
        let packet = ["socket_is_denied", "17", "3", "0"];
        let crypto = ["socket_is_denied", "38", "5", "0"];
        for probe in [vsock, crypto] {
            held_by(&probe, &[], &["seccomp"]).await;
        }
        held_by(&packet, &[], POWERS).await;
    }

    netlink_is_denied_but_for_routes: {
        held_by(&["socket_is_denied", "16", "3", "16"], &[], &["seccomp"]).await;
        let done = Probed::new(&[], &[]).await.probe(&["socket_is_denied", "16", "3", "0"]).await;
        assert_eq!(done.code, 1, "routes can be asked for: {done:?}");
    }

    new_namespaces_are_denied: {
        held_by(&["no_new_user_namespace"], &[], &["seccomp"]).await;
    }

    kernel_interfaces_that_no_work_needs_are_denied: {
        // io_uring_setup, keyctl, userfaultfd, open_tree: with their filter down the kernel looks
        // at the arguments first and says something else.
        #[cfg(target_arch = "x86_64")]
        for (number, first) in [("425", "0"), ("250", "9999"), ("323", "1"), ("428", "9999")] {
            let probe = ["system_call_is_denied", number, first, "0", "0"];
            held_by(&probe, &[], &["seccomp"]).await;
        }
        // bpf and perf_event_open: the kernel may deny them by itself too.
        #[cfg(target_arch = "x86_64")]
        for number in ["321", "298"] {
            let probe = ["system_call_is_denied", number, "0", "0", "0", "0", "0"];
            let done = Probed::new(&[], &[]).await.probe(&probe).await;
            assert_eq!(done.code, 0, "{done:?}");
        }
    }

    mounts_are_denied: {
        held_by(&["no_mount"], &[], POWERS).await;
    }

    what_the_host_mounted_stays_even_for_all_powers_inside: {
        let probed = Probed::new(&[], POWERS).await;
        let done = probed.probe(&["what_is_mounted_cannot_be_taken_away"]).await;
        assert_eq!(done.code, 0, "{done:?}");
    }

    pid_1_cannot_be_traced_or_read: {
        let down = [POWERS, &["dumpable"]].concat();
        held_by(&["pid_1_is_closed"], &[], &down).await;
    }

    devices_do_not_open: {
        for (without, code) in [(&[][..], 0), (&[Guard::NoDev], 1)] {
            let probed = Probed::new(without, &[]).await;
            let path = probed.workspace.join("zero");
            let made = std::process::Command::new("mknod")
                .args(["-m", "666", path.to_str().unwrap(), "c", "1", "5"])
                .status();
            assert!(made.unwrap().success());
            let done = probed.probe(&["device_does_not_open", "/workspace/zero"]).await;
            assert_eq!(done.code, code, "{done:?}");
        }
        let done = Probed::new(&[], &[]).await.probe(&["no_device_can_be_made"]).await;
        assert_eq!(done.code, 0, "{done:?}");
    }

    setuid_has_no_effect: {
        for (without, supervisor, code) in [(&[][..], &[][..], 0), (&[Guard::NoSuid], POWERS, 1)] {
            let probed = Probed::new(without, supervisor).await;
            let path = probed.workspace.join("id");
            fs::copy("/usr/bin/id", &path).unwrap();
            chown(&path, Some(DEFAULT_UID_BASE + 1000), Some(DEFAULT_UID_BASE)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
            let done = probed.probe(&["setuid_has_no_effect", "/workspace/id"]).await;
            assert_eq!(done.code, code, "{done:?}");
        }
    }

    sandkeeps_own_side_cannot_be_replaced: {
        held_by(&["sandkeeps_side_cannot_be_replaced"], &[], &["state-hidden"]).await;
    }

    kernel_settings_cannot_be_written: {
        let done = Probed::new(&[], &[]).await.probe(&["kernel_settings_cannot_be_written"]).await;
        assert_eq!(done.code, 0, "{done:?}");
        held_by(&["masked_is_empty", "/proc/interrupts"], &[Guard::MaskedPaths], &[]).await;
    }

    a_fork_bomb_ends_at_the_limit: {
        let limits = Limits { pids: Some(64), ..Limits::default() };
        let limited = Probed::with_limits(&[], &[], limits).await;
        let done = limited.probe(&["processes_are_limited", "64"]).await;
        assert_eq!(done.code, 0, "{:?}: {done:?}", limited.limits);
        let done = Probed::new(&[], &[]).await.probe(&["processes_are_limited", "64"]).await;
        assert_eq!(done.code, 1, "{done:?}");
    }

    everybody_has_a_limit_on_processes: {
        for (without, limited) in [(&[][..], true), (&[Guard::DefaultPids], false)] {
            let probed = Probed::new(without, &[]).await;
            let driver = probed.fixture.local();
            driver.start(&probed.wishes.id).await.unwrap();
            let most = probed.fixture.group_file(&probed.wishes.id, "pids", "pids.max").unwrap();
            assert_eq!(most.trim() == "4096", limited, "{most}");
            driver.remove(&probed.wishes.id).await.unwrap();
        }
    }

    memory_ends_at_the_limit: {
        let most = 64 << 20;
        let limits = Limits { memory_bytes: Some(most), ..Limits::default() };
        let probe = ["memory_is_limited", &most.to_string()];
        let done = Probed::with_limits(&[], &[], limits).await.probe(&probe).await;
        assert_eq!(done.code, 0, "{done:?}");
        let done = Probed::new(&[], &[]).await.probe(&probe).await;
        assert_eq!(done.code, 1, "{done:?}");
    }

    the_processor_is_limited: {
        let limits = Limits { cpu_millis: Some(200), ..Limits::default() };
        let probed = Probed::with_limits(&[], &[], limits).await;
        let driver = probed.fixture.local();
        driver.start(&probed.wishes.id).await.unwrap();
        let read = |file| probed.fixture.group_file(&probed.wishes.id, "cpu", file);
        let one = read("cpu.cfs_quota_us").map(|quota| quota.trim() == "20000");
        let two = read("cpu.max").map(|quota| quota.trim() == "20000 100000");
        assert_eq!(one.or(two), Some(true));
        driver.remove(&probed.wishes.id).await.unwrap();
    }
}
