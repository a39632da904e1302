//! Hold, and the two ways out of it: `adopt` (what was found is ours again) and `disown` (it is
//! left alone from now on).

use std::sync::Arc;

use sandkeep_core::{
    Activity, Attempt, Backing, Intent, Observation, Record, Timestamp, Want, Workspace,
};
use sandkeep_driver::{CreateRequest, FoundBacking, FoundWorkspace};

use sandkeep_store::{HomeDirectory, Meta, Priority};

use crate::drivers::Slot;
use crate::gateway::HoldState;
use crate::reconcile::compare::{self, Found};
use crate::reconcile::queue::Key;
use crate::refusal::{Refusal, RefusalKind};
use crate::registry::{EngineIs, Inner};
use crate::shared::Shared;

/// A home opened on another machine, one that is a copy, or one that was in hold when the last
/// process ended, changes nothing on backends before a user has said whose it is.
pub(crate) async fn hold_when_moved(shared: &Arc<Shared>) {
    let meta = shared.registry.meta();
    let machine = &shared.machine;
    if meta.machine != *machine {
        let message = "this home was last used on another machine; if both go on, both would act \
                       on the same backends"
            .to_owned();
        let found = vec![format!("machine id {} here, {} in the home", machine, meta.machine)];
        compare::hold(shared, "HomeMoved", message, found).await;
    } else if let Some(copied) = copied(&meta, shared) {
        let message =
            "this home is a copy, or was brought back from one: if the other one is still \
                       used, both would act on the same sandboxes"
                .to_owned();
        compare::hold(shared, "HomeCopied", message, vec![copied]).await;
    } else if let Some(reason) = meta.hold {
        let message = "it was in hold when the last gateway ended".to_owned();
        let told = Some(meta.hold_since).filter(|since| *since > Timestamp::EPOCH);
        let since = told.unwrap_or_else(|| shared.clock.now());
        shared.set_hold(Some(HoldState { reason, message, found: Vec::new(), since }));
    } else if meta.directory.is_none() && shared.directory.is_some() {
        remember_directory(shared, meta).await;
    }
}

/// What shows that the home was opened in another directory before; a rename does not.
fn copied(meta: &Meta, shared: &Shared) -> Option<String> {
    let (before, now) = (meta.directory?, shared.directory?);
    let moved_on =
        |one: Option<u64>, other: Option<u64>| one.zip(other).is_some_and(|(a, b)| a != b);
    if before.inode == now.inode && !moved_on(before.file_system, now.file_system) {
        return None;
    }
    let home = shared.home.display();
    Some(format!("{home} is directory {} here, {} in the home", named(now), named(before)))
}

fn named(directory: HomeDirectory) -> String {
    match directory.file_system {
        None => directory.inode.to_string(),
        Some(file_system) => format!("{} of file system {file_system:x}", directory.inode),
    }
}

/// A new home, or one of a build that did not remember it.
async fn remember_directory(shared: &Shared, meta: Meta) {
    let meta = Meta { directory: shared.directory, ..meta };
    if let Err(error) = shared.registry.change_meta(meta).await {
        tracing::warn!(%error, "a copy of this home would not be noticed yet");
    }
}

/// Rebuilds records from what backings and workspaces carry, and ends the hold.
pub(crate) async fn adopt(shared: &Arc<Shared>, by: &str) -> Result<Vec<String>, Refusal> {
    let mut names = Vec::new();
    for (slot, found) in &look_everywhere(shared).await? {
        for workspace in &found.workspaces {
            names.extend(adopt_workspace(shared, slot, workspace).await?);
        }
        for backing in &found.backings {
            names.extend(adopt_backing(shared, slot, backing, by).await?);
        }
        compare::note_left_alone(shared, slot, found);
    }
    end_hold(shared, &[]).await?;
    Ok(names)
}

/// Leaves what was found alone from now on, and ends the hold.
pub(crate) async fn disown(shared: &Arc<Shared>) -> Result<Vec<String>, Refusal> {
    let mut names = Vec::new();
    let mut ids = Vec::new();
    for (slot, found) in &look_everywhere(shared).await? {
        for backing in found.backings.iter().filter(|found| is_unknown_backing(shared, found)) {
            let name = backing.made_from.as_ref().map(|made| made.name.to_string());
            names.push(name.unwrap_or_else(|| backing.id.to_string()));
            ids.push(backing.id.to_string());
        }
        compare::note_left_alone(shared, slot, found);
        for backing in &found.backings {
            outrank(shared, backing).await?;
        }
        for workspace in found.workspaces.iter().filter(|found| is_unknown_workspace(shared, found))
        {
            names.push(workspace.name.to_string());
            ids.push(workspace.id.to_string());
        }
    }
    end_hold(shared, &ids).await?;
    Ok(names)
}

