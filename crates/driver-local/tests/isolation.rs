//! Isolation from inside: the host's files, sockets, processes and network, the gateway and other
//! sandboxes. docs/isolation.md says which test shows what.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use sandkeep_driver::Driver;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver_local::{DEFAULT_UID_BASE, Guard, Knobs};
use support::LocalFixture;
use support::probed::{Planted, Probed, all_held_by, held_by, isolation, unique};

/// Everything down that keeps a sandbox's processes apart from others.
const APART: &[Guard] = &[Guard::PidNamespace, Guard::Processes];

/// Some other gateway, whose home lies where a sandbox without guards sees it: with its database,
/// its socket, and a sandbox that runs and has written a file.
struct OtherGateway {
    fixture: LocalFixture,
    database: Planted,
    socket: PathBuf,
    _listening: UnixListener,
    file: Planted,
    id: sandkeep_core::SandboxId,
}

impl OtherGateway {
    async fn running() -> Self {
        let dir = tempfile::tempdir_in("/var/lib").unwrap();
        let (home, beside) = (dir.path().join("local"), dir.path().to_owned());
        let fixture = LocalFixture::at(dir, home, Knobs::default());
        let wishes = Wishes::new(&fixture, 1);
        let driver = fixture.local();
        driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
        driver.create(&wishes.backing(1)).await.unwrap();
        driver.start(&wishes.id).await.unwrap();
        let files = fixture.home().join("workspaces").join(wishes.workspace.as_str()).join("files");
        let file = Planted::new(files.join("file"), 0o644);
        chown(file.path(), Some(DEFAULT_UID_BASE), Some(DEFAULT_UID_BASE)).unwrap();
        let socket = beside.join("gateway.sock");
        let listening = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
        let database = Planted::new(beside.join("store.db"), 0o600);
        Self { fixture, database, socket, _listening: listening, file, id: wishes.id }
    }
}

