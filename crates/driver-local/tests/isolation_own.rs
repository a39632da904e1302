//! Isolation from inside: Sandkeep's own side of a sandbox, PID 1, limits, and what a sandbox leaves
//! behind for the host. docs/isolation.md says which test shows what.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::fs::inotify::CreateFlags;
use sandkeep_core::Limits;
use sandkeep_driver::Driver;
use sandkeep_driver_local::{DEFAULT_UID_BASE, Guard, UID_COUNT};
use support::probed::{POWERS, PROBE, PYTHON, Probed, all_held_by, held_by, isolation};
use tokio::io::AsyncWriteExt;

isolation! {
    pid_1_cannot_be_traced_or_read: {
        let ways = ["trace", "descriptors", "take a descriptor", "read its memory", "write its memory", "its program"];
        let files = ["environ", "maps", "root"];
        let probes: Vec<_> = ways.into_iter().chain(files).map(|way| ["pid_1_is_closed", way]).collect();
        let probes: Vec<&[&str]> = probes.iter().map(<[_; 2]>::as_slice).collect();
        all_held_by(&probes, &[], &[POWERS, &["dumpable"]].concat()).await;
    }

    limits_of_pid_1_cannot_be_changed: {
        held_by(&["pid_1_is_closed", "its limits"], &[], &["seccomp"]).await;
    }

    sandkeeps_own_side_cannot_be_replaced: {
        Probed::new(&[], &[]).await.contains(&["sandkeeps_side_cannot_be_replaced"]).await;
        held_by(&["the_supervisors_state_is_hidden"], &[], &["state-hidden"]).await;
    }

    sandkeeps_own_side_cannot_be_changed: {
        let ways = ["add", "another socket", "take the socket away", "its program, while it runs"];
        let probes: Vec<_> = ways.map(|way| ["sandkeeps_side_cannot_be_changed", way]).into();
        let probes: Vec<&[&str]> = probes.iter().map(<[_; 2]>::as_slice).collect();
        all_held_by(&probes, &[Guard::OwnSide, Guard::UserNamespace], POWERS).await;
        // Read-only alone holds against all powers inside the namespace.
        for done in Probed::new(&[], POWERS).await.all(&probes).await {
            assert_eq!(done.code, 0, "{done:?}");
        }
    }

    whoever_is_not_pid_1_gets_no_session: {
        for (without, code) in [(&[][..], 0), (&[Guard::PeerCheck], 1)] {
            let probed = Probed::new(without, &[]).await;
            let driver = probed.fixture.local();
            let mut inside = probed.started().await;
            let run = driver.inspect(&probed.wishes.id).await.unwrap().backing_run.unwrap();
            let argv = [PYTHON, "-c", PROBE, "nobody_else_gets_a_session"];
            let given = async {
                // Held until the probe has seen what it was given.
                let (mut stream, _) = driver.open_session(&probed.wishes.id, &run).await.unwrap();
                stream.write_all(b"x").await.unwrap();
                std::future::pending::<()>().await;
                drop(stream);
            };
            let done = tokio::select! {
                done = inside.run(&argv) => done,
                () = given => unreachable!("it waits for ever"),
            };
            assert_eq!(done.code, code, "{done:?}");
            driver.remove(&probed.wishes.id).await.unwrap();
        }
    }

    what_one_sandbox_takes_of_the_kernels_counts_is_taken_from_no_other: {
        for (without, code) in [(&[][..], 0), (&[Guard::OwnCounts], 1)] {
            let (greedy, other) = (Probed::new(without, &[]).await, Probed::new(without, &[]).await);
            let mut inside = greedy.started().await;
            let argv = [PYTHON, "-c", PROBE, "all_watches_are_taken"];
            let beside = async {
                while !greedy.workspace.join("taken").exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                // Root of the host is none of those that share.
                assert!(rustix::fs::inotify::init(CreateFlags::CLOEXEC).is_ok());
                let done = other.probe(&["files_can_be_watched"]).await;
                fs::write(greedy.workspace.join("enough"), "").unwrap();
                done
            };
            let (taken, done) = tokio::join!(inside.run(&argv), beside);
            assert_eq!(taken.code, 0, "{taken:?}");
            assert_eq!(done.code, code, "{done:?}");
            greedy.fixture.local().remove(&greedy.wishes.id).await.unwrap();
        }
    }

    what_is_left_in_a_workspace_belongs_to_nobody_of_the_host: {
        let range = DEFAULT_UID_BASE..DEFAULT_UID_BASE + UID_COUNT;
        for (without, nobodys) in [(&[][..], true), (&[Guard::UserNamespace], false)] {
            let probed = Probed::new(without, &[]).await;
            probed.contains(&["work_is_left_behind"]).await;
            for name in ["program", "pipe", "link"] {
                let found = fs::symlink_metadata(probed.workspace.join(name)).unwrap();
                assert_eq!(range.contains(&found.uid()), nobodys, "{name}: {}", found.uid());
                assert_eq!(range.contains(&found.gid()), nobodys, "{name}: {}", found.gid());
                assert_eq!(found.uid() == 0, !nobodys, "{name}");
            }
            let mode = fs::metadata(probed.workspace.join("program")).unwrap().mode();
            assert_eq!(mode & 0o7777, 0o6755, "the bits are there, and give nobody's rights");
        }
    }

    a_fork_bomb_ends_at_the_limit: {
        let limits = Limits { pids: Some(64), ..Limits::default() };
        let limited = Probed::with_limits(&[], &[], limits).await;
        limited.contains(&["processes_are_limited", "64"]).await;
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
        Probed::with_limits(&[], &[], limits).await.contains(&probe).await;
        let done = Probed::new(&[], &[]).await.probe(&probe).await;
        assert_eq!(done.code, 1, "{done:?}");
    }

    the_processor_is_limited: {
        let slow = Limits { cpu_millis: Some(200), ..Limits::default() };
        for (limits, limited) in [(slow, true), (Limits::default(), false)] {
            let probed = Probed::with_limits(&[], &[], limits).await;
            let mut inside = probed.started().await;
            let done = inside.run(&[PYTHON, "-c", PROBE, "processor_is_used", "0.5"]).await;
            assert_eq!(done.code, 0, "{done:?}");
            let told = probed.fixture.group_file(&probed.wishes.id, "cpu", "cpu.stat");
            let held_up = told.unwrap_or_default().lines().any(|line| {
                line.strip_prefix("nr_throttled ").is_some_and(|times| times != "0")
            });
            assert_eq!(held_up, limited);
            probed.fixture.local().remove(&probed.wishes.id).await.unwrap();
        }
    }
}