/// What every driver has that can be asked. One that cannot is left out: it is compared before
/// anything is done on it, and what is found there then is a hold of its own. A dead engine thus
/// keeps nobody from going on with the others.
async fn look_everywhere(shared: &Arc<Shared>) -> Result<Vec<(Arc<Slot>, Found)>, Refusal> {
    let mut seen = Vec::new();
    let mut refusal = None;
    for slot in shared.drivers.all() {
        match compare::find(shared, slot).await {
            Ok(found) => seen.push((Arc::clone(slot), found)),
            Err(error) => {
                slot.forget_comparison();
                refusal.get_or_insert_with(|| {
                    Refusal::new(
                        RefusalKind::Unreachable,
                        "EngineUnreachable",
                        "the hold was not ended",
                        format!("no driver can be asked; {}: {error}", slot.driver.name()),
                        "bring the engine back, then try again",
                    )
                });
            }
        }
    }
    match refusal {
        Some(refusal) if seen.is_empty() => Err(refusal),
        _ => Ok(seen),
    }
}

async fn end_hold(shared: &Arc<Shared>, disowned: &[String]) -> Result<(), Refusal> {
    let mut meta = shared.registry.meta();
    meta.hold = None;
    meta.hold_since = Timestamp::EPOCH;
    meta.machine.clone_from(&shared.machine);
    meta.directory = shared.directory.or(meta.directory);
    meta.disowned.extend(disowned.iter().cloned());
    let stored = shared.registry.change_meta(meta).await;
    stored.map_err(|error| Refusal::of_store("the hold was not ended", &error))?;
    shared.set_hold(None);
    shared.wake_all();
    for id in shared.registry.workspaces_to_discard() {
        shared.queue.wake(Key::Workspace(id));
    }
    Ok(())
}

/// Neither a record nor a tombstone knows what was found.
fn is_unknown(shared: &Shared, id: &str, has_record: impl FnOnce(&Inner) -> bool) -> bool {
    let inner = shared.registry.inner();
    !has_record(&inner) && !inner.tombstones.contains_key(id)
}

fn is_unknown_backing(shared: &Shared, found: &FoundBacking) -> bool {
    is_unknown(shared, found.id.as_str(), |known| known.entries.contains_key(&found.id))
}

fn is_unknown_workspace(shared: &Shared, found: &FoundWorkspace) -> bool {
    is_unknown(shared, found.id.as_str(), |known| known.workspaces.contains_key(&found.id))
}

async fn adopt_workspace(
    shared: &Arc<Shared>,
    slot: &Slot,
    found: &FoundWorkspace,
) -> Result<Option<String>, Refusal> {
    if !is_unknown_workspace(shared, found) {
        return Ok(None);
    }
    let name =
        free_name(&found.name, |name| shared.registry.inner().workspace_names.contains_key(name));
    let workspace = Workspace {
        id: found.id.clone(),
        name,
        driver: slot.driver.name().to_owned(),
        engine: None,
        created_at: shared.clock.now(),
        marked: true,
        holder: None,
        discard: false,
        handle: Some(found.handle.clone()),
        bytes: None,
        revision: 0,
    };
    let label = format!("workspace {}", workspace.name);
    let stored = shared.registry.insert_workspace(workspace).await;
    stored.map_err(|error| Refusal::of_store("the workspace was not adopted", &error))?;
    Ok(Some(label))
}

fn free_name(
    wanted: &sandkeep_core::Name,
    taken: impl Fn(&sandkeep_core::Name) -> bool,
) -> sandkeep_core::Name {
    if !taken(wanted) {
        return wanted.clone();
    }
    let stem: String = wanted.as_str().chars().take(56).collect();
    (2..)
        .filter_map(|number| format!("{stem}-{number}").parse().ok())
        .find(|name| !taken(name))
        .unwrap_or_else(|| wanted.clone())
}

