//! The users' side of a walk: verbs at random, remembered in the book.

use std::collections::BTreeMap;

use sandkeep_core::{Image, RestartPolicy, SandboxId};
use sandkeep_driver::simulated::NO_IMAGE;
use sandkeep_gateway::Snapshot;
use sandkeep_gateway::gateway::IntentVerb;
use sandkeep_gateway::refusal::{Refusal, RefusalKind};

use crate::book::{Entry, Wish};
use crate::house::{Answer, DRIVERS};
use crate::walk::Walk;
use crate::wish::{request, wishes};

/// So many sandboxes at once at most: few enough that their ways cross.
const SANDBOXES_MAX: usize = 5;

/// Main commands. None ends after the walk has frozen and is then repeated for ever: at rest
/// nothing may be left to do.
const COMMANDS: [&str; 9] = [
    "",
    "forever",
    "work 800 0",
    "work 20000 0",
    "work 3000 7",
    "work 90000 7",
    "flaky 2 700 3",
    "flaky 3 65000 0",
    "no-such-program",
];

impl Walk {
    pub(crate) async fn verb(&mut self) -> Result<(), String> {
        let living = self.living();
        let create = living.len() < SANDBOXES_MAX
            && self.rng.chance(if living.is_empty() { 1000 } else { 250 });
        if create {
            return self.create().await;
        }
        let Some(id) = (!living.is_empty()).then(|| self.rng.pick(&living).clone()) else {
            return Ok(());
        };
        match self.rng.below(100) {
            0..20 => self.intent(&id, IntentVerb::Start).await,
            20..40 => self.intent(&id, IntentVerb::Stop).await,
            40..55 => self.intent(&id, IntentVerb::Restart).await,
            55..67 => self.delete(&id, false).await,
            67..73 => self.delete(&id, true).await,
            73..80 => self.many_at_once(&id).await,
            80..85 => self.delete_workspace().await,
            85..88 => self.again(&id).await,
            _ => {
                self.work();
                Ok(())
            }
        }
    }

    /// Sandboxes that are not known to be gone.
    fn living(&self) -> Vec<SandboxId> {
        let living = self.book.entries.values().filter(|entry| !entry.gone);
        living.map(|entry| entry.id.clone()).collect()
    }

    async fn create(&mut self) -> Result<(), String> {
        self.tally.verb("create");
        let id = SandboxId::from_random(self.rng.next().to_le_bytes());
        let fresh = self.rng.chance(700);
        if fresh {
            self.next_name += 1;
        }
        let name = format!("s{}", self.next_name);
        let driver = *self.rng.pick(&DRIVERS);
        let (command, policy) = self.command();
        let mut wishes = wishes(command, policy);
        wishes.remove_when_done = command.starts_with("work") && self.rng.chance(300);
        wishes.stop_grace_ms = *self.rng.pick(&[0, 1000, 10_000]);
        if self.rng.chance(30) {
            wishes.image = Image::Directory(NO_IMAGE.to_owned());
        }
        if self.rng.chance(100) {
            wishes.limits.disk_bytes = Some(1 << 30);
        }
        let removes = wishes.remove_when_done;
        let mut request = request(&id, &name, driver, wishes);
        request.new_workspace = self.rng.chance(500);
        if self.rng.chance(350) {
            request.workspace = self.some_workspace();
            request.new_workspace = false;
        }
        let wanted = format!("{:?} {:?}", request.workspace, request.wishes.command);
        self.house.world.note(format_args!("create {id} {name} on {driver} {wanted} {policy:?}"));
        let entry = Entry::new(id.clone(), &name, driver, policy, removes);
        self.book.entries.insert(id.clone(), entry);
        let answer = self.house.ask(|gateway| async move { gateway.create(request, "user").await });
        let answer = answer.await;
        self.take_create(&id, answer)
    }

    fn command(&mut self) -> (&'static str, RestartPolicy) {
        use RestartPolicy::{Always, Never, OnFailure};
        let command = *self.rng.pick(&COMMANDS);
        let policies: &[RestartPolicy] = match command {
            // These would be repeated for ever.
            "work 3000 7" | "work 90000 7" | "no-such-program" => &[Never],
            command if command.starts_with("work") => &[Never, OnFailure],
            _ => &[Never, OnFailure, Always],
        };
        (command, *self.rng.pick(policies))
    }

