//! What actions and accidents do to the world of the model, and the invariants that they could break.

use sandkeep_core::FailureKind;
use sandkeep_core::verb::{self, DeleteOptions};

use crate::steps::{Frame, asked};
use crate::world::{Execution, Kind, Link, Pending, World, small};

impl Frame {
    /// What an action does in the world.
    pub(crate) fn effect(
        &self,
        world: &mut World,
        index: usize,
        pending: Pending,
    ) -> Result<(), FailureKind> {
        let local = matches!(pending, Pending::Go { .. } | Pending::RequestDelete { .. });
        if world.engine_down && !local && pending != Pending::Forget {
            return Err(FailureKind::Outside);
        }
        match pending {
            Pending::EnsureWorkspace => ensure_workspace(world, index)?,
            Pending::Create { generation } => {
                let real = &mut world.sandboxes[index].real;
                if !real.kind.is_live()
                    && (real.kind == Kind::Absent || real.generation != generation)
                {
                    real.kind = Kind::Idle;
                    real.generation = generation;
                }
            }
            Pending::Start => self.start(world, index)?,
            Pending::Go { execution, incarnation } => go(world, index, execution, incarnation)?,
            Pending::Stop | Pending::Kill => {
                if world.sandboxes[index].real.kind.is_live() {
                    dies(world, index);
                }
            }
            Pending::Thaw => {
                let real = &mut world.sandboxes[index].real;
                if real.kind == Kind::Paused {
                    real.kind = Kind::Running;
                }
            }
            Pending::Remove => {
                dies(world, index);
                world.sandboxes[index].real.kind = Kind::Absent;
                world.sandboxes[index].real.result = None;
            }
            Pending::Discard => discard(world, index),
            Pending::Forget => forget(world, index),
            Pending::RequestDelete { discard } => {
                let options = DeleteOptions { discard_workspace: discard, forget: false };
                let record = self.record(world, index);
                if let Some(intent) = verb::delete(&record, options, &asked()) {
                    world.sandboxes[index].absorb_intent(&intent);
                }
            }
        }
        Ok(())
    }

    fn start(&self, world: &mut World, index: usize) -> Result<(), FailureKind> {
        let other_lives = world
            .sandboxes
            .iter()
            .enumerate()
            // One whose record was forgotten by force is gone by the user's word.
            .any(|(other, sandbox)| other != index && !sandbox.gone && sandbox.real.kind.is_live());
        let real = &mut world.sandboxes[index].real;
        if real.kind == Kind::Absent {
            return Err(FailureKind::Transient);
        }
        if real.kind.is_live() {
            return Ok(());
        }
        if world.bytes.is_none() {
            // The mark is checked at each start.
            return Err(FailureKind::Invalid);
        }
        real.run += 1;
        real.kind = if self.slow_start { Kind::Starting } else { Kind::Running };
        if other_lives {
            world.broken = Some("two live backings share a workspace");
        }
        Ok(())
    }
}

pub(crate) fn lose_link(world: &mut World, index: usize) {
    if matches!(world.sandboxes[index].link, Link::Up { .. }) {
        world.sandboxes[index].link = Link::Lost;
    }
}

pub(crate) fn dies(world: &mut World, index: usize) {
    lose_link(world, index);
    let real = &mut world.sandboxes[index].real;
    if real.kind != Kind::Idle && real.kind != Kind::Absent {
        real.kind = Kind::Exited;
    }
    real.heard = None;
    real.ended = false;
}

pub(crate) fn crash(world: &mut World) {
    for sandbox in &mut world.sandboxes {
        sandbox.looked = 0;
        sandbox.look_failed = false;
        sandbox.link = Link::None;
        sandbox.pending = None;
    }
}

pub(crate) fn command_ends(world: &mut World, index: usize, fine: bool) {
    let incarnation = world.sandboxes[index].tries.go.map_or(0, |(_, incarnation)| incarnation);
    let real = &mut world.sandboxes[index].real;
    real.ended = true;
    real.result = real.heard.map(|heard| (heard, incarnation, fine));
}

fn ensure_workspace(world: &mut World, index: usize) -> Result<(), FailureKind> {
    let me = small(index);
    if world.holder.is_some_and(|holder| holder != me) {
        return Err(FailureKind::Outside);
    }
    world.holder = Some(me);
    if world.bytes.is_none() && world.marked {
        world.sandboxes[index].seen.workspace = 2;
        return Ok(());
    }
    if world.bytes.is_none() {
        world.bytes = Some(1);
    }
    world.marked = true;
    world.sandboxes[index].seen.workspace = 1;
    Ok(())
}

fn go(
    world: &mut World,
    index: usize,
    execution: Execution,
    incarnation: u8,
) -> Result<(), FailureKind> {
    let sandbox = &mut world.sandboxes[index];
    let Link::Up { incarnation: up, main } = &mut sandbox.link else {
        return Err(FailureKind::Transient);
    };
    // The supervisor knows its own number from the session's welcome.
    if *up != incarnation || sandbox.real.kind != Kind::Running {
        return Err(FailureKind::Transient);
    }
    let real = &mut sandbox.real;
    if real.heard < Some(execution) {
        if real.executed >= execution {
            world.broken = Some("one execution of the command began twice");
        }
        if real.heard.is_some() && !real.ended {
            world.broken = Some("a command was ordered beside one that runs");
        }
        real.executed = execution;
        real.heard = Some(execution);
        real.ended = false;
    }
    *main = real.heard.map(|heard| (heard, real.ended));
    Ok(())
}

fn discard(world: &mut World, index: usize) {
    if !world.sandboxes[index].discard {
        world.broken = Some("a workspace was removed that nobody discarded");
    }
    world.bytes = None;
    world.marked = false;
    world.workspace_forgotten = true;
}

fn forget(world: &mut World, index: usize) {
    let sandbox = &mut world.sandboxes[index];
    if sandbox.real.kind != Kind::Absent && !sandbox.forget {
        world.broken = Some("a record was forgotten with its backing still there");
    }
    sandbox.gone = true;
    sandbox.pending = None;
    if world.holder == Some(small(index)) {
        world.holder = None;
    }
}
