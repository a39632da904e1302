//! What a gateway's session and a simulated supervisor say to each other.

use std::time::Duration;

use sandkeep_core::{Go, MainStatus, RestartPolicy, RunResult, SandboxId, Spec, Timestamp};

use super::backing::SimState;
use super::supervisor::{GoUnheard, MainCommand, SupervisorView};
use super::world::{Inner, World, speaks};
use crate::{DriverError, ErrorKind, WatchEvent};

/// Exit code of a command that is not there.
const NOT_FOUND: i32 = 127;

/// Exit code of a command that had to make room for the next execution.
const TERMINATED: i32 = 143;

impl World {
    /// What the supervisor of exactly this run of the backing shows; `None` while there is none
    /// that reports. A frozen one is there and does not answer.
    pub fn supervisor(&self, id: &SandboxId, run: &str) -> Option<SupervisorView> {
        let inner = self.lock();
        let backing = inner.engines[&inner.engine_with(id, run)?].backings.get(id)?;
        let pid_1 = backing.supervisor.as_ref().filter(|pid_1| !pid_1.mute)?;
        let newest =
            |result: &&RunResult| pid_1.go.is_none_or(|go| go == (result.run, result.restart));
        Some(SupervisorView {
            boot: pid_1.boot,
            answers: speaks(backing.state),
            main: pid_1.main,
            result: backing.result.as_ref().filter(newest).cloned(),
        })
    }

    /// A command could be run in the sandbox at this moment.
    pub fn can_run(&self, id: &SandboxId) -> bool {
        self.lock().engine_running(id).is_some()
    }

    /// The order to run the main command reaches the supervisor of this run of the backing.
    pub fn go(
        &self,
        id: &SandboxId,
        backing_run: &str,
        go: Go,
        spec: &Spec,
    ) -> Result<(), GoUnheard> {
        let command = MainCommand::of(spec, go.restart);
        let (fresh, engine) = {
            let mut inner = self.lock();
            let Some(engine) = inner.engine_with(id, backing_run) else {
                return Err(GoUnheard::Gone);
            };
            let answer = inner.go(&engine, id, backing_run, go);
            (answer?, engine)
        };
        self.touch();
        if fresh {
            self.begin_command(engine, id, backing_run, go, command);
        }
        Ok(())
    }

    /// The gateway has stored the result of this execution.
    pub fn result_stored(&self, id: &SandboxId, backing_run: &str, run: u64, restart: u32) {
        let mut inner = self.lock();
        let Some(engine) = inner.engine_with(id, backing_run) else { return };
        let code = inner.backing_mut(&engine, id).and_then(|backing| {
            let result = backing.result.as_ref()?;
            if (result.run, result.restart) > (run, restart) {
                return None;
            }
            (result.run == run).then_some(result.code)
        });
        if code.is_some() {
            inner.runs.entry((id.clone(), run)).or_default().acknowledged = code;
        }
    }

    /// Takes the one session of this run's supervisor, if it is free: the engine it is on. `None`:
    /// not now; an error: never again.
    pub(super) fn take_session(
        &self,
        id: &SandboxId,
        run: &str,
    ) -> Option<Result<String, DriverError>> {
        let mut inner = self.lock();
        let found = inner.engine_with(id, run);
        let ended = || {
            let message = "that run of the backing is not there any more";
            DriverError::new(ErrorKind::NotFound, "session", "RunEnded", message)
        };
        let Some(engine) = found else { return Some(Err(ended())) };
        let backing = inner.backing_mut(&engine, id)?;
        if !backing.state.is_live() {
            return Some(Err(ended()));
        }
        let up = speaks(backing.state);
        let pid_1 = backing.supervisor.as_mut().filter(|s| up && !s.mute && !s.held)?;
        pid_1.held = true;
        Some(Ok(engine))
    }

    /// The session is over; its supervisor is free for the next.
    pub(super) fn release_session(&self, engine: &str, id: &SandboxId, run: &str) {
        if let Some(backing) = self.lock().backing_mut(engine, id) {
            let same = backing.backing_run.as_deref() == Some(run);
            if let Some(pid_1) = backing.supervisor.as_mut().filter(|_| same) {
                pid_1.held = false;
            }
        }
        self.touch();
    }

    fn begin_command(
        &self,
        engine: String,
        id: &SandboxId,
        backing_run: &str,
        go: Go,
        command: MainCommand,
    ) {
        let (lasts, code) = match command {
            MainCommand::Forever => return,
            MainCommand::Work { lasts, code } => (lasts, code),
            MainCommand::Unstartable => (Duration::ZERO, NOT_FOUND),
        };
        let world = self.clone();
        let (id, backing_run) = (id.clone(), backing_run.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(lasts).await;
            // A frozen command ends after it is thawed.
            world
                .until(|world| {
                    let mut inner = world.lock();
                    let frozen = inner.backing_mut(&engine, &id).is_some_and(|backing| {
                        backing.backing_run.as_ref() == Some(&backing_run)
                            && backing.state == SimState::Paused
                    });
                    (!frozen).then_some(())
                })
                .await;
            world.lock().end_command(&engine, &id, &backing_run, go, code);
            world.touch();
        });
    }

    /// The user works in the sandbox: something is written into its workspace. False when no
    /// command can be run.
    pub fn work(&self, id: &SandboxId) -> bool {
        let mut inner = self.lock();
        let Some(engine) = inner.engine_running(id) else { return false };
        inner.write(&engine, id);
        true
    }
}