    fn some_workspace(&mut self) -> Option<String> {
        let kept = self.house.gateway().workspaces();
        let names: Vec<String> = kept.iter().map(|view| view.workspace.name.to_string()).collect();
        (!names.is_empty()).then(|| self.rng.pick(&names).clone())
    }

    fn take_create(&mut self, id: &SandboxId, answer: Answer<Snapshot>) -> Result<(), String> {
        match answer {
            Answer::Given(Ok(snapshot)) => self.acknowledge(id, &snapshot),
            Answer::Given(Err(refusal)) => {
                self.note_refusal("create", &refusal);
                if !uncertain(&refusal) {
                    self.book.entries.remove(id);
                }
            }
            Answer::Died => {}
            Answer::Never => return Err("create was not answered".to_owned()),
        }
        Ok(())
    }

    fn acknowledge(&mut self, id: &SandboxId, snapshot: &Snapshot) {
        if self.adrift {
            return;
        }
        if let Some(entry) = self.book.entries.get_mut(id) {
            entry.acknowledge(snapshot);
        }
    }

    fn note_refusal(&mut self, verb: &str, refusal: &Refusal) {
        self.house.world.note(format_args!("{verb} is refused: {}", refusal.reason));
    }

    /// By id, or by name when that means this one.
    fn handle(&mut self, id: &SandboxId) -> String {
        let name = self.book.entries.get(id).map(|entry| entry.name.clone()).unwrap_or_default();
        let same = self.house.gateway().get(&name).is_ok_and(|snapshot| snapshot.record.id == *id);
        if same && self.rng.chance(500) { name } else { id.to_string() }
    }

    pub(crate) async fn intent(&mut self, id: &SandboxId, verb: IntentVerb) -> Result<(), String> {
        let (word, wish) = match verb {
            IntentVerb::Start => ("start", Wish::Running),
            IntentVerb::Stop => ("stop", Wish::Stopped),
            IntentVerb::Restart => ("restart", Wish::Running),
        };
        self.tally.verb(word);
        self.house.world.note(format_args!("{word} {id}"));
        let handle = self.handle(id);
        let answer = self
            .house
            .ask(|gateway| async move { gateway.set_intent(&handle, verb, "user").await })
            .await;
        self.take_verb(id, word, wish, answer)
    }

    async fn delete(&mut self, id: &SandboxId, discard: bool) -> Result<(), String> {
        let word = if discard { "delete with discard" } else { "delete" };
        self.tally.verb(word);
        self.house.world.note(format_args!("{word} {id}"));
        let handle = self.handle(id);
        if discard {
            self.allow_discard(id);
        }
        let answer = self
            .house
            .ask(|gateway| async move { gateway.delete(&handle, discard, false, "user").await })
            .await;
        self.take_verb(id, word, Wish::Deleted, answer)
    }

    fn allow_discard(&mut self, id: &SandboxId) {
        if let Ok(snapshot) = self.house.gateway().get(id.as_str()) {
            self.house.world.allow_discard(&snapshot.record.intent.spec.workspace);
        }
    }

    fn take_verb(
        &mut self,
        id: &SandboxId,
        word: &str,
        wish: Wish,
        answer: Answer<Snapshot>,
    ) -> Result<(), String> {
        let deleting = self.book.entries.get(id).is_some_and(|entry| {
            entry.allowed.contains(&Wish::Deleted) || entry.allowed.contains(&Wish::Absent)
        });
        match answer {
            Answer::Given(Ok(snapshot)) => self.acknowledge(id, &snapshot),
            Answer::Given(Err(refusal)) => {
                self.note_refusal(word, &refusal);
                if uncertain(&refusal) {
                    self.perhaps(id, wish);
                }
                return self.may_refuse(id, word, &refusal, deleting);
            }
            Answer::Died => self.perhaps(id, wish),
            Answer::Never => return Err(format!("{word} {id} was not answered")),
        }
        Ok(())
    }

    fn perhaps(&mut self, id: &SandboxId, wish: Wish) {
        if let Some(entry) = self.book.entries.get_mut(id) {
            entry.perhaps(wish);
        }
    }

