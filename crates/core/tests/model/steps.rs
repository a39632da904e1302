//! What can happen in the model, and what it changes. System steps come about by themselves;
//! events are what a user, an accident or a slow machine adds, and each costs one of the budget.

use sandkeep_core::verb::{self, Asked, DeleteOptions};
use sandkeep_core::{
    Action, Decision, ErrorNote, FailureKind, Reason, Record, RunResult, SandboxId, WaitsFor,
    attempt, check::check, decide, intent::Want,
};

use crate::effects::{command_ends, crash, dies, lose_link};
use crate::world::{Kind, LONG_AGO, Link, NOW, Pending, World, small};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Start,
    Stop,
    Restart,
    Delete,
    DeleteDiscard,
    DeleteForget,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    // By itself.
    /// Look, decide, store.
    Pass(usize),
    /// Carry out what was decided.
    Carry(usize),
    Connect(usize),
    /// A result reaches the gateway over the session.
    Deliver(usize),
    ComesUp(usize),
    Ends(usize),
    TimePasses(usize),
    EngineUp,
    // Events.
    Verb(usize, Verb),
    /// A pass on a view that is late: the backing as it was seen before.
    StalePass(usize),
    Dies(usize),
    Vanishes(usize),
    EngineDown {
        kills: bool,
    },
    Crash,
    /// The gateway dies after the effect of an action, before it knows.
    CrashAfter(usize),
    Fails(usize, FailureKind),
    /// Done, but reported as failed.
    Unsure(usize),
    /// A stop that was cut off.
    HalfStopped(usize),
    LosesSession(usize),
    CommandEnds(usize, bool),
    /// A deadline passes before the supervisor or the backing could report.
    Slow(usize),
    Freezes(usize),
    WorkspaceLost,
}

impl Step {
    pub(crate) fn is_event(self) -> bool {
        !matches!(
            self,
            Self::Pass(_)
                | Self::Carry(_)
                | Self::Connect(_)
                | Self::Deliver(_)
                | Self::ComesUp(_)
                | Self::Ends(_)
                | Self::TimePasses(_)
                | Self::EngineUp
        )
    }
}

/// Everything that stays the same in one model.
pub(crate) struct Frame {
    pub(crate) prototypes: Vec<Record>,
    pub(crate) ids: Vec<SandboxId>,
    /// Starting is a state of its own.
    pub(crate) slow_start: bool,
}

impl Frame {
    pub(crate) fn record(&self, world: &World, index: usize) -> Record {
        world.sandboxes[index].record(&self.prototypes[index])
    }

    pub(crate) fn decision(&self, world: &World, index: usize) -> Decision {
        let record = self.record(world, index);
        decide(&record, &world.live(index, &self.ids), NOW)
    }

    /// Every step that is possible; some may turn out to change nothing.
    pub(crate) fn possible(&self, world: &World, steps: &mut Vec<Step>) {
        for index in 0..world.sandboxes.len() {
            self.system_steps(world, index, steps);
        }
        if world.engine_down {
            steps.push(Step::EngineUp);
        }
        if world.budget == 0 {
            return;
        }
        for index in 0..world.sandboxes.len() {
            self.events(world, index, steps);
        }
        steps.push(Step::Crash);
        if world.bytes.is_some() {
            steps.push(Step::WorkspaceLost);
        }
        if !world.engine_down {
            steps.push(Step::EngineDown { kills: false });
            if world.sandboxes.iter().any(|sandbox| sandbox.real.kind.is_live()) {
                steps.push(Step::EngineDown { kills: true });
            }
        }
    }

    fn system_steps(&self, world: &World, index: usize, steps: &mut Vec<Step>) {
        let sandbox = &world.sandboxes[index];
        match sandbox.real.kind {
            Kind::Starting => steps.push(Step::ComesUp(index)),
            Kind::Stopping => steps.push(Step::Ends(index)),
            _ => {}
        }
        if sandbox.gone {
            return;
        }
        if sandbox.pending.is_some() {
            steps.push(Step::Carry(index));
        } else {
            steps.push(Step::Pass(index));
            steps.push(Step::TimePasses(index));
        }
        if can_connect(world, index) {
            steps.push(Step::Connect(index));
        }
        if let Link::Up { main: Some((_, false)), .. } = sandbox.link
            && sandbox.real.ended
        {
            steps.push(Step::Deliver(index));
        }
    }

