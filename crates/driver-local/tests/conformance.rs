//! The driver against the suite that every driver must pass, for real: each case on a home of its
//! own, as root.

mod support;

use sandkeep_driver::conformance::{check, check_pins};
use support::{LocalFixture, can_run};

/// What the local driver cannot do: nothing that the suite asks for.
const PINNED_SKIPS: &[&str] = &[];

macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if can_run() {
                    check(&LocalFixture::new(), stringify!($name), PINNED_SKIPS).await;
                }
            }
        )*

        #[test]
        fn every_case_is_tested_and_every_pin_is_a_case() {
            check_pins(&[$(stringify!($name)),*], PINNED_SKIPS);
        }
    };
}

/// In a mount namespace of its own, everything but version 2 of control groups is put out of sight.
const ONLY_VERSION_TWO: &str = r#"
    umount $(awk '$3 == "cgroup" { print $2 }' /proc/mounts) &&
    umount /sys/fs/cgroup/unified 2>/dev/null; umount /sys/fs/cgroup &&
    mount -t cgroup2 none /sys/fs/cgroup && exec "$@"
"#;

/// A machine with version 1, or a mixture, runs the suite once more as if it had version 2 alone:
/// without controllers, so what needs one is refused there, and everything else has to work.
#[test]
fn the_suite_passes_with_control_groups_of_version_two_alone() {
    let table = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let has_version_one = table.lines().any(|line| line.split(' ').nth(2) == Some("cgroup"));
    if !can_run() || !has_version_one {
        return;
    }
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", ONLY_VERSION_TWO, "sh"])
        .arg(std::env::current_exe().expect("this test's own path"))
        .args(["--test-threads", "2"])
        .output()
        .expect("unshare (util-linux)");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(" passed"), "{text}");
}

conformance! {
    identity_stays_the_same_and_outlives_the_process,
    inspect_of_an_absent_one_says_absent,
    a_created_one_is_idle_until_it_is_started,
    create_collides_and_is_adopted,
    create_with_a_newer_generation_takes_its_place_and_keeps_the_root,
    start_of_what_was_never_created_is_not_found,
    start_of_a_running_one_is_left_alone,
    stop_is_polite_first,
    stop_kills_after_the_grace,
    kill_ends_it_at_once_and_twice_is_once,
    remove_of_an_absent_one_is_done,
    remove_leaves_nothing,
    remove_of_a_running_one_ends_it,
    list_finds_exactly_what_carries_our_id,
    every_order_of_verbs_ends_where_the_verbs_say,
    recorded_provisioning_want_running_backing_idle,
    error_at_gateway_start_backing_exited_143_still_on_disk,
    a_killed_one_is_seen_exited_and_comes_back_as_another_run,
    a_reboot_is_seen_as_a_loss_and_start_brings_it_back,
    a_new_process_finds_what_runs_and_leaves_it_alone,
    the_end_of_a_running_one_is_told_to_who_watches,
    a_workspace_outlives_its_sandbox,
    a_marked_workspace_that_is_gone_is_missing_and_nothing_is_made,
    a_workspace_that_lost_its_mark_is_missing,
    start_refuses_an_empty_workspace_in_place_of_a_marked_one,
    ensuring_twice_is_once,
    discarding_twice_is_once_and_removes_every_byte,
    list_finds_marked_workspaces,
    pid_1_gets_a_session,
    a_second_process_gets_the_session_after_the_first_is_gone,
    a_process_inside_that_is_not_pid_1_gets_no_session,
    a_session_of_an_ended_run_is_refused,
    waiting_for_a_session_ends_with_the_run,
    a_frozen_one_is_paused_and_thaws,
    a_frozen_one_can_be_stopped,
    a_limit_that_cannot_be_enforced_is_refused_unless_accepted,
    an_image_that_cannot_run_here_is_invalid_and_nothing_is_made,
    twenty_side_by_side_come_up_and_go,
    one_that_is_busy_does_not_hold_up_the_others,
}
