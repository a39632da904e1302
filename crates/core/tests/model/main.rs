//! A small world, walked whole: `decide` with two sandboxes on one workspace and one engine, and
//! every order of up to three events (verbs, losses, crashes, errors, late views).
//!
//! What must never happen is an `always` property. That everything comes about is one too: a world
//! in which no system step changes anything any more is as asked for, and every world gets there
//! within a bound once the events are spent (rest.rs).

mod effects;
mod rest;
mod steps;
mod world;

use sandkeep_core::intent::Want;
use sandkeep_core::{
    Identity, Intent, Observation, Phase, Reason, Record, RestartPolicy, RunState, SandboxId, Spec,
    Timestamp, WaitsFor, WorkspaceId, project, verb,
};
use stateright::{Checker, Model, Property};

use rest::Course;
use steps::{Frame, Step};
use world::{Kind, LONG_AGO, NOW, Sandbox, World};

/// More system steps than any way from the last event to rest has.
const REST_WITHIN: u32 = 40;

struct SmallWorld {
    frame: Frame,
    budget: u8,
    /// Begin with the sandboxes at rest instead of just asked for.
    settled: bool,
    course: Course,
}

impl SmallWorld {
    fn new(
        policies: &[(RestartPolicy, bool)],
        budget: u8,
        settled: bool,
        slow_start: bool,
    ) -> Self {
        let numbered = policies.iter().zip(1..);
        let prototypes: Vec<_> =
            numbered.map(|(policy, number)| prototype(number, *policy)).collect();
        let ids = prototypes.iter().map(|record| record.id.clone()).collect();
        Self {
            frame: Frame { prototypes, ids, slow_start },
            budget,
            settled,
            course: Course::default(),
        }
    }

    /// Walks it whole; how many worlds there are.
    fn count(self) -> usize {
        let checker = self.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done(), "the whole world was walked");
        let longest = checker.model().course.longest().expect("every way comes to rest");
        assert!(longest < REST_WITHIN, "rest is {longest} steps away");
        println!("at rest after {longest} steps at most");
        checker.unique_state_count()
    }
}

fn prototype(number: u8, (restart, remove_when_done): (RestartPolicy, bool)) -> Record {
    let workspace = WorkspaceId::from_random([9; 8]);
    let name = format!("s{number}").parse().expect("a name");
    let spec = Spec {
        command: vec!["work".to_owned()],
        restart,
        remove_when_done,
        ..Spec::bare(workspace, "w".parse().expect("a name"))
    };
    Record {
        id: SandboxId::from_random([number; 8]),
        name,
        driver: String::new(),
        created_at: Timestamp::EPOCH,
        identity: Identity { hostname: String::new(), session_key: String::new() },
        intent: Intent::first(spec, "uid:0".to_owned(), LONG_AGO),
        observed: Observation::not_yet(LONG_AGO),
        attempt: Default::default(),
        activity: Default::default(),
        revision: 1,
    }
}

impl Model for SmallWorld {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut world = World {
            sandboxes: self.frame.prototypes.iter().map(|_| Sandbox::new()).collect(),
            holder: None,
            marked: false,
            bytes: None,
            workspace_forgotten: false,
            engine_down: false,
            budget: 0,
            broken: None,
        };
        if self.settled {
            world = self.at_rest(world);
        }
        world.budget = self.budget;
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.frame.possible(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let next = self.frame.after(world, step)?;
        if world.budget == 0 {
            self.course.note(world, &next);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no invariant is broken", |_, world: &World| world.broken.is_none()),
            Property::always("at rest it is as asked for", Self::rests_well),
            Property::always("every verb is answered", Self::verbs_are_answered),
            Property::always("Ready is true", Self::ready_is_true),
            Property::always("a workspace that was lost is not made anew", |_, world: &World| {
                world.bytes.is_none_or(|bytes| bytes == 1)
            }),
            Property::sometimes("a sandbox becomes Ready", |model: &Self, world: &World| {
                model.phases(world).contains(&Some(Phase::Ready))
            }),
            Property::sometimes("all sandboxes are gone", |_, world: &World| {
                world.sandboxes.iter().all(|sandbox| sandbox.gone)
            }),
        ]
    }
}

impl SmallWorld {
    /// System steps in turn until none changes anything.
    fn at_rest(&self, mut world: World) -> World {
        loop {
            let mut steps = Vec::new();
            self.frame.possible(&world, &mut steps);
            match steps.into_iter().find_map(|step| self.frame.after(&world, step)) {
                Some(next) => world = next,
                None => return world,
            }
        }
    }

    fn is_at_rest(&self, world: &World) -> bool {
        let mut steps = Vec::new();
        self.frame.possible(world, &mut steps);
        let system = steps.into_iter().filter(|step| !step.is_event() && *step != Step::EngineUp);
        system.into_iter().all(|step| self.frame.after(world, step).is_none())
    }