    fn events(&self, world: &World, index: usize, steps: &mut Vec<Step>) {
        let sandbox = &world.sandboxes[index];
        let real = &sandbox.real;
        if real.kind.is_live() {
            steps.push(Step::Dies(index));
        }
        if real.kind != Kind::Absent {
            steps.push(Step::Vanishes(index));
        }
        if sandbox.gone {
            return;
        }
        let verbs = [
            Verb::Start,
            Verb::Stop,
            Verb::Restart,
            Verb::Delete,
            Verb::DeleteDiscard,
            Verb::DeleteForget,
        ];
        steps.extend(verbs.map(|verb| Step::Verb(index, verb)));
        if let Some(pending) = sandbox.pending {
            steps.push(Step::CrashAfter(index));
            if pending != Pending::Forget {
                steps.push(Step::Unsure(index));
            }
            for kind in [FailureKind::Transient, FailureKind::Outside, FailureKind::Invalid] {
                steps.push(Step::Fails(index, kind));
            }
            if pending == Pending::Stop && real.kind == Kind::Running {
                steps.push(Step::HalfStopped(index));
            }
        } else {
            steps.push(Step::StalePass(index));
            steps.push(Step::Slow(index));
        }
        if real.kind == Kind::Running {
            steps.push(Step::Freezes(index));
        }
        if matches!(sandbox.link, Link::Up { .. }) {
            steps.push(Step::LosesSession(index));
        }
        if real.kind == Kind::Running && real.heard.is_some() && !real.ended {
            steps.push(Step::CommandEnds(index, true));
            steps.push(Step::CommandEnds(index, false));
        }
    }

    /// The world after `step`; `None`: it changes nothing.
    pub(crate) fn after(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.apply(&mut next, step);
        if next == *world {
            return None;
        }
        if step.is_event() {
            next.budget -= 1;
        }
        Some(next)
    }

    fn apply(&self, world: &mut World, step: Step) {
        match step {
            Step::Pass(index) => {
                self.look(world, index);
                self.decide_and_store(world, index);
            }
            Step::StalePass(index) => {
                world.sandboxes[index].looked = world.sandboxes[index].generation;
                world.sandboxes[index].look_failed = false;
                self.decide_and_store(world, index);
            }
            Step::Carry(index) => self.carry(world, index),
            Step::Connect(index) => self.connect(world, index),
            Step::Deliver(index) => self.deliver(world, index),
            Step::ComesUp(index) => world.sandboxes[index].real.kind = Kind::Running,
            Step::Ends(index) | Step::Dies(index) => dies(world, index),
            Step::TimePasses(index) => self.time_passes(world, index, false),
            Step::Slow(index) => self.time_passes(world, index, true),
            Step::EngineUp => world.engine_down = false,
            Step::Verb(index, verb) => self.verb(world, index, verb),
            Step::Vanishes(index) => {
                dies(world, index);
                world.sandboxes[index].real.kind = Kind::Absent;
                world.sandboxes[index].real.result = None;
            }
            Step::EngineDown { kills } => {
                world.engine_down = true;
                for index in 0..world.sandboxes.len() {
                    if kills && world.sandboxes[index].real.kind.is_live() {
                        dies(world, index);
                    }
                }
            }
            Step::Crash => crash(world),
            Step::CrashAfter(index) => {
                let pending = world.sandboxes[index].pending.expect("it is pending");
                let _done = self.effect(world, index, pending);
                crash(world);
            }
            Step::Fails(index, kind) => self.failed(world, index, kind),
            Step::Unsure(index) => {
                let pending = world.sandboxes[index].pending.expect("it is pending");
                let _done = self.effect(world, index, pending);
                self.failed(world, index, FailureKind::Transient);
            }
            Step::HalfStopped(index) => {
                world.sandboxes[index].real.kind = Kind::Stopping;
                lose_link(world, index);
                world.sandboxes[index].real.heard = None;
                crash(world);
            }
            Step::LosesSession(index) => lose_link(world, index),
            Step::CommandEnds(index, fine) => command_ends(world, index, fine),
            Step::Freezes(index) => world.sandboxes[index].real.kind = Kind::Paused,
            Step::WorkspaceLost => world.bytes = None,
        }
    }

    fn look(&self, world: &mut World, index: usize) {
        let record = self.record(world, index);
        let down = world.engine_down;
        let sandbox = &mut world.sandboxes[index];
        sandbox.looked = sandbox.generation;
        sandbox.look_failed = down;
        if !down {
            let observed = record.observe(&sandbox.report(), NOW);
            sandbox.seen.absorb(&observed);
        }
        // A session of an older incarnation is let go.
        if let Link::Up { incarnation, .. } = sandbox.link
            && incarnation != sandbox.seen.incarnation
        {
            sandbox.link = Link::Lost;
        }
    }

    fn decide_and_store(&self, world: &mut World, index: usize) {
        let decision = self.decision(world, index);
        let want = world.sandboxes[index].want();
        let raises = matches!(
            decision.action,
            Some(
                Action::EnsureWorkspace
                    | Action::Create
                    | Action::Start
                    | Action::Thaw
                    | Action::Go { .. }
            )
        );
        if raises && want != Want::Running {
            world.broken = Some("something is started that nobody wants");
        }
        let sandbox = &mut world.sandboxes[index];
        if let Some(attempt) = &decision.attempt {
            sandbox.tries.absorb(attempt);
        }
        sandbox.pending =
            decision.action.as_ref().map(|action| pending(action, sandbox.generation));
        if let Some(rule) = check(&self.record(world, index)) {
            panic!("{rule}: {world:?}");
        }
    }

