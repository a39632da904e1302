//! A full disk: delete, list, stop and observations go on; everything else says DiskFull; and all
//! goes on when there is room again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandkeep_e2e::{Home, until};

/// A small ext4 in a file, mounted; gone when dropped.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn new(megabytes: u64) -> Self {
        let dir = tempfile::Builder::new().prefix("sandkeep-disk-").tempdir().expect("a directory");
        let image = dir.path().join("image");
        let file = fs::File::create(&image).expect("a file");
        file.set_len(megabytes << 20).expect("a size");
        sh(&format!("mkfs.ext4 -q -F -m 0 {}", image.display()));
        fs::create_dir(dir.path().join("mnt")).expect("a mount point");
        let disk = Self { dir };
        sh(&format!("mount -o loop {} {}", image.display(), disk.mount().display()));
        disk
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = || {
            let umount = Command::new("umount").arg(self.mount()).output();
            umount.is_ok_and(|output| output.status.success())
        };
        if !until(20, unmounted) {
            eprintln!("{} stays mounted", self.mount().display());
        }
    }
}

fn sh(script: &str) {
    let output = Command::new("sh").arg("-c").arg(script).output().expect("sh");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

fn fill(mount: &Path) -> PathBuf {
    let filler = mount.join("filler");
    // Ends with an error when the disk is full: that is the purpose.
    Command::new("sh")
        .arg("-c")
        .arg(format!("cat /dev/zero >>{0}; sync {0}", filler.display()))
        .output()
        .expect("sh");
    filler
}

#[test]
fn a_full_disk_stops_nothing_but_what_needs_room() {
    let disk = SmallDisk::new(192);
    let home = Home::at(disk.mount().join("home"));
    for name in ["one", "two", "three"] {
        home.run(&["create", "--name", name]).ok();
        home.run(&["exec", name, "--", "sh", "-c", "echo kept >/workspace/work"]).ok();
    }
    let filler = fill(&disk.mount());

    home.run(&["list"]).ok();
    let refused = home.run(&["create", "--name", "four", "--timeout", "10s"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("disk"), "{}", refused.stderr);
    assert_eq!(home.phase("four"), "gone", "a refused create holds no name");
    let refused = home.run(&["restart", "two", "--no-wait"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    home.run(&["stop", "one"]).ok();
    home.run(&["delete", "three", "--discard-workspace"]).ok();
    assert_eq!(home.phase("one"), "Stopped");
    assert_eq!(home.phase("three"), "gone");
    home.run(&["exec", "two", "--", "cat", "/workspace/work"]).ok();
    // Discarding made a little room; take that too.
    fill(&disk.mount());
    home.kill_gateway();
    home.wait_for_phase("two", "Ready");
    home.run(&["stop", "two"]).ok();

    fs::remove_file(filler).expect("removed");
    assert!(until(30, || home.run(&["start", "two"]).code == 0));
    let kept = home.run(&["exec", "two", "--", "cat", "/workspace/work"]).ok();
    assert_eq!(kept.text(), "kept");
    assert!(until(30, || home.run(&["create", "--name", "four"]).code != 1));
    home.run(&["delete", "--all", "--discard-workspace"]).ok();
    home.run(&["gateway", "stop"]).ok();
    drop(home);
}
