//! The driver against the suite that every driver must pass, for real: each case on a home of its
//! own, as root.

mod support;

use sandkeep_driver::conformance::{check, check_pins};
use support::{LocalFixture, can_run};

/// What the local driver cannot do: nothing that the suite asks for.
const PINNED_SKIPS: &[&str] = &[];

macro_rules! conformance {
    ($($module:ident: $($name:ident),* $(,)?;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if can_run() {
                    check(&LocalFixture::new(), stringify!($name), PINNED_SKIPS).await;
                }
            }
        )*)*

        #[test]
        fn every_pin_is_a_case() {
            check_pins(PINNED_SKIPS);
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

sandkeep_driver::driver_cases!(conformance);