async fn adopt_backing(
    shared: &Arc<Shared>,
    slot: &Slot,
    found: &FoundBacking,
    by: &str,
) -> Result<Option<String>, Refusal> {
    let Some(made) = &found.made_from else { return Ok(None) };
    let refused = |error| Refusal::of_store("the sandbox was not adopted", &error);
    if let Some(record) = shared.registry.record(&found.id) {
        if made.generation <= record.intent.generation {
            return Ok(None);
        }
        let newer = made.clone();
        let live = found.backing.is_live();
        let changed = shared.registry.change(&found.id, Priority::Reserve, move |draft| {
            let intent = &mut draft.record.intent;
            intent.generation = newer.generation;
            intent.spec_generation = newer.generation;
            intent.spec = newer.spec;
            intent.run = intent.run.max(newer.run);
            if intent.want != Want::Deleted {
                intent.want = if live { Want::Running } else { intent.want };
            }
            draft.events.push(("Adopted", "rebuilt from what its backing carries".to_owned()));
            true
        });
        changed.await.map_err(refused)?;
        return Ok(Some(made.name.to_string()));
    }
    if !is_unknown_backing(shared, found) {
        return Ok(None);
    }
    let record = rebuilt(shared, slot, found, made, by);
    let name = record.name.to_string();
    let workspace = shared.registry.workspace(&record.intent.spec.workspace);
    let mut workspace = match workspace {
        Some(workspace) => (*workspace).clone(),
        None => lost_workspace(shared, slot, made),
    };
    // Whoever is up on it has it, whatever the old store says: a second one must wait.
    if workspace.holder.is_none() || found.backing.is_live() {
        workspace.holder = Some(record.id.clone());
    }
    let message = "rebuilt from what its backing carries".to_owned();
    let _one_at_a_time = shared.registry.creating().await;
    let inserted = shared.registry.insert(record, Some(workspace), message, EngineIs::Seen);
    inserted.await.map_err(refused)?;
    Ok(Some(name))
}

/// A workspace that a backing names and that no driver has shown: marked, so that it is reported
/// missing and never made anew.
fn lost_workspace(shared: &Shared, slot: &Slot, made: &CreateRequest) -> Workspace {
    let inner = shared.registry.inner();
    Workspace {
        id: made.spec.workspace.clone(),
        name: free_name(&made.spec.workspace_name, |n| inner.workspace_names.contains_key(n)),
        driver: slot.driver.name().to_owned(),
        engine: None,
        created_at: shared.clock.now(),
        marked: true,
        holder: None,
        discard: false,
        handle: None,
        bytes: None,
        revision: 0,
    }
}

fn rebuilt(
    shared: &Shared,
    slot: &Slot,
    found: &FoundBacking,
    made: &CreateRequest,
    by: &str,
) -> Record {
    let now = shared.clock.now();
    let name = free_name(&made.name, |name| shared.registry.name_holder(name).is_some());
    let mut intent = Intent::first(made.spec.clone(), by.to_owned(), now);
    intent.generation = made.generation;
    intent.spec_generation = made.generation;
    intent.run = made.run;
    // A backing that is down may have been stopped on purpose: bringing it up is one verb away,
    // while running it unasked might not be wanted.
    intent.want = if matches!(found.backing, Backing::Idle) || found.backing.is_live() {
        Want::Running
    } else {
        Want::Stopped
    };
    Record {
        id: found.id.clone(),
        name,
        driver: slot.driver.name().to_owned(),
        created_at: now,
        identity: made.identity.clone(),
        intent,
        observed: Observation::not_yet(now),
        attempt: Attempt::default(),
        activity: Activity::default(),
        revision: 0,
    }
}

/// The record's intent stands: its generation rises above what the backing carries.
async fn outrank(shared: &Arc<Shared>, found: &FoundBacking) -> Result<(), Refusal> {
    let Some(made) = &found.made_from else { return Ok(()) };
    let carried = made.generation;
    let changed = shared.registry.change(&found.id, Priority::Reserve, move |draft| {
        let lower = carried > draft.record.intent.generation;
        if lower {
            draft.record.intent.generation = carried + 1;
            draft.record.intent.spec_generation = carried + 1;
        }
        lower
    });
    changed.await.map(|_| ()).map_err(|error| Refusal::of_store("the hold was not ended", &error))
}