    /// A verb is refused for these reasons and no other, whatever state the sandbox is in.
    fn may_refuse(
        &self,
        id: &SandboxId,
        word: &str,
        refusal: &Refusal,
        deleting: bool,
    ) -> Result<(), String> {
        let removes = self.book.entries.get(id).is_some_and(|entry| entry.remove_when_done);
        let right = match refusal.kind {
            RefusalKind::DiskFull => !matches!(word, "stop" | "delete" | "delete with discard"),
            RefusalKind::NotFound => deleting || removes || self.adrift,
            RefusalKind::Conflict => {
                refusal.reason == "Conflict" || deleting || removes || self.adrift
            }
            RefusalKind::Failed => refusal.reason == "StoreUnavailable",
            _ => false,
        };
        if right { Ok(()) } else { Err(format!("{word} {id} was refused: {refusal:?}")) }
    }

    /// Several users at the same moment: the last one wins, whoever that is.
    async fn many_at_once(&mut self, id: &SandboxId) -> Result<(), String> {
        self.tally.verb("many at once");
        self.house.world.note(format_args!("start, stop and restart {id} at once"));
        let name = id.to_string();
        let answer = self
            .house
            .ask(|gateway| async move {
                let (start, stop, restart) = futures::join!(
                    gateway.set_intent(&name, IntentVerb::Start, "a"),
                    gateway.set_intent(&name, IntentVerb::Stop, "b"),
                    gateway.set_intent(&name, IntentVerb::Restart, "c"),
                );
                start.and(stop).and(restart)
            })
            .await;
        self.perhaps(id, Wish::Running);
        self.perhaps(id, Wish::Stopped);
        if matches!(answer, Answer::Never) {
            return Err(format!("verbs on {id} were not answered"));
        }
        Ok(())
    }

    /// The same request once more makes nothing twice.
    async fn again(&mut self, id: &SandboxId) -> Result<(), String> {
        self.tally.verb("create again");
        self.house.world.note(format_args!("create {id} again"));
        let Some(entry) = self.book.entries.get(id).cloned() else { return Ok(()) };
        let request = request(id, &entry.name, &entry.driver, wishes("", entry.policy));
        let known = self.house.gateway().get(id.as_str()).is_ok();
        if !known {
            // An id that nobody knows would make a new sandbox of it.
            return Ok(());
        }
        let asked = self.house.ask(|gateway| async move { gateway.create(request, "user").await });
        match asked.await {
            Answer::Never => Err(format!("create {id} was not answered")),
            _ => Ok(()),
        }
    }

    async fn delete_workspace(&mut self) -> Result<(), String> {
        self.tally.verb("workspace delete");
        let Some(name) = self.some_workspace() else { return Ok(()) };
        let Ok(view) = self.house.gateway().workspace(&name) else { return Ok(()) };
        let id = view.workspace.id.clone();
        self.house.world.note(format_args!("delete workspace {name}"));
        let answer = self
            .house
            .ask(|gateway| async move { gateway.delete_workspace(&name, "user").await })
            .await;
        match answer {
            Answer::Given(Err(refusal)) if !uncertain(&refusal) => {
                self.note_refusal("workspace delete", &refusal);
                return Ok(());
            }
            Answer::Never => return Err("workspace delete was not answered".to_owned()),
            _ => self.house.world.allow_discard(&id),
        }
        let all = self.house.gateway().list(&BTreeMap::new());
        let used = all.iter().any(|snapshot| snapshot.record.intent.spec.workspace == id);
        if used && matches!(answer, Answer::Given(Ok(_))) {
            return Err("a workspace in use is to be discarded".to_owned());
        }
        Ok(())
    }

    /// Users work in every sandbox that is up.
    fn work(&mut self) {
        self.tally.verb("work");
        for entry in self.book.entries.values().filter(|entry| !entry.gone) {
            let has_worked = self.house.world.work(&entry.id);
            self.house.world.note(format_args!("work in {}: {has_worked}", entry.id));
        }
    }
}

/// Whether a refusal leaves open what holds.
fn uncertain(refusal: &Refusal) -> bool {
    refusal.reason == "StoreUnavailable" || refusal.reason == "Conflict"
}