impl Inner {
    /// Whether the command has to be begun.
    fn go(
        &mut self,
        engine: &str,
        id: &SandboxId,
        backing_run: &str,
        go: Go,
    ) -> Result<bool, GoUnheard> {
        let (ordered, now) = ((go.run, go.restart), self.now());
        let backing = self.backing_mut(engine, id).ok_or(GoUnheard::Gone)?;
        let state = backing.state;
        let last = backing.result.as_ref().map(|result| (result.run, result.restart));
        let same = backing.backing_run.as_deref() == Some(backing_run);
        let pid_1 = backing.supervisor.as_mut().filter(|s| same && !s.mute);
        let pid_1 = pid_1.ok_or(GoUnheard::Gone)?;
        if !speaks(state) {
            return Err(GoUnheard::Frozen);
        }
        if Some(ordered) <= pid_1.go.max(last) {
            return Ok(false);
        }
        let replaced = match pid_1.main {
            MainStatus::Running { run, restart } => Some((run, restart)),
            _ => None,
        };
        pid_1.go = Some(ordered);
        pid_1.main = MainStatus::Running { run: go.run, restart: go.restart };
        if let Some((run, restart)) = replaced {
            backing.result = Some(result(Go { run, restart, ..go }, TERMINATED, now));
        }
        let spec = &backing.made_from.spec;
        if !spec.command.is_empty() {
            let policy = spec.restart;
            self.check_execution(id, go, policy);
        }
        self.note(format_args!("{id} begins run {}.{}", go.run, go.restart));
        self.write(engine, id);
        Ok(true)
    }

    fn check_execution(&mut self, id: &SandboxId, go: Go, policy: RestartPolicy) {
        let run = self.runs.entry((id.clone(), go.run)).or_default();
        run.carried_out += 1;
        let (carried_out, acknowledged) = (run.carried_out, run.acknowledged);
        let repeated = !run.executions.insert(go.restart);
        let (run, restart) = (go.run, go.restart);
        if policy == RestartPolicy::Never && carried_out > 1 {
            self.violate(format_args!("{id} carries out run {run} twice, policy never"));
        }
        if policy == RestartPolicy::OnFailure && acknowledged == Some(0) {
            self.violate(format_args!("{id} carries out run {run} again after success"));
        }
        if repeated {
            self.violate(format_args!("{id} carries out execution {run}.{restart} twice"));
        }
    }

    fn end_command(&mut self, engine: &str, id: &SandboxId, backing_run: &str, go: Go, code: i32) {
        let finished_at = self.now();
        let Some(backing) = self.backing_mut(engine, id) else { return };
        if backing.backing_run.as_deref() != Some(backing_run) || backing.state != SimState::Running
        {
            return;
        }
        let Some(pid_1) = &mut backing.supervisor else { return };
        if pid_1.main != (MainStatus::Running { run: go.run, restart: go.restart }) {
            return;
        }
        pid_1.main = MainStatus::Ended { run: go.run, restart: go.restart };
        backing.result = Some(result(go, code, finished_at));
        let spec = &backing.made_from.spec;
        let discards = spec.remove_when_done && spec.made_workspace;
        let workspace = spec.workspace.clone();
        self.ended.insert(id.clone());
        if discards {
            self.ledgers.entry(workspace).or_default().may_be_discarded = true;
        }
        self.note(format_args!("{id} ends run {}.{} with {code}", go.run, go.restart));
        self.write(engine, id);
        self.hint(engine, &WatchEvent::Look(id.clone()));
    }

    /// Something is written into the workspace of a running sandbox.
    fn write(&mut self, engine: &str, id: &SandboxId) {
        let token = self.number();
        let Some(backing) = self.backing_mut(engine, id) else { return };
        let spec = &backing.made_from.spec;
        let (workspace, name) = (spec.workspace.clone(), spec.workspace_name.clone());
        let written = &mut self.ledgers.entry(workspace.clone()).or_default().written;
        let before = written.clone();
        written.push(token);
        let lost = self.ledgers.get(&workspace).is_some_and(|ledger| ledger.lost);
        let Some(copy) = self.engine_mut(engine).workspaces.get_mut(&workspace) else {
            self.violate(format_args!("{id} works without its workspace {name}"));
            return;
        };
        let whole = copy.content == before;
        copy.content.push(token);
        if !whole && !lost {
            self.violate(format_args!("workspace {name} has lost work"));
        }
    }
}

fn result(go: Go, code: i32, finished_at: Timestamp) -> RunResult {
    RunResult {
        run: go.run,
        restart: go.restart,
        incarnation: go.incarnation,
        code,
        signal: None,
        oom: false,
        finished_at,
        spawn_error: (code == NOT_FOUND).then(|| "no such program".to_owned()),
    }
}
