//! What befalls the world from outside: engines, machines and people who know nothing of Sandkeep.

use sandkeep_core::{SandboxId, WorkspaceId};

use super::backing::SimState;
use super::engine::Reach;
use super::world::{Inner, World};
use crate::WatchEvent;

impl World {
    /// From now on `driver` reaches its engine like this. Mended: its watch says look everywhere.
    pub fn set_reach(&self, driver: &str, reach: Reach) {
        self.act_on(|inner| {
            inner.note(format_args!("{driver} is {reach:?}"));
            let Some(endpoint) = inner.endpoints.get_mut(driver) else { return };
            let answered = endpoint.answers();
            endpoint.reach = reach;
            if !answered && endpoint.answers() {
                let engine = endpoint.engine.clone();
                inner.hint(&engine, &WatchEvent::Resync);
            }
        });
    }

    /// How `driver` reaches its engine.
    pub fn reach(&self, driver: &str) -> Option<Reach> {
        self.lock().endpoints.get(driver).map(|endpoint| endpoint.reach)
    }

    /// From now on `driver` leads to another engine; one of that name is made when missing.
    pub fn lead_to(&self, driver: &str, engine: &str) {
        self.act_on(|inner| {
            inner.note(format_args!("{driver} leads to {engine}"));
            inner.engines.entry(engine.to_owned()).or_default();
            if let Some(endpoint) = inner.endpoints.get_mut(driver) {
                engine.clone_into(&mut endpoint.engine);
            }
            inner.hint(engine, &WatchEvent::Resync);
        });
    }

    /// The engine has no room, or has again.
    pub fn set_engine_full(&self, engine: &str, full: bool) {
        self.act_on(|inner| {
            inner.note(format_args!("{engine} full: {full}"));
            inner.engine_mut(engine).full = full;
        });
    }

    /// Everything that runs on `engine` ends with `code`, as when it is restarted (143) or its
    /// machine reboots (no code told). All stays on disk.
    pub fn end_everything(&self, engine: &str, code: Option<i32>) {
        self.act_on(|inner| {
            inner.note(format_args!("everything on {engine} ends: {code:?}"));
            let now = inner.now();
            for backing in inner.engine_mut(engine).backings.values_mut() {
                if backing.state.is_live() {
                    backing.end(code, false, now);
                } else if backing.state == SimState::Removing {
                    backing.state = SimState::Exited { code, oom: false };
                }
            }
            inner.hint(engine, &WatchEvent::Resync);
        });
    }

    /// One backing dies. False when it was not up.
    pub fn kill_backing(&self, engine: &str, id: &SandboxId, code: i32, oom: bool) -> bool {
        self.act_on(|inner| {
            let now = inner.now();
            let Some(backing) = inner.backing_mut(engine, id) else { return false };
            if !backing.state.is_live() {
                return false;
            }
            backing.end(Some(code), oom, now);
            inner.note(format_args!("{id} dies ({code}, out of memory: {oom})"));
            inner.hint(engine, &WatchEvent::Look(id.clone()));
            true
        })
    }

    /// Somebody removes a backing behind our back, which takes the engine a while. False when there
    /// was none.
    pub fn remove_backing(&self, engine: &str, id: &SandboxId) -> bool {
        let takes = self.act_on(|inner| {
            inner.end_run(engine, id, None, 137);
            inner.backing_mut(engine, id)?.state = SimState::Removing;
            inner.note(format_args!("{id} is being removed from outside"));
            inner.hint(engine, &WatchEvent::Look(id.clone()));
            Some(inner.faults.delay(1, 20_000))
        });
        let Some(takes) = takes else { return false };
        let (world, engine, id) = (self.clone(), engine.to_owned(), id.clone());
        tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            world.act_on(|inner| {
                let left = inner.backing_mut(&engine, &id);
                if left.is_some_and(|backing| backing.state == SimState::Removing) {
                    inner.engine_mut(&engine).backings.remove(&id);
                    inner.hint(&engine, &WatchEvent::Look(id.clone()));
                }
            });
        });
        true
    }

    /// Somebody freezes or thaws a backing behind our back. False when it was not in that state.
    pub fn set_paused(&self, engine: &str, id: &SandboxId, paused: bool) -> bool {
        self.act_on(|inner| {
            let (from, to) = if paused {
                (SimState::Running, SimState::Paused)
            } else {
                (SimState::Paused, SimState::Running)
            };
            let Some(backing) = inner.backing_mut(engine, id) else { return false };
            if backing.state != from {
                return false;
            }
            backing.state = to;
            inner.note(format_args!("{id} is paused from outside: {paused}"));
            inner.hint(engine, &WatchEvent::Look(id.clone()));
            true
        })
    }

    /// PID 1 of a backing is stopped in its tracks. False when there is none.
    pub fn suspend_pid_1(&self, engine: &str, id: &SandboxId) -> bool {
        self.act_on(|inner| {
            let pid_1 = inner.backing_mut(engine, id).and_then(|b| b.supervisor.as_mut());
            pid_1.map(|pid_1| pid_1.deaf = true).is_some()
        })
    }

    /// A workspace loses its mark and keeps its bytes. False when it is not there.
    pub fn lose_mark(&self, engine: &str, id: &WorkspaceId) -> bool {
        self.act_on(|inner| {
            let there = inner.engine_mut(engine).workspaces.get_mut(id);
            there.map(|workspace| workspace.marked = false).is_some()
        })
    }

    /// Somebody writes `token` into a workspace. False when it is not there.
    pub fn write_in_workspace(&self, engine: &str, id: &WorkspaceId, token: u64) -> bool {
        self.act_on(|inner| {
            let Some(there) = inner.engine_mut(engine).workspaces.get_mut(id) else { return false };
            there.content.push(token);
            inner.ledgers.entry(id.clone()).or_default().written.push(token);
            true
        })
    }

    /// Somebody starts a backing behind our back (it boots at once). False when it was not down.
    pub fn start_backing(&self, engine: &str, id: &SandboxId) -> bool {
        self.act_on(|inner| inner.start_from_outside(engine, id))
    }

    /// Somebody removes a workspace behind our back.
    pub fn lose_workspace(&self, engine: &str, id: &WorkspaceId) -> bool {
        self.act_on(|inner| {
            let Some(gone) = inner.engine_mut(engine).workspaces.remove(id) else { return false };
            inner.ledgers.entry(id.clone()).or_default().lost = true;
            inner.note(format_args!("workspace {} is removed from outside", gone.name));
            true
        })
    }

    fn act_on<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let result = act(&mut self.lock());
        self.touch();
        result
    }
}

impl Inner {
    fn start_from_outside(&mut self, engine: &str, id: &SandboxId) -> bool {
        let (run, boot) = (format!("{engine}#{}", self.number()), self.number());
        let Some(backing) = self.backing_mut(engine, id) else { return false };
        if !matches!(backing.state, SimState::Idle | SimState::Exited { .. }) {
            return false;
        }
        backing.state = SimState::Running;
        backing.backing_run = Some(run);
        backing.supervisor = Some(super::supervisor::SimSupervisor::new(boot, false));
        self.note(format_args!("{id} is started from outside"));
        self.hint(engine, &WatchEvent::Look(id.clone()));
        true
    }
}
