//! A crash, an error, a lost, doubled or late answer at every single step of every scenario: the
//! end is that of the undisturbed run.
//!
//! Steps are the effects of a run: calls that change something on a backend, orders to supervisors
//! and durable commits, numbered as they come.

use std::time::Duration;

use sandkeep_core::{Backing, RestartPolicy, SandboxId};
use sandkeep_driver::simulated::{Disturbance, Pace};
use sandkeep_gateway::gateway::IntentVerb;
use sandkeep_gateway::refusal::RefusalKind;

use crate::book::{Book, Entry};
use crate::house::{Answer, DRIVERS, House};
use crate::settled::unsettled;
use crate::wish::{request, wishes};

/// Longer than a remove whose answer never comes, and a discard after it.
const COMES_ABOUT_WITHIN: Duration = Duration::from_secs(30 * 60);

/// When the late answer of a dead gateway comes: another one is well at work by then.
const LATE: Duration = Duration::from_secs(7);

const DISTURBANCES: [Disturbance; 6] = [
    Disturbance::CrashBefore,
    Disturbance::CrashAfter,
    Disturbance::Error,
    Disturbance::DoneButTimedOut,
    Disturbance::Twice,
    Disturbance::LateAnswer(LATE),
];

/// What a user does, one after the other.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// With a command that stays up.
    Create,
    /// With a command that ends, `run --rm`.
    RunAndRemove,
    Ask(IntentVerb),
    Delete {
        discard: bool,
    },
    /// Waits until everything has come about.
    Settle,
}

/// How one run went.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// What people see and what is there, a line each.
    state: Vec<String>,
}

struct Run {
    house: House,
    book: Book,
    id: SandboxId,
}

impl Run {
    async fn new(plan: Option<(u64, Disturbance)>, keep_trace: bool) -> Self {
        let house = House::new(1, Pace::STEADY, keep_trace);
        if let Some((number, disturbance)) = plan {
            house.world.with_faults(|faults| faults.plan(number, disturbance));
        }
        let mut run = Self { house, book: Book::default(), id: SandboxId::from_random([3; 8]) };
        run.house.start().await;
        run
    }

    async fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Create => self.create("forever", RestartPolicy::OnFailure, false).await,
            Step::RunAndRemove => self.create("work 2000 0", RestartPolicy::Never, true).await,
            Step::Ask(verb) => self.ask(verb).await,
            Step::Delete { discard } => self.delete(discard).await,
            Step::Settle => self.settle().await,
        }
    }

    /// A user whose request was not answered asks again with the same id.
    async fn create(
        &mut self,
        command: &str,
        policy: RestartPolicy,
        remove: bool,
    ) -> Result<(), String> {
        let entry = Entry::new(self.id.clone(), "lab", DRIVERS[0], policy, remove);
        self.book.entries.insert(self.id.clone(), entry);
        for _ in 0..5 {
            let mut wishes = wishes(command, policy);
            wishes.remove_when_done = remove;
            let mut request = request(&self.id, "lab", DRIVERS[0], wishes);
            request.new_workspace = false;
            let answer =
                self.house.ask(|gateway| async move { gateway.create(request, "user").await });
            match answer.await {
                Answer::Given(Ok(_)) => return Ok(()),
                // A repeated request finds what it made gone again already.
                Answer::Given(Err(refusal)) if refusal.reason == "AlreadyDeleted" && remove => {
                    return Ok(());
                }
                _ => {
                    self.pass(Duration::from_secs(1)).await?;
                    self.promises_change();
                }
            }
        }
        Err("create is not taken".to_owned())
    }

    /// A user who got no answer looks whether the verb was taken before asking again.
    async fn ask(&mut self, verb: IntentVerb) -> Result<(), String> {
        let before = self.generation();
        for _ in 0..5 {
            let id = self.id.to_string();
            let answer = self
                .house
                .ask(|gateway| async move { gateway.set_intent(&id, verb, "user").await })
                .await;
            self.promises_change();
            if matches!(answer, Answer::Given(Ok(_))) || self.generation() > before {
                return Ok(());
            }
            self.pass(Duration::from_secs(1)).await?;
        }
        Err(format!("{verb:?} is not taken"))
    }

    async fn delete(&mut self, discard: bool) -> Result<(), String> {
        if discard {
            let snapshot = self.house.gateway().get(self.id.as_str());
            let snapshot = snapshot.map_err(|refusal| refusal.to_string())?;
            self.house.world.allow_discard(&snapshot.record.intent.spec.workspace);
        }
        for _ in 0..5 {
            let id = self.id.to_string();
            let answer = self
                .house
                .ask(|gateway| async move { gateway.delete(&id, discard, false, "user").await })
                .await;
            self.promises_change();
            match answer {
                Answer::Given(Ok(_)) => return Ok(()),
                Answer::Given(Err(refusal)) if refusal.kind == RefusalKind::NotFound => {
                    return Ok(());
                }
                _ => self.pass(Duration::from_secs(1)).await?,
            }
        }
        Err("delete is not taken".to_owned())
    }

    fn generation(&self) -> u64 {
        let snapshot = self.house.gateway().get(self.id.as_str());
        snapshot.map_or(0, |snapshot| snapshot.record.intent.generation)
    }

    fn promises_change(&mut self) {
        if let Some(entry) = self.book.entries.get_mut(&self.id) {
            entry.forget_promises();
        }
    }

    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        self.house.pass(time).await;
        self.book.check(&self.house)
    }

    async fn settle(&mut self) -> Result<(), String> {
        let end = self.house.world.elapsed() + COMES_ABOUT_WITHIN;
        loop {
            self.pass(Duration::from_secs(2)).await?;
            let open = unsettled(&self.house, &self.book);
            if open.is_empty() {
                return Ok(());
            }
            if self.house.world.elapsed() > end {
                return Err(format!("never comes about: {}", open.join("; ")));
            }
        }
    }

    /// The end, after everything that is late has come and a last look was taken.
    async fn end(&mut self) -> Result<End, String> {
        self.settle().await?;
        self.pass(Duration::from_secs(150)).await?;
        self.settle().await?;
        let gateway = self.house.gateway();
        let mut state = Vec::new();
        for snapshot in gateway.list(&std::collections::BTreeMap::new()) {
            let (record, view) = (&snapshot.record, &snapshot.view);
            state.push(format!(
                "{} is {} ({}), wanted {:?} run {}",
                record.name, view.phase, view.reason, record.intent.want, record.intent.run
            ));
        }
        for view in gateway.workspaces() {
            state.push(format!("workspace {} is {}", view.workspace.name, view.state));
        }
        self.house.world.with_engine("engine-one", |engine| {
            for (id, backing) in &engine.backings {
                let is = match backing.seen() {
                    // When and how gently depends on the disturbance.
                    Backing::Exited { .. } => "down".to_owned(),
                    other => format!("{other:?}"),
                };
                state.push(format!("a backing of {id} is {is}"));
            }
            for workspace in engine.workspaces.values() {
                let marked = workspace.marked;
                state.push(format!("bytes of {} are there, marked: {marked}", workspace.name));
            }
        });
        Ok(End { state })
    }
}