isolation! {
    tools_can_be_installed_and_the_hosts_cannot_be_changed: {
        Probed::new(&[], &[]).await.contains(&["tools_can_be_installed"]).await;
    }

    homes_and_data_of_the_host_are_not_there: {
        let home = Planted::new(format!("/home/{}", unique("planted")), 0o644);
        let data = Planted::new(format!("/var/lib/{}", unique("planted")), 0o644);
        let probes: [&[&str]; 2] =
            [&["paths_do_not_exist", home.path()], &["paths_do_not_exist", data.path()]];
        all_held_by(&probes, &[Guard::HostPaths], &[]).await;
    }

    passwords_of_the_host_are_not_there: {
        let probes: [&[&str]; 2] =
            [&["paths_are_unreachable", "/etc/shadow"], &["paths_are_unreachable", "/etc/gshadow"]];
        all_held_by(&probes, &[Guard::HostPaths, Guard::ForeignOwners], &[]).await;
    }

    files_that_others_may_not_read_on_the_host_cannot_be_read: {
        let dir = PathBuf::from("/usr/local/share");
        let owner = Planted::new(dir.join(unique("planted")), 0o600);
        let group = Planted::new(dir.join(unique("planted")), 0o640);
        let probes: [&[&str]; 2] =
            [&["paths_are_unreachable", owner.path()], &["paths_are_unreachable", group.path()]];
        all_held_by(&probes, &[Guard::ForeignOwners], &[]).await;
    }

    a_directory_that_others_may_not_enter_on_the_host_stays_closed: {
        let dir = PathBuf::from("/usr/local/lib").join(unique("planted"));
        let planted = Planted::new(dir.join("open-file"), 0o644);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        held_by(&["paths_are_unreachable", planted.path()], &[Guard::ForeignOwners], &[]).await;
        drop(planted);
        fs::remove_dir(dir).unwrap();
    }

    sockets_of_engines_are_not_there: {
        let engine = format!("/run/{}.sock", unique("planted"));
        let _listening = UnixListener::bind(&engine).unwrap();
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o666)).unwrap();
        // With its guard down the host's /run is shown beside the sandbox's own.
        let beside = engine.replace("/run", "/host-run");
        Probed::new(&[], &[]).await.contains(&["socket_is_closed", &engine]).await;
        held_by(&["socket_is_closed", &beside], &[Guard::HostPaths], &[]).await;
        fs::remove_file(engine).unwrap();
    }

    state_and_socket_of_the_gateway_and_files_of_other_sandboxes_are_out_of_reach: {
        let other = OtherGateway::running().await;
        let probes: [&[&str]; 3] = [
            &["paths_are_unreachable", other.database.path()],
            &["socket_is_closed", other.socket.to_str().unwrap()],
            &["paths_are_unreachable", other.file.path()],
        ];
        all_held_by(&probes, &[Guard::HostPaths, Guard::ForeignOwners], &[]).await;
        other.fixture.local().remove(&other.id).await.unwrap();
    }

    a_home_on_the_host_is_closed_to_everybody_but_root: {
        let probed = Probed::new(&[], &[]).await;
        drop(probed.started().await);
        let home = probed.fixture.home();
        for path in [home.to_owned(), home.join("workspaces"), home.join("sandboxes")] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
        probed.fixture.local().remove(&probed.wishes.id).await.unwrap();
    }

    processes_of_the_host_are_not_seen: {
        held_by(&["only_own_processes"], &[Guard::Processes], &[]).await;
    }

    processes_of_other_sandboxes_cannot_be_signalled: {
        // All sandboxes have the same user ids: it is the namespace that keeps them apart.
        let other = |without: &'static [Guard]| async {
            let mut other = Command::new("sleep")
                .arg("1000")
                .uid(DEFAULT_UID_BASE)
                .gid(DEFAULT_UID_BASE)
                .spawn()
                .unwrap();
            let pid = other.id().to_string();
            let done = Probed::new(without, &[]).await.probe(&["no_signal_reaches", &pid]).await;
            // Ends it, unless the probe did.
            other.kill().unwrap();
            (done.code, other.wait().unwrap().signal())
        };
        assert_eq!(other(&[]).await.0, 0);
        assert_eq!(other(APART).await, (1, Some(9)));
    }

    the_gateway_cannot_be_reached_through_its_end_of_the_session: {
        let probe = ["the_other_end_of_the_session_is_out_of_reach"];
        held_by(&probe, &[APART, &[Guard::UserNamespace]].concat(), &[]).await;
    }

    memory_that_the_host_shares_by_key_is_out_of_reach: {
        let made = Command::new("ipcmk").args(["-M", "16", "-p", "0666"]).output().unwrap();
        let said = String::from_utf8(made.stdout).unwrap();
        let number = said.trim().rsplit(' ').next().unwrap();
        held_by(&["shared_memory_is_out_of_reach", number], &[Guard::Ipc], &[]).await;
        assert!(Command::new("ipcrm").args(["-m", number]).status().unwrap().success());
    }

    the_network_of_the_host_is_not_reached: {
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listening.local_addr().unwrap().port().to_string();
        let name = unique("planted");
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listening = UnixListener::bind_addr(&address).unwrap();
        let probes: [&[&str]; 3] =
            [&["port_is_closed", &port], &["abstract_socket_is_closed", &name], &["only_loopback"]];
        all_held_by(&probes, &[Guard::Network], &[]).await;
    }

    a_server_can_be_started_on_any_port: {
        Probed::new(&[], &[]).await.contains(&["first_ports_can_be_opened"]).await;
    }

    nothing_that_the_gateway_has_open_reaches_a_sandbox: {
        // As if somebody had started the gateway with a directory of the host's open.
        let root = fs::File::open("/").unwrap();
        let far = rustix::io::fcntl_dupfd_cloexec(&root, 200).unwrap();
        rustix::io::fcntl_setfd(&far, rustix::io::FdFlags::empty()).unwrap();
        held_by(&["no_descriptor_is_left_open"], &[Guard::Descriptors], &["descriptors"]).await;
        // Each of the two holds alone.
        for (driver, supervisor) in [(&[Guard::Descriptors][..], &[][..]), (&[], &["descriptors"])] {
            let probed = Probed::new(driver, supervisor).await;
            probed.contains(&["no_descriptor_is_left_open"]).await;
        }
    }

    files_are_not_opened_by_the_numbers_that_the_kernel_gives_them: {
        // Every file of the file system that /workspace is on has one.
        for (without, supervisor, code) in
            [(&[][..], &[][..], 0), (&[Guard::UserNamespace], support::probed::POWERS, 1)]
        {
            let probed = Probed::new(without, supervisor).await;
            let secret = Planted::new(probed.fixture.home().join("secret"), 0o600);
            let known = Command::new(support::probed::PYTHON)
                .args(["-c", support::probed::PROBE, "handle_of", secret.path()])
                .output()
                .unwrap();
            let said = String::from_utf8(known.stdout).unwrap();
            let handle = said.lines().find_map(|line| line.strip_prefix("HANDLE ")).unwrap();
            let done = probed.probe(&["file_is_not_opened_by_its_handle", handle]).await;
            assert_eq!(done.code, code, "{done:?}");
        }
    }

    no_setting_leads_to_a_guard_that_is_down: {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for name in ["cli", "gateway"] {
            let found = Command::new("grep")
                .args(["-rlE", "without_guards|without_supervisor_guards|without-guard"])
                .arg(crates.join(name).join("src"))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(found.stdout).unwrap(), "", "{name}");
        }
    }
}

#[test]
fn every_test_that_the_document_names_is_there() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let document = fs::read_to_string(repository.join("docs/isolation.md")).unwrap();
    let tests = [
        include_str!("isolation.rs"),
        include_str!("isolation_kernel.rs"),
        include_str!("isolation_own.rs"),
        include_str!("../src/helper/root.rs"),
    ];
    // Names of tests are sentences; nothing else in that document has so many words.
    let is_test = |word: &&str| word.matches('_').count() >= 3 && !word.contains('/');
    let named: Vec<_> = document.split('`').skip(1).step_by(2).filter(is_test).collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        let there = tests.iter().any(|text| {
            text.contains(&format!("{name}: {{")) || text.contains(&format!("fn {name}("))
        });
        assert!(there, "{name}");
    }
}
