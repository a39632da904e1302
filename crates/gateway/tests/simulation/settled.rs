//! The end state: what has to hold once intent and faults have stopped changing.

use sandkeep_core::{Phase, WaitsFor, Want};
use sandkeep_driver::simulated::{Reach, SimState};
use sandkeep_gateway::Snapshot;
use sandkeep_gateway::refusal::RefusalKind;

use crate::book::{Book, Entry};
use crate::house::{DRIVERS, House};

/// What is not yet as it was asked for, a line each; empty: everything has come about.
pub(crate) fn unsettled(house: &House, book: &Book) -> Vec<String> {
    let mut open = Vec::new();
    for entry in book.entries.values() {
        if let Err(what) = is_settled(house, entry) {
            open.push(format!("{} ({}): {what}", entry.id, entry.name));
        }
    }
    open.extend(leftovers(house, book));
    open.extend(to_discard(house));
    if house.world.is_busy() {
        open.push("a command is still at work".to_owned());
    }
    open
}

fn dead(house: &House, driver: &str) -> bool {
    !matches!(house.world.reach(driver), Some(Reach::Up))
}

fn is_settled(house: &House, entry: &Entry) -> Result<(), String> {
    let snapshot = match house.gateway().get(entry.id.as_str()) {
        Ok(snapshot) => snapshot,
        Err(refusal) if refusal.kind == RefusalKind::NotFound => return Ok(()),
        Err(refusal) => return Err(format!("cannot be looked at: {refusal}")),
    };
    let view = &snapshot.view;
    if dead(house, &entry.driver) {
        // Nothing can be known, and that is what has to be said.
        let said = matches!(view.reason.as_str(), "EngineUnreachable" | "SessionLost" | "Deleting");
        let honest = said && view.waits_for == Some(WaitsFor::Outside);
        return if honest { Ok(()) } else { Err(format!("its engine is dead: {view:?}")) };
    }
    if made_elsewhere(house, entry, &snapshot) {
        let honest = view.reason == "OtherEngine" && view.waits_for == Some(WaitsFor::Outside);
        return if honest { Ok(()) } else { Err(format!("its engine is gone: {view:?}")) };
    }
    match snapshot.record.intent.want {
        Want::Deleted => Err(format!("is not gone: {view:?}")),
        Want::Stopped => stopped(house, entry, &snapshot),
        Want::Running => running(house, entry, &snapshot),
    }
}

/// It was made while another engine answered, which is gone now.
fn made_elsewhere(house: &House, entry: &Entry, snapshot: &Snapshot) -> bool {
    let kept_on = || snapshot.workspace.as_ref()?.workspace.engine.clone();
    let made_on = snapshot.record.observed.engine.clone().or_else(kept_on);
    made_on.is_some() && made_on != house.world.engine_of(&entry.driver)
}

fn stopped(house: &House, entry: &Entry, snapshot: &Snapshot) -> Result<(), String> {
    let live = house.world.with_backing(&entry.driver, &entry.id, |backing| {
        backing.is_some_and(|b| b.state.is_live())
    });
    if live {
        return Err("is to be stopped and holds compute".to_owned());
    }
    if snapshot.view.phase == Phase::Stopped {
        return Ok(());
    }
    Err(format!("is down and shown as {:?}", snapshot.view))
}

fn running(house: &House, entry: &Entry, snapshot: &Snapshot) -> Result<(), String> {
    let view = &snapshot.view;
    let can_run = house.world.can_run(&entry.id);
    match (view.phase, view.reason.as_str()) {
        (Phase::Ready, _) if can_run => Ok(()),
        (Phase::Completed, _) | (Phase::Error, "CommandFailed") => Ok(()),
        (Phase::Error, "WorkspaceMissing") => {
            let workspace = &snapshot.record.intent.spec.workspace;
            if house.world.is_missing(&entry.driver, workspace) {
                return Ok(());
            }
            Err("says that its workspace is missing, and it is there".to_owned())
        }
        (Phase::Error, "NoImage") if view.waits_for == Some(WaitsFor::User) => Ok(()),
        (_, "WorkspaceHeld") => held(house, snapshot),
        _ => Err(format!("is to be up (a command can be run: {can_run}): {view:?}")),
    }
}

/// Waiting for a workspace is right as long as its holder is there.
fn held(house: &House, snapshot: &Snapshot) -> Result<(), String> {
    let holder = snapshot.workspace.as_ref().and_then(|view| view.workspace.holder.clone());
    let there = holder.is_some_and(|holder| {
        holder != snapshot.record.id && house.gateway().get(holder.as_str()).is_ok()
    });
    if there || house.world.uses_of(&snapshot.record.intent.spec.workspace) > 0 {
        Ok(())
    } else {
        Err("waits for a workspace that nobody holds".to_owned())
    }
}

/// Workspaces that are still to be discarded, where that can be done.
fn to_discard(house: &House) -> Vec<String> {
    let all = house.gateway().workspaces();
    let to_go = all.iter().map(|view| &view.workspace).filter(|workspace| {
        let made_here = workspace.engine.is_none()
            || workspace.engine == house.world.engine_of(&workspace.driver);
        let free = house.world.uses_of(&workspace.id) == 0;
        workspace.discard && made_here && free && !dead(house, &workspace.driver)
    });
    to_go.map(|workspace| format!("workspace {} is still to go", workspace.name)).collect()
}

/// Backings and workspaces that nobody knows any more.
fn leftovers(house: &House, book: &Book) -> Vec<String> {
    let disowned = house.store.contents().meta.map(|meta| meta.disowned).unwrap_or_default();
    let mut found = Vec::new();
    for driver in DRIVERS.iter().filter(|driver| !dead(house, driver)) {
        let Some(engine) = house.world.engine_of(driver) else { continue };
        let backings = house.world.with_engine(&engine, |engine| {
            let ids = engine.backings.iter().filter(|(_, b)| b.state != SimState::Removing);
            ids.map(|(id, _)| id.clone()).collect::<Vec<_>>()
        });
        for id in backings.unwrap_or_default() {
            let known = house.gateway().get(id.as_str()).is_ok();
            if !known && !disowned.contains(&id.to_string()) {
                let name = book.entries.get(&id).map_or("?", |entry| &entry.name);
                found.push(format!("{id} ({name}) is gone and has left its backing"));
            }
        }
        let workspaces = house.world.with_engine(&engine, |engine| {
            engine.workspaces.iter().map(|(id, w)| (id.clone(), w.name.clone())).collect::<Vec<_>>()
        });
        for (id, name) in workspaces.unwrap_or_default() {
            let known = house.gateway().workspace(id.as_str()).is_ok();
            if !known && !disowned.contains(&id.to_string()) {
                found.push(format!("workspace {name} has no record and has left its bytes"));
            }
        }
    }
    found
}
