//! Prints how long the local driver takes, from `create` to the first byte of a session, and back
//! to nothing: medians of as many rounds as are asked for.
//!
//! `launch_times HELPER SUPERVISOR ROUNDS`, as root.
#![allow(clippy::print_stdout, reason = "prints a table")]

use std::path::PathBuf;
use std::time::Duration;

use sandkeep_core::{GatewayId, Identity, RestartPolicy, SandboxId, Spec, WorkspaceId};
use sandkeep_driver::{CreateRequest, Driver, DriverError, WorkspaceRequest};
use sandkeep_driver_local::{
    DEFAULT_UID_BASE, HELPER_ARG, HelperCommand, Knobs, LocalConfig, LocalDriver,
};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

const STEPS: [&str; 6] = ["workspace", "create", "start", "session", "kill", "remove"];

#[tokio::main]
async fn main() -> Result<(), DriverError> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().expect("launch_times HELPER SUPERVISOR ROUNDS");
    let (helper, supervisor, rounds) = (next(), next(), next());
    let rounds: u64 = rounds.parse().expect("a number of rounds");
    let home = tempfile::tempdir().expect("a home");
    let driver = LocalDriver::new(LocalConfig {
        home: home.path().join("local"),
        gateway: GatewayId::from_random([7; 8]),
        supervisor: PathBuf::from(supervisor),
        helper: HelperCommand { program: PathBuf::from(helper), args: vec![HELPER_ARG.into()] },
        uid_base: DEFAULT_UID_BASE,
        knobs: Knobs::default(),
    })?;
    let mut times: [Vec<Duration>; 7] = Default::default();
    for round in 0..rounds {
        for (all, one) in times.iter_mut().zip(once(&driver, round).await?) {
            all.push(one);
        }
    }
    for (name, mut times) in STEPS.into_iter().chain(["to ready"]).zip(times) {
        times.sort();
        let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
        println!("{name:10} median {:7.2?}  p90 {:7.2?}  max {:7.2?}", at(50), at(90), at(100));
    }
    Ok(())
}

async fn once(driver: &LocalDriver, round: u64) -> Result<[Duration; 7], DriverError> {
    let id = SandboxId::from_random(round.to_le_bytes());
    let workspace = WorkspaceId::from_random(round.to_le_bytes());
    let name: sandkeep_core::Name = "lab".parse().expect("a name");
    let mut marks = vec![Instant::now()];
    let wish = WorkspaceRequest { id: workspace.clone(), name: name.clone(), marked: false };
    driver.ensure_workspace(&wish).await?;
    marks.push(Instant::now());
    let spec = spec(workspace.clone());
    let identity = Identity { hostname: "lab".into(), session_key: String::new() };
    driver
        .create(&CreateRequest { id: id.clone(), name, identity, spec, generation: 1, run: 1 })
        .await?;
    marks.push(Instant::now());
    let report = driver.start(&id).await?;
    marks.push(Instant::now());
    let run = report.backing_run.expect("a run");
    let (mut session, _) = driver.open_session(&id, &run).await?;
    session.read_u8().await.expect("a first byte");
    marks.push(Instant::now());
    driver.kill(&id).await?;
    marks.push(Instant::now());
    driver.remove(&id).await?;
    marks.push(Instant::now());
    driver.discard_workspace(&workspace).await?;
    let mut times = [Duration::ZERO; 7];
    for (time, pair) in times.iter_mut().zip(marks.windows(2)) {
        *time = pair[1] - pair[0];
    }
    times[6] = marks[4] - marks[0];
    Ok(times)
}

fn spec(workspace: WorkspaceId) -> Spec {
    let name = "lab".parse().expect("a name");
    Spec { restart: RestartPolicy::Never, ..Spec::bare(workspace, name) }
}
