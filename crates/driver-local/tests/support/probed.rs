//! Probes: what a hostile process tries, on the whole real stack (this driver and the real
//! supervisor). Each is run with everything up, and again with its guards down, where it has to
//! get out: a probe that cannot fail shows nothing.

#![allow(unused_macros, unused_imports, reason = "not every test file probes")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandkeep_core::Limits;
use sandkeep_driver::Driver;
use sandkeep_driver::conformance::Wishes;
use sandkeep_driver_local::{Guard, Knobs};

use super::inside::{Done, Inside};
use super::{LocalFixture, can_run};

pub(crate) const PYTHON: &str = "/usr/bin/python3";
pub(crate) const PROBE: &str =
    concat!(include_str!("../probe.py"), include_str!("../probe_kernel.py"));

/// The supervisor's guards that give powers to what runs inside when they are down.
pub(crate) const POWERS: &[&str] = &["capabilities", "no-new-privs", "landlock", "seccomp"];

/// A probe's name with its arguments.
pub(crate) type Probe<'a> = &'a [&'a str];

/// A sandbox that is probed.
pub(crate) struct Probed {
    pub(crate) fixture: LocalFixture,
    pub(crate) wishes: Wishes,
    pub(crate) workspace: PathBuf,
}

impl Probed {
    pub(crate) async fn new(without: &[Guard], without_supervisor: &[&str]) -> Self {
        Self::with_limits(without, without_supervisor, Limits::default()).await
    }

    pub(crate) async fn with_limits(
        without: &[Guard],
        supervisor: &[&str],
        limits: Limits,
    ) -> Self {
        // Where there is no PID 1 there is an ordinary process, without any guard of its own.
        let ordinary = without.contains(&Guard::PidNamespace).then(|| {
            let line =
                "init --socket /run/sandkeep/session/s --state /run/sandkeep/state --not-pid1";
            line.split(' ').map(str::to_owned).collect()
        });
        let knobs = Knobs {
            without_guards: without.to_vec(),
            without_supervisor_guards: supervisor.iter().map(|&name| name.to_owned()).collect(),
            init_args: ordinary,
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
        Self { fixture, wishes, workspace }
    }

    /// Starts it and runs one probe.
    pub(crate) async fn probe(&self, probe: Probe<'_>) -> Done {
        self.all(&[probe]).await.remove(0)
    }

    /// Starts it and runs probes, one after the other.
    pub(crate) async fn all(&self, probes: &[Probe<'_>]) -> Vec<Done> {
        let mut inside = self.started().await;
        let mut done = Vec::new();
        for probe in probes {
            done.push(inside.run(&[&[PYTHON, "-c", PROBE], *probe].concat()).await);
        }
        self.fixture.local().kill(&self.wishes.id).await.unwrap();
        done
    }

    pub(crate) async fn started(&self) -> Inside {
        let driver = self.fixture.local();
        let report = driver.start(&self.wishes.id).await.unwrap();
        Inside::open(&driver, &self.wishes.id, &report.backing_run.unwrap()).await
    }

    /// A probe in it, where that is all it is for: contained or not.
    pub(crate) async fn contains(&self, probe: Probe<'_>) {
        let done = self.probe(probe).await;
        assert_eq!(done.code, 0, "{probe:?}: {done:?}");
    }
}

pub(crate) fn can_probe() -> bool {
    if can_run() && Path::new(PYTHON).exists() {
        return true;
    }
    eprintln!("skipped: probes need root and {PYTHON}");
    assert!(std::env::var_os("CI").is_none(), "a suite was skipped with CI set");
    false
}

/// Contained with all guards; out without those.
pub(crate) async fn held_by(probe: Probe<'_>, without: &[Guard], supervisor: &[&str]) {
    all_held_by(&[probe], without, supervisor).await;
}

/// Each of them contained with all guards; each out without those.
pub(crate) async fn all_held_by(probes: &[Probe<'_>], without: &[Guard], supervisor: &[&str]) {
    for (guarded, code) in [(true, 0), (false, 1)] {
        let probed = match guarded {
            true => Probed::new(&[], &[]).await,
            false => Probed::new(without, supervisor).await,
        };
        let done = probed.all(probes).await;
        let wrong: Vec<_> = probes.iter().zip(&done).filter(|(_, it)| it.code != code).collect();
        let what = if guarded { "got out" } else { "cannot fail, or the guard is another one" };
        assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    }
}

/// The tests of a file, skipped aloud where nothing can be probed.
macro_rules! isolation {
    ($($name:ident: $body:block)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if support::probed::can_probe() $body
            }
        )*
    };
}
pub(crate) use isolation;

/// A file on the host, of root's, gone with the test.
pub(crate) struct Planted(PathBuf);

impl Planted {
    pub(crate) fn new(path: impl Into<PathBuf>, mode: u32) -> Self {
        let path = path.into();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// Different in every test run.
pub(crate) fn unique(prefix: &str) -> String {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    format!("{prefix}-{}", uuid.trim())
}
