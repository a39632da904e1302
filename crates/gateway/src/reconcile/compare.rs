//! Compares what backends carry with what the records say, before anything is changed there and
//! from time to time.
//!
//! A backing with neither record nor tombstone, or of a higher generation than its record, proves
//! that the store was rolled back, lost or copied: the gateway goes into hold. What has a
//! tombstone is a leftover of ours and is reaped. What carries another gateway's id is not ours.

use std::sync::Arc;
use std::time::Duration;

use sandkeep_driver::{DriverError, FoundBacking, FoundWorkspace};

use crate::drivers::Slot;
use crate::gateway::HoldState;
use crate::shared::Shared;

const LIST_DEADLINE: Duration = Duration::from_secs(30);
const REAP_DEADLINE: Duration = Duration::from_secs(120);

/// What a driver has, as far as it is this gateway's.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) engine: String,
    pub(crate) backings: Vec<FoundBacking>,
    pub(crate) workspaces: Vec<FoundWorkspace>,
}

/// Looks at everything that carries this gateway's id.
pub(crate) async fn find(shared: &Shared, slot: &Slot) -> Result<Found, DriverError> {
    let driver = &slot.driver;
    let engine = slot.look("identity", LIST_DEADLINE, driver.identity()).await?;
    let mut backings = slot.look("list", LIST_DEADLINE, driver.list()).await?;
    let workspaces = slot.look("list", LIST_DEADLINE, driver.list_workspaces()).await?;
    let meta = shared.registry.meta();
    backings.retain(|found| found.gateway == meta.gateway);
    Ok(Found { engine, backings, workspaces })
}

/// Compares unless that was done since this process started. One at a time asks the engine; those
/// who wait meanwhile share its answer, so that a hung engine costs all of them one deadline.
pub(crate) async fn compare_once(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
) -> Result<(), DriverError> {
    let asked = slot.comparisons();
    let _one_at_a_time = slot.comparing.lock().await;
    if slot.compared() {
        return Ok(());
    }
    if let Some(error) = slot.comparison_failed_since(asked) {
        return Err(error);
    }
    let outcome = compare(shared, slot).await;
    slot.count_comparison(outcome.as_ref().err());
    outcome
}

/// Finds and compares; wakes what differs, reaps leftovers, goes into hold on proof.
pub(crate) async fn compare(shared: &Arc<Shared>, slot: &Arc<Slot>) -> Result<(), DriverError> {
    let found = find(shared, slot).await?;
    let evidence = evidence(shared, &found);
    if !evidence.is_empty() && !shared.on_hold() {
        let message = "backends carry what this store does not know: it was rolled back, lost or \
                       copied"
            .to_owned();
        hold(shared, "StoreRolledBack", message, evidence).await;
    }
    note_left_alone(shared, slot, &found);
    note_marks(shared, &found);
    slot.set_compared(found.engine.clone());
    wake_what_differs(shared, slot, &found);
    if !shared.on_hold() {
        reap(shared, slot, &found);
    }
    Ok(())
}

/// From now on nothing is changed on backends until a user says whose all this is.
pub(crate) async fn hold(shared: &Shared, reason: &str, message: String, found: Vec<String>) {
    tracing::error!(reason, message, ?found, "the gateway goes into hold");
    // More evidence does not begin it anew.
    let since = shared.hold().map_or_else(|| shared.clock.now(), |hold| hold.since);
    shared.set_hold(Some(HoldState { reason: reason.to_owned(), message, found, since }));
    let mut meta = shared.registry.meta();
    meta.hold = Some(reason.to_owned());
    meta.hold_since = since;
    if let Err(error) = shared.registry.change_meta(meta).await {
        tracing::warn!(%error, "the hold could not be stored; it is found again at the next start");
    }
    shared.wake_all();
}

/// What proves that this store is not the newest, a line each.
pub(crate) fn evidence(shared: &Shared, found: &Found) -> Vec<String> {
    let inner = shared.registry.inner();
    let disowned = |id: &str| inner.meta.disowned.iter().any(|other| other == id);
    let mut lines = Vec::new();
    for backing in &found.backings {
        let id = backing.id.as_str();
        let name = backing.made_from.as_ref().map_or(id, |made| made.name.as_str());
        let carried = backing.made_from.as_ref().map_or(0, |made| made.generation);
        match inner.entries.get(&backing.id) {
            Some(entry) if carried > entry.record.intent.generation => lines.push(format!(
                "sandbox {name} ({id}): its backing is of generation {carried}, its record of {}",
                entry.record.intent.generation
            )),
            None if !inner.tombstones.contains_key(id) && !disowned(id) => {
                lines.push(format!("sandbox {name} ({id}): a backing without a record"));
            }
            _ => {}
        }
    }
    for workspace in &found.workspaces {
        let id = workspace.id.as_str();
        let known = inner.workspaces.contains_key(&workspace.id);
        if !known && !inner.tombstones.contains_key(id) && !disowned(id) {
            lines.push(format!("workspace {} ({id}): without a record", workspace.name));
        }
    }
    lines
}

