//! Rows about ten thousand stopped sandboxes, while their engine does not answer.
//!
//! Making so many takes an hour, so one is made and stopped for real, and the store is filled with
//! copies of its record under ids and names of their own, while no gateway runs. The gateway that
//! is started then reads them as its own. The engine hangs because the file that says which one it
//! is has become a pipe that nobody writes to.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use futures::executor::block_on;
use sandkeep_core::{Name, Record, SandboxId, Workspace, WorkspaceId};
use sandkeep_e2e::Home;
use sandkeep_store::{Change, Contents, Priority, SqliteStore, Store};

use crate::gateway_rows::resident_kb;
use crate::measure::{run, times};
use crate::report::Report;

/// Records in one commit.
const AT_ONCE: usize = 500;

/// Measures them all.
pub(crate) fn measure(report: &mut Report, quick: bool) -> anyhow::Result<()> {
    let count = if quick { 1_000 } else { 10_000 };
    let home = Home::new();
    run(&mut home.command(&["create", "--name", "first"]))?;
    run(&mut home.command(&["stop", "first"]))?;
    let with_one = started_anew(&home)?;
    run(&mut home.command(&["gateway", "stop"]))?;
    let kept = home.scratch().join("gateway.db");
    fs::copy(database(&home), &kept)?;
    block_on(fill(&home, count))?;
    let engine = HungEngine::of(&home)?;
    let with_all = started_anew(&home)?;
    let bytes = with_all.saturating_sub(with_one) as f64 / (count - 1) as f64;
    let measured =
        format!("{bytes:.1} kB (RSS {with_one} kB with one, {with_all} kB with {count})");
    report.row("gateway memory of a stopped record", "≤ 10 kB", measured, String::new());
    listing(report, &home, count)?;
    let after = resident_kb(&home)?;
    println!("RSS after those lists: {after} kB");
    // As it was before, so that what there is really is removed as ever.
    home.kill_gateway();
    drop(engine);
    fs::copy(&kept, database(&home))?;
    Ok(())
}

/// What the gateway holds in memory when it has just read its store.
fn started_anew(home: &Home) -> anyhow::Result<u64> {
    run(&mut home.command(&["gateway", "stop"]))?;
    run(&mut home.command(&["gateway", "start"]))?;
    resident_kb(home)
}

fn listing(report: &mut Report, home: &Home, count: usize) -> anyhow::Result<()> {
    let listed = home.run(&["list", "-o", "json"]).ok().json();
    let sandboxes = listed["sandboxes"].as_array().context("a list")?;
    anyhow::ensure!(sandboxes.len() == count, "{} of {count} are listed", sandboxes.len());
    let seen = |sandbox: &&serde_json::Value| sandbox["phase"] != "Unknown";
    anyhow::ensure!(!sandboxes.iter().any(|s| seen(&s)), "the engine is to hang, and answers");
    let mut texts = Vec::new();
    for format in ["table", "name", "json"] {
        let list = times(20, |_| run(&mut home.command(&["list", "-o", format])))?;
        texts.push(format!("{format}: {}", list.text()));
    }
    let floor = times(20, |_| run(&mut Command::new("/bin/true")))?;
    let what = format!("list of {count} records, their engine hung");
    let compared = format!("/bin/true: {}", floor.text());
    report.row(&what, "10,000 in ≤ 100 ms", texts.join("; "), compared);
    Ok(())
}

fn database(home: &Home) -> PathBuf {
    home.path().join("gateway.db")
}

/// Puts copies of the one stopped sandbox beside it until there are `count`.
async fn fill(home: &Home, count: usize) -> anyhow::Result<()> {
    let store = SqliteStore::open(database(home)).await?;
    let Contents { records, workspaces, .. } = store.load().await?;
    let record = records.first().context("a record")?;
    let workspace = workspaces.first().context("a workspace")?;
    let numbers: Vec<u64> = (1..count as u64).collect();
    for some in numbers.chunks(AT_ONCE) {
        let mut changes = Vec::with_capacity(2 * some.len());
        for number in some {
            let (record, workspace) = copied(record, workspace, *number)?;
            changes.push(Change::PutRecord(Box::new(record)));
            changes.push(Change::PutWorkspace(Box::new(workspace)));
        }
        store.commit(Priority::Normal, changes).await?;
    }
    Ok(())
}

fn copied(
    record: &Record,
    workspace: &Workspace,
    number: u64,
) -> anyhow::Result<(Record, Workspace)> {
    let name: Name = format!("many-{number}").parse()?;
    // Not all of the last byte gets into an id.
    let bytes = (number << 8).to_be_bytes();
    let id = SandboxId::from_random(bytes);
    let space = WorkspaceId::from_random(bytes);
    let mut record = Record { id: id.clone(), name: name.clone(), revision: 0, ..record.clone() };
    record.identity.hostname = name.to_string();
    record.intent.spec.workspace = space.clone();
    record.intent.spec.workspace_name = name.clone();
    let workspace =
        Workspace { id: space, name, holder: Some(id), revision: 0, ..workspace.clone() };
    Ok((record, workspace))
}

/// An engine that does not answer until this is dropped.
struct HungEngine {
    file: PathBuf,
    aside: PathBuf,
}

impl HungEngine {
    fn of(home: &Home) -> anyhow::Result<Self> {
        let file = home.path().join("local/engine.json");
        let aside = home.scratch().join("engine.json");
        fs::rename(&file, &aside)?;
        run(Command::new("mkfifo").arg(&file))?;
        Ok(Self { file, aside })
    }
}

impl Drop for HungEngine {
    fn drop(&mut self) {
        fs::rename(&self.aside, &self.file).expect("the file goes back where it was");
    }
}