    fn carry(&self, world: &mut World, index: usize) {
        let pending = world.sandboxes[index].pending.expect("it is pending");
        match self.effect(world, index, pending) {
            Ok(()) => {
                world.sandboxes[index].pending = None;
                let sandbox = &mut world.sandboxes[index];
                let stored = sandbox.tries.attempt();
                if let Some(attempt) = attempt::succeeded(&stored, &pending.action()) {
                    sandbox.tries.absorb(&attempt);
                }
            }
            Err(kind) => self.failed(world, index, kind),
        }
    }

    fn failed(&self, world: &mut World, index: usize, kind: FailureKind) {
        let sandbox = &mut world.sandboxes[index];
        let pending = sandbox.pending.take().expect("it is pending");
        let note = ErrorNote {
            stage: pending.stage().to_owned(),
            reason: "X".to_owned(),
            message: String::new(),
            at: LONG_AGO,
        };
        let failed = attempt::failed(&sandbox.tries.attempt(), &self.ids[index], note, kind, NOW);
        sandbox.tries.absorb(&failed);
    }

    fn connect(&self, world: &mut World, index: usize) {
        self.hear_result(world, index);
        let sandbox = &mut world.sandboxes[index];
        let main = sandbox.real.heard.map(|heard| (heard, sandbox.real.ended));
        sandbox.link = Link::Up { incarnation: sandbox.seen.incarnation, main };
    }

    fn deliver(&self, world: &mut World, index: usize) {
        self.hear_result(world, index);
        if let Link::Up { main: Some((_, ended)), .. } = &mut world.sandboxes[index].link {
            *ended = true;
        }
    }

    fn hear_result(&self, world: &mut World, index: usize) {
        let Some(((run, restart), incarnation, fine)) = world.sandboxes[index].real.result else {
            return;
        };
        let result = RunResult {
            run: run.into(),
            restart: restart.into(),
            incarnation: incarnation.into(),
            code: i32::from(!fine),
            signal: None,
            oom: false,
            finished_at: LONG_AGO,
            spawn_error: None,
        };
        let observed = self.record(world, index).hear(result, NOW);
        world.sandboxes[index].seen.absorb(&observed);
    }

    /// Time goes by until the decision's own wake-up, as long as nothing else happens.
    fn time_passes(&self, world: &mut World, index: usize, slow: bool) {
        let decision = self.decision(world, index);
        let deadline = matches!(decision.reason, Reason::WaitingForSupervisor | Reason::Starting);
        // With the engine down, or on a workspace that another one holds, time changes nothing.
        let ours =
            decision.waits_for != Some(WaitsFor::Outside) || decision.reason == Reason::BackingOff;
        let looked = world.live(index, &self.ids).looked;
        let timed = looked && decision.action.is_none() && decision.wake_at.is_some() && ours;
        if !timed || deadline != slow {
            return;
        }
        let sandbox = &mut world.sandboxes[index];
        sandbox.tries.waiting = false;
        sandbox.tries.go_old = sandbox.tries.go.is_some();
        sandbox.seen.old = true;
        sandbox.seen.incarnation_old = true;
        sandbox.seen.result_old = true;
    }

    fn verb(&self, world: &mut World, index: usize, verb: Verb) {
        let record = self.record(world, index);
        let delete = |discard_workspace, forget| {
            verb::delete(&record, DeleteOptions { discard_workspace, forget }, &asked())
        };
        let intent = match verb {
            Verb::Start => verb::start(&record, &asked()).ok().flatten(),
            Verb::Stop => verb::stop(&record, &asked()).ok().flatten(),
            Verb::Restart => verb::restart(&record, &asked()).ok(),
            Verb::Delete => delete(false, false),
            Verb::DeleteDiscard => delete(true, false),
            Verb::DeleteForget => delete(false, true),
        };
        let Some(intent) = intent else { return };
        if record.intent.want == Want::Deleted && intent.want != Want::Deleted {
            world.broken = Some("a deleted sandbox comes back");
        }
        world.sandboxes[index].absorb_intent(&intent);
    }
}

pub(crate) fn asked() -> Asked {
    Asked { by: "uid:0".to_owned(), at: LONG_AGO }
}

fn pending(action: &Action, generation: u8) -> Pending {
    match action {
        Action::EnsureWorkspace => Pending::EnsureWorkspace,
        Action::Create => Pending::Create { generation },
        Action::Start => Pending::Start,
        Action::Go { run, restart, incarnation } => Pending::Go {
            execution: (small(*run), small(*restart)),
            incarnation: small(*incarnation),
        },
        Action::Stop { .. } => Pending::Stop,
        Action::Kill => Pending::Kill,
        Action::Thaw => Pending::Thaw,
        Action::Remove => Pending::Remove,
        Action::DiscardWorkspace => Pending::Discard,
        Action::ForgetRecord => Pending::Forget,
        Action::RequestDelete { discard_workspace } => {
            Pending::RequestDelete { discard: *discard_workspace }
        }
        other => panic!("the model cannot {other:?}"),
    }
}

fn can_connect(world: &World, index: usize) -> bool {
    let sandbox = &world.sandboxes[index];
    let known = sandbox.seen.kind == Kind::Running && sandbox.seen.run == sandbox.real.run;
    let up = matches!(sandbox.link, Link::Up { .. });
    sandbox.real.kind == Kind::Running && known && sandbox.looked > 0 && !up
}