/// A workspace that is found carries its mark, whatever an old copy of the store says: it is never
/// taken for one that nobody has used. Where it was found is where it is: a home may have moved.
fn note_marks(shared: &Shared, found: &Found) {
    for workspace in &found.workspaces {
        let known = shared.registry.workspace(&workspace.id);
        let handle = Some(&workspace.handle);
        if known.is_some_and(|known| !known.marked || known.handle.as_ref() != handle) {
            shared.registry.stage_workspace(&workspace.id, |known| {
                known.marked = true;
                known.handle = handle.cloned();
                known.engine.get_or_insert_with(|| found.engine.clone());
            });
        }
    }
}

/// Which workspaces are used by backings that have neither record nor tombstone.
pub(crate) fn note_left_alone(shared: &Shared, slot: &Slot, found: &Found) {
    let mut inner = shared.registry.inner();
    let unknown = |backing: &&FoundBacking| {
        !inner.entries.contains_key(&backing.id)
            && !inner.tombstones.contains_key(backing.id.as_str())
    };
    let used = found.backings.iter().filter(unknown).filter_map(|backing| {
        let made = backing.made_from.as_ref()?;
        Some((made.spec.workspace.clone(), backing.id.clone()))
    });
    let used = used.collect();
    inner.left_alone.insert(slot.driver.name().to_owned(), used);
}

fn wake_what_differs(shared: &Shared, slot: &Slot, found: &Found) {
    let mut missing: std::collections::BTreeSet<_> =
        shared.registry.ids_of(slot.driver.name()).into_iter().collect();
    for backing in &found.backings {
        missing.remove(&backing.id);
        let record = shared.registry.record(&backing.id);
        if record.is_some_and(|record| record.observed.backing != backing.backing) {
            shared.wake(&backing.id);
        }
    }
    for id in missing {
        let known_absent = shared
            .registry
            .record(&id)
            .is_some_and(|record| record.observed.backing == sandkeep_core::Backing::Absent);
        if !known_absent {
            shared.wake(&id);
        }
    }
}

/// Leftovers of sandboxes that were deleted: only what has a tombstone.
fn reap(shared: &Arc<Shared>, slot: &Arc<Slot>, found: &Found) {
    reap_workspaces(shared, slot, found);
    let dead: Vec<_> = {
        let inner = shared.registry.inner();
        let is_dead = |found: &&FoundBacking| {
            !inner.entries.contains_key(&found.id)
                && inner.tombstones.contains_key(found.id.as_str())
        };
        found.backings.iter().filter(is_dead).map(|found| found.id.clone()).collect()
    };
    for id in dead {
        let (slot, gone) = (Arc::clone(slot), shared.gone.clone());
        tokio::spawn(async move {
            let removal = slot.call("remove", REAP_DEADLINE, slot.driver.remove(&id));
            let removed = tokio::select! {
                biased;
                () = gone.cancelled() => return,
                removed = removal => removed,
            };
            match removed {
                Ok(()) => tracing::info!(sandbox = %id, "removed a leftover of a deleted sandbox"),
                Err(error) => tracing::warn!(sandbox = %id, %error, "a leftover stays for now"),
            }
        });
    }
}

/// A workspace that was discarded and is there again: an engine carried out an old call late.
fn reap_workspaces(shared: &Arc<Shared>, slot: &Arc<Slot>, found: &Found) {
    let dead: Vec<_> = {
        let inner = shared.registry.inner();
        let is_dead = |found: &&FoundWorkspace| {
            !inner.workspaces.contains_key(&found.id)
                && inner.tombstones.contains_key(found.id.as_str())
        };
        found.workspaces.iter().filter(is_dead).map(|found| found.id.clone()).collect()
    };
    for id in dead {
        let slot = Arc::clone(slot);
        tokio::spawn(async move {
            let discarded = slot.driver.discard_workspace(&id);
            match slot.call("discard", REAP_DEADLINE, discarded).await {
                Ok(()) => tracing::info!(workspace = %id, "a leftover of a discard was removed"),
                Err(error) => tracing::warn!(workspace = %id, %error, "a leftover stays for now"),
            }
        });
    }
}
