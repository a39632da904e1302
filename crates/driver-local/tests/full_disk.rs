//! A home without a byte left: what holds compute can be stopped, what is there can be listed and
//! removed, the rest says why not, and all goes on when there is room.
#![allow(clippy::unwrap_used, reason = "a test that meets an error fails")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandkeep_core::Backing;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver::{Driver, DriverError, ErrorKind};
use sandkeep_driver_local::Knobs;
use support::{LocalFixture, can_run};

const SMALL_BYTES: u64 = 32 * 1024 * 1024;

/// A small file system on a file, mounted; gone with the test.
struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// `None`: this machine has no loop devices or no mkfs.
    fn mount(dir: &Path) -> Option<Self> {
        let (file, at) = (dir.join("disk"), dir.join("mounted"));
        File::create(&file).unwrap().set_len(SMALL_BYTES).unwrap();
        fs::create_dir(&at).unwrap();
        let run = |program: &str, args: &[&str]| {
            Command::new(program).args(args).status().is_ok_and(|status| status.success())
        };
        let (file, point) = (file.to_str().unwrap(), at.to_str().unwrap());
        let made = run("mkfs.ext4", &["-q", "-m", "0", file])
            && run("mount", &["-o", "loop", file, point]);
        made.then_some(Self { at })
    }

    /// Writes until nothing fits any more.
    fn fill(&self) -> PathBuf {
        let path = self.at.join("filling");
        let mut file = File::create(&path).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![7; size]).and_then(|()| file.sync_data()).is_ok() {}
        }
        // Small files may fit where no block does: inodes and the ends of directories.
        for number in 0..64 {
            fs::write(self.at.join(format!("small-{number}")), [7; 4096]).ok();
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.at).status());
    }
}

/// It went through, or says that the disk is full.
fn fits_or_says<T>(result: Result<T, DriverError>) {
    if let Err(error) = result {
        let said = (error.kind, error.reason.as_str());
        assert_eq!(said, (ErrorKind::Exhausted, "DiskFull"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_sandboxes_stop_and_go_and_come_back_when_there_is_room() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        eprintln!("skipped: no small file system can be mounted here");
        assert!(std::env::var_os("CI").is_none(), "a test was skipped with CI set");
        return;
    };
    let home = disk.at.join("local");
    let fixture = LocalFixture::at(dir, home, Knobs::default());
    let driver = fixture.local();
    let [kept, gone, late] = [1, 2, 3].map(|seed| Wishes::new(&fixture, seed));
    for wishes in [&kept, &gone] {
        driver.ensure_workspace(&wishes.workspace(false)).await.unwrap();
        driver.create(&wishes.backing(1)).await.unwrap();
        driver.start(&wishes.id).await.unwrap();
    }
    let filling = disk.fill();

    assert_eq!(driver.list().await.unwrap().len(), 2);
    assert_eq!(driver.inspect(&kept.id).await.unwrap().backing, Backing::Running);
    driver.stop(&kept.id, Duration::from_secs(20)).await.unwrap();
    assert!(driver.inspect(&kept.id).await.unwrap().backing.is_down());
    assert_eq!(fixture.processes().len(), 1, "a stopped one holds no compute");
    fits_or_says(driver.ensure_workspace(&late.workspace(false)).await);
    fits_or_says(driver.create(&late.backing(1)).await);
    fits_or_says(driver.start(&kept.id).await);
    driver.stop(&kept.id, Duration::from_secs(20)).await.unwrap();
    driver.remove(&gone.id).await.unwrap();
    driver.discard_workspace(&gone.workspace).await.unwrap();
    assert_eq!(driver.inspect(&gone.id).await.unwrap().backing, Backing::Absent);
    driver.remove(&late.id).await.unwrap();

    fs::remove_file(filling).unwrap();
    driver.start(&kept.id).await.unwrap();
    assert_eq!(driver.inspect(&kept.id).await.unwrap().backing, Backing::Running);
    driver.remove(&kept.id).await.unwrap();
    assert!(driver.list().await.unwrap().is_empty());
    drop((driver, disk));
}