/// Runs `steps`, disturbed as planned. The end, and how many effects it took.
fn run(steps: &[Step], plan: Option<(u64, Disturbance)>) -> Result<(End, u64), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without input and output can be made");
    runtime.block_on(async {
        let mut run = Run::new(plan, std::env::var("SANDKEEP_SIM_TRACE").is_ok()).await;
        let mut outcome = Ok(());
        for step in steps {
            outcome = run.take(*step).await;
            if outcome.is_err() {
                break;
            }
        }
        let end = match outcome {
            Ok(()) => run.end().await,
            Err(what) => Err(what),
        };
        let met = run.house.world.with_faults(|faults| faults.all_met());
        let end = end.map_err(|what| {
            let trace = run.house.world.trace_lines().join("\n");
            format!("{what}\n{trace}")
        })?;
        if plan.is_some() && !met {
            return Err("the disturbance never took place".to_owned());
        }
        if let Some((number, disturbance)) = plan {
            println!("{disturbance:?} at {number}\n{}", run.house.world.trace_lines().join("\n"));
        }
        Ok((end, run.house.world.effects()))
    })
}

fn every_step(name: &str, steps: &[Step]) {
    let (oracle, effects) = run(steps, None).expect("the undisturbed run comes to its end");
    let mut wrong = Vec::new();
    for number in 1..=effects {
        for disturbance in DISTURBANCES {
            match run(steps, Some((number, disturbance))) {
                Ok((end, _)) if end == oracle => {}
                Ok((end, _)) => wrong.push(format!(
                    "{disturbance:?} at effect {number}:\n  {}\ninstead of\n  {}",
                    end.state.join("\n  "),
                    oracle.state.join("\n  ")
                )),
                Err(what) => wrong.push(format!("{disturbance:?} at effect {number}: {what}")),
            }
        }
    }
    println!("{name}: {effects} effects, {} disturbed runs", effects * 6);
    assert!(wrong.is_empty(), "{name}: {} wrong ends\n{}", wrong.len(), wrong.join("\n"));
}

const CREATE_AND_SETTLE: [Step; 2] = [Step::Create, Step::Settle];

fn after_create(steps: &[Step]) -> Vec<Step> {
    CREATE_AND_SETTLE.iter().chain(steps).copied().collect()
}

#[test]
fn a_disturbed_create_ends_as_an_undisturbed_one() {
    every_step("create", &[Step::Create]);
}

#[test]
fn a_disturbed_start_ends_as_an_undisturbed_one() {
    let steps = [Step::Ask(IntentVerb::Stop), Step::Settle, Step::Ask(IntentVerb::Start)];
    every_step("start", &after_create(&steps));
}

#[test]
fn a_disturbed_stop_ends_as_an_undisturbed_one() {
    every_step("stop", &after_create(&[Step::Ask(IntentVerb::Stop)]));
}

#[test]
fn a_disturbed_stop_in_the_middle_of_a_restart_ends_as_an_undisturbed_one() {
    let steps = [Step::Ask(IntentVerb::Restart), Step::Ask(IntentVerb::Stop)];
    every_step("restart and stop", &after_create(&steps));
}

#[test]
fn a_disturbed_restart_ends_as_an_undisturbed_one() {
    every_step("restart", &after_create(&[Step::Ask(IntentVerb::Restart)]));
}

#[test]
fn a_disturbed_delete_ends_as_an_undisturbed_one() {
    every_step("delete", &after_create(&[Step::Delete { discard: false }]));
}

#[test]
fn a_disturbed_delete_with_discard_ends_as_an_undisturbed_one() {
    every_step("delete and discard", &after_create(&[Step::Delete { discard: true }]));
}

#[test]
fn a_disturbed_run_that_removes_itself_ends_as_an_undisturbed_one() {
    every_step("run --rm", &[Step::RunAndRemove]);
}