    fn phases(&self, world: &World) -> Vec<Option<Phase>> {
        let each = world.sandboxes.iter().enumerate();
        each.map(|(index, sandbox)| {
            let record = self.frame.record(world, index);
            (!sandbox.gone)
                .then(|| project(&record, &world.live(index, &self.frame.ids), NOW).phase)
        })
        .collect()
    }

    fn rests_well(&self, world: &World) -> bool {
        !self.is_at_rest(world) || (0..world.sandboxes.len()).all(|index| self.is_met(world, index))
    }

    /// What a sandbox may be at rest.
    fn is_met(&self, world: &World, index: usize) -> bool {
        let sandbox = &world.sandboxes[index];
        if sandbox.gone {
            // Nothing is left behind, unless the user gave up on the engine.
            return sandbox.forget || sandbox.real.kind == Kind::Absent;
        }
        let record = self.frame.record(world, index);
        let decision = self.frame.decision(world, index);
        if decision.waits_for == Some(WaitsFor::Outside) {
            let held = decision.reason == Reason::WorkspaceHeld && world.holder.is_some();
            return world.engine_down || held;
        }
        match sandbox.want() {
            Want::Deleted => false,
            Want::Stopped => !sandbox.real.kind.is_live() && decision.reason == Reason::Stopped,
            Want::Running => self.is_up(world, index, &record, decision.reason),
        }
    }

    fn is_up(&self, world: &World, index: usize, record: &Record, reason: Reason) -> bool {
        let sandbox = &world.sandboxes[index];
        let real = &sandbox.real;
        let up = real.kind == Kind::Running;
        let spec = &record.intent.spec;
        match reason {
            Reason::Ready => up && real.heard == sandbox.tries.go.map(|(execution, _)| execution),
            Reason::RunLost => up && spec.restart == RestartPolicy::Never,
            Reason::CommandCompleted => up && !spec.remove_when_done,
            Reason::CommandFailed => {
                up && spec.restart == RestartPolicy::Never && !spec.remove_when_done
            }
            Reason::WorkspaceMissing => world.bytes.is_none(),
            Reason::InvalidSpec => !up,
            _ => false,
        }
    }

    /// Each verb has an answer, asked again it changes nothing, and the record stays sound.
    fn verbs_are_answered(&self, world: &World) -> bool {
        (0..world.sandboxes.len()).filter(|index| !world.sandboxes[*index].gone).all(|index| {
            let record = self.frame.record(world, index);
            let asked = steps::asked();
            let with = |intent: Intent| Record { intent, ..record.clone() };
            let deleting = record.intent.want == Want::Deleted;
            let started = match verb::start(&record, &asked) {
                Ok(Some(intent)) => verb::start(&with(intent), &asked) == Ok(None),
                Ok(None) => true,
                Err(_) => deleting,
            };
            let stopped = match verb::stop(&record, &asked) {
                Ok(Some(intent)) => verb::stop(&with(intent), &asked) == Ok(None),
                Ok(None) => true,
                Err(_) => deleting,
            };
            let restarted = verb::restart(&record, &asked)
                .map_or(deleting, |intent| RunState::of(&with(intent)) == RunState::NotGiven);
            let options = verb::DeleteOptions::default();
            let deleted = verb::delete(&record, options, &asked)
                .is_none_or(|intent| verb::delete(&with(intent), options, &asked).is_none());
            started && stopped && restarted && deleted
        })
    }

    fn ready_is_true(&self, world: &World) -> bool {
        self.phases(world).into_iter().zip(&world.sandboxes).all(|(phase, sandbox)| {
            phase != Some(Phase::Ready) || matches!(sandbox.real.kind, Kind::Running | Kind::Paused)
        })
    }
}

const ON_FAILURE: (RestartPolicy, bool) = (RestartPolicy::OnFailure, false);
const NEVER: (RestartPolicy, bool) = (RestartPolicy::Never, false);
const ALWAYS: (RestartPolicy, bool) = (RestartPolicy::Always, false);
const RUN_AND_REMOVE: (RestartPolicy, bool) = (RestartPolicy::Never, true);

#[test]
fn one_sandbox_from_its_creation_through_three_events() {
    for policy in [ON_FAILURE, RUN_AND_REMOVE] {
        let states = SmallWorld::new(&[policy], 3, false, false).count();
        println!("{policy:?}: {states} states");
    }
}

#[test]
fn one_sandbox_that_starts_slowly_through_three_events() {
    let states = SmallWorld::new(&[ALWAYS], 3, false, true).count();
    println!("{states} states");
}

#[test]
fn two_sandboxes_on_one_workspace_through_three_events_from_rest() {
    let states = SmallWorld::new(&[ON_FAILURE, NEVER], 3, true, false).count();
    println!("{states} states");
}

#[test]
fn two_sandboxes_on_one_workspace_from_their_creation_through_two_events() {
    let states = SmallWorld::new(&[NEVER, ON_FAILURE], 2, false, false).count();
    println!("{states} states");
}
