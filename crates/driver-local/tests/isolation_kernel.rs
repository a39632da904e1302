//! Isolation from inside: what is asked of the kernel. docs/isolation.md says which test shows what.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use sandkeep_driver_local::{DEFAULT_UID_BASE, Guard};
use support::probed::{POWERS, Probed, all_held_by, held_by, isolation};

/// Root of the host, in effect, where [`POWERS`] are down as well.
const ROOT: &[Guard] = &[Guard::UserNamespace];

/// Of those that this machine has; a kernel is built with some of them and without others.
fn there<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    paths.iter().copied().filter(|path| Path::new(path).exists()).collect()
}

isolation! {
    sockets_of_other_families_are_denied: {
        // VSOCK (the hypervisor) and ALG (the kernel's ciphers).
        let probes: [&[&str]; 2] =
            [&["socket_is_denied", "40", "1", "0"], &["socket_is_denied", "38", "5", "0"]];
        all_held_by(&probes, &[], &["seccomp"]).await;
        // PACKET needs powers as well.
        held_by(&["socket_is_denied", "17", "3", "0"], &[], POWERS).await;
        // Pairs come from families of their own: TIPC.
        held_by(&["socket_pair_is_denied", "30"], &[], &["seccomp"]).await;
    }

    protocols_that_no_work_needs_are_denied: {
        // SCTP, DCCP by their numbers, and what SEQPACKET and DCCP stand for; both families.
        let probes: [&[&str]; 5] = [
            &["socket_is_denied", "2", "1", "132"],
            &["socket_is_denied", "10", "1", "132"],
            &["socket_is_denied", "2", "6", "33"],
            &["socket_is_denied", "2", "5", "0"],
            &["socket_is_denied", "10", "6", "0"],
        ];
        all_held_by(&probes, &[], &["seccomp"]).await;
        // TCP, MPTCP and UDP are not.
        for (kind, protocol) in [("1", "0"), ("1", "6"), ("1", "262"), ("2", "17"), ("2", "0")] {
            let probe = ["socket_is_denied", "2", kind, protocol];
            let done = Probed::new(&[], &[]).await.probe(&probe).await;
            assert_eq!(done.code, 1, "{kind} {protocol}: {done:?}");
        }
    }

    netlink_is_denied_but_for_routes: {
        held_by(&["socket_is_denied", "16", "3", "16"], &[], &["seccomp"]).await;
        let done = Probed::new(&[], &[]).await.probe(&["socket_is_denied", "16", "3", "0"]).await;
        assert_eq!(done.code, 1, "routes can be asked for: {done:?}");
    }

    new_namespaces_are_denied: {
        let probes: [&[&str]; 2] = [&["no_new_user_namespace"], &["no_user_namespace_by_clone3"]];
        all_held_by(&probes, &[], &["seccomp"]).await;
        held_by(&["no_other_namespace_is_entered"], &[], POWERS).await;
    }

    kernel_interfaces_that_no_work_needs_are_denied: {
        let probes: [&[&str]; 4] = [
            &["no_io_ring"],
            &["no_key_in_the_kernel"],
            &["no_page_fault_handler"],
            &["no_watch_over_file_systems"],
        ];
        all_held_by(&probes, &[], &["seccomp"]).await;
    }

    programs_and_counters_in_the_kernel_are_denied: {
        let probes: [&[&str]; 3] =
            [&["no_map_for_kernel_programs"], &["no_performance_counter"], &["no_kernel_log"]];
        all_held_by(&probes, ROOT, POWERS).await;
    }

    mounts_are_denied: {
        let probes: [&[&str]; 6] = [
            &["no_mount"],
            &["no_mount_by_descriptor"],
            &["no_copy_of_a_mount"],
            &["control_groups_cannot_be_mounted"],
            &["no_other_root", "chroot"],
            &["no_other_root", "pivot"],
        ];
        all_held_by(&probes, &[], POWERS).await;
    }

    what_the_host_mounted_stays_even_for_all_powers_inside: {
        let probed = Probed::new(&[], POWERS).await;
        probed.contains(&["what_is_mounted_cannot_be_taken_away"]).await;
    }

    nothing_is_typed_into_a_terminal_for_others: {
        held_by(&["nothing_is_typed_for_others"], ROOT, POWERS).await;
    }

    devices_do_not_open: {
        for (without, code) in [(&[][..], 0), (&[Guard::NoDev], 1)] {
            let probed = Probed::new(without, &[]).await;
            let path = probed.workspace.join("zero");
            let made = Command::new("mknod")
                .args(["-m", "666", path.to_str().unwrap(), "c", "1", "5"])
                .status();
            assert!(made.unwrap().success());
            let done = probed.probe(&["device_does_not_open", "/workspace/zero"]).await;
            assert_eq!(done.code, code, "{done:?}");
        }
    }

    devices_cannot_be_made: {
        held_by(&["no_device_can_be_made"], &[ROOT, &[Guard::NoDev]].concat(), POWERS).await;
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

    settings_of_the_kernel_cannot_be_written: {
        let hosts = there(&[
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/vm/swappiness",
            "/proc/sysrq-trigger",
            "/sys/kernel/rcu_expedited",
            "/sys/kernel/uevent_helper",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ]);
        assert!(hosts.len() >= 3, "{hosts:?}");
        // What everybody may ask of the kernel, and what belongs to its own network.
        for path in there(&["/proc/pressure/cpu"]) {
            held_by(&["cannot_be_written", path], &[Guard::MaskedPaths], &[]).await;
        }
        let own = ["cannot_be_written", "/proc/sys/net/ipv4/ip_default_ttl"];
        held_by(&own, &[Guard::MaskedPaths], POWERS).await;
        let probes: Vec<_> = hosts.iter().map(|path| ["cannot_be_written", path]).collect();
        let probes: Vec<&[&str]> = probes.iter().map(<[_; 2]>::as_slice).collect();
        all_held_by(&probes, &[ROOT, &[Guard::MaskedPaths]].concat(), POWERS).await;
    }

    what_the_kernel_tells_root_alone_is_not_read: {
        held_by(&["masked_is_empty", "/proc/interrupts"], &[Guard::MaskedPaths], &[]).await;
        for path in there(&["/proc/kmsg", "/proc/kcore", "/proc/vmallocinfo"]) {
            let down = [ROOT, &[Guard::MaskedPaths]].concat();
            held_by(&["masked_is_empty", path], &down, POWERS).await;
        }
    }

    crashes_do_not_run_the_hosts_handler: {
        held_by(&["crashes_stay_inside"], &[], &["core-dumps", "seccomp"]).await;
        // Each of the two is needed.
        for down in ["core-dumps", "seccomp"] {
            let done = Probed::new(&[], &[down]).await.probe(&["crashes_stay_inside"]).await;
            assert_eq!(done.code, 1, "{down}: {done:?}");
        }
    }
}
