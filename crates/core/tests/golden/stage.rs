//! The stage on which a story is played: one record, the live facts, a clock, and a backend that
//! does what it is told.
//!
//! Facts: `sandbox [restart=P] [no-command] [rm] [made-workspace]`, `stored …` (facts of an earlier
//! gateway), `look [KIND] [run=N] [code=N] [oom] [generation=N]`, `look-fails MESSAGE`,
//! `session up|unprobed|lost|none|result-waits|refused WHY [main=R/K] [ended=R/K] [incarnation=N]`,
//! `guards [MISSING …]`,
//! `result of=R/K code=N [signal=N]`, `workspace bound|missing|held|free|forgotten|shared`,
//! `gateway restarts|holds|goes-on|lacks-driver`, `asleep`, `after 5s`, `clock-back 1h`,
//! `spec-changes`. Verbs: `verb start|stop|restart|delete [discard] [forget]`.
//! Printing: `decide` (and store its attempt), `fails KIND REASON MESSAGE` (the action just decided
//! came back so), `done` (it came back well), `converge` (decide and do, until nothing is left),
//! `show`, `conditions`, `counters`, `explain`.

use sandkeep_core::verb::{self, Asked, DeleteOptions, VerbError};
use sandkeep_core::{
    Action, Attempt, Backing, BackingReport, ErrorNote, FailureKind, Go, Identity, Intent, Live,
    MainStatus, Observation, Operation, Record, RestartPolicy, RunResult, SandboxId, Session,
    SessionRefused, Spec, Timestamp, UnknownWhy, Want, WorkspaceId, WorkspaceSeen, attempt,
    check::check, decide, explain, project,
};

use crate::print;
use crate::words::{Words, duration};

pub(crate) struct Stage {
    record: Record,
    live: Live,
    now: Timestamp,
    decided: Option<Action>,
    runs: u32,
    forgotten: bool,
}

const BEGIN: Timestamp = Timestamp::from_millis(1_800_000_000_000);

impl Default for Stage {
    fn default() -> Self {
        let workspace = WorkspaceId::from_random([7; 8]);
        let lab = || "lab".parse().expect("a name");
        let spec = Spec { command: vec!["work".to_owned()], ..Spec::bare(workspace, lab()) };
        let record = Record {
            id: SandboxId::from_random([1; 8]),
            name: lab(),
            driver: "local".to_owned(),
            created_at: BEGIN,
            identity: Identity { hostname: "lab".to_owned(), session_key: "k".to_owned() },
            intent: Intent::first(spec, "uid:0".to_owned(), BEGIN),
            observed: Observation::not_yet(BEGIN),
            attempt: Attempt::default(),
            activity: Default::default(),
            revision: 1,
        };
        Self { record, live: Live::default(), now: BEGIN, decided: None, runs: 0, forgotten: false }
    }
}

type Printed = Vec<String>;

impl Stage {
    pub(crate) fn command(&mut self, line: &str) -> Result<Printed, String> {
        let words = Words::of(line);
        let printed = match words.plain(0) {
            "sandbox" => self.sandbox(&words)?,
            "stored" => self.stored(&words)?,
            "look" => self.look(&words)?,
            "look-fails" => self.look_fails(words.rest(1)),
            "session" => self.session(&words)?,
            "guards" => {
                let missing = words.rest(1);
                let missing = missing.split_whitespace().map(str::to_owned).collect();
                self.live.told.missing_guards = Some(missing);
                Vec::new()
            }
            "result" => self.result(&words)?,
            "workspace" => self.workspace(words.plain(1))?,
            "gateway" => self.gateway(words.plain(1))?,
            "asleep" => {
                self.record.activity.asleep_since = Some(self.now);
                Vec::new()
            }
            "after" => {
                self.now = self.now + duration(words.plain(1)).ok_or("a duration is missing")?;
                Vec::new()
            }
            "clock-back" => {
                self.now = self.now - duration(words.plain(1)).ok_or("a duration is missing")?;
                Vec::new()
            }
            "spec-changes" => {
                self.record.intent.generation += 1;
                self.record.intent.spec_generation = self.record.intent.generation;
                self.live.looked = false;
                Vec::new()
            }
            "verb" => self.verb(&words)?,
            "decide" => self.decide(),
            "fails" => self.fails(&words)?,
            "done" => self.done()?,
            "converge" => self.converge()?,
            "show" => print::view_with_age(&project(&self.record, &self.live, self.now), self.now),
            "conditions" => print::conditions(&project(&self.record, &self.live, self.now)),
            "counters" => vec![print::counters(&self.record)],
            "explain" => self.explain(),
            other => return Err(format!("{other:?} is no command")),
        };
        match check(&self.record) {
            None => Ok(printed),
            Some(rule) => Err(format!("the record is unsound: {rule}")),
        }
    }

    fn sandbox(&mut self, words: &Words<'_>) -> Result<Printed, String> {
        let spec = &mut self.record.intent.spec;
        if let Some(policy) = words.value("restart") {
            spec.restart = policy_of(policy)?;
        }
        if words.has("no-command") {
            spec.command.clear();
        }
        if words.has("limits") {
            spec.limits.pids = Some(100);
        }
        spec.remove_when_done = words.has("rm");
        spec.made_workspace = words.has("made-workspace");
        Ok(Vec::new())
    }

    /// Facts as an earlier gateway process left them.
    fn stored(&mut self, words: &Words<'_>) -> Result<Printed, String> {
        let old = self.now - std::time::Duration::from_secs(3600);
        let record = &mut self.record;
        if let Some(want) = words.value("want") {
            record.intent.want = match want {
                "running" => Want::Running,
                "stopped" => Want::Stopped,
                "deleted" => Want::Deleted,
                other => return Err(format!("want={other}?")),
            };
        }
        if let Some(generation) = words.number("generation") {
            record.intent.generation = generation;
        }
        if let Some(kind) = words.value("backing") {
            record.observed.backing = backing(kind, words)?;
            record.observed.since = old;
            record.observed.generation = Some(1);
        }
        if let Some(name) = words.value("run") {
            record.observed.backing_run = Some(name.to_owned());
            record.observed.incarnation = words.number("incarnation").unwrap_or(1);
            record.observed.incarnation_since = old;
        }
        if let Some((run, restart)) = words.execution("go") {
            let incarnation = record.observed.incarnation;
            record.attempt.go = Some(Go { run, restart, incarnation, at: old });
        }
        if words.value("operation") == Some("bring-up") {
            record.attempt.operation = Some(Operation::BringUp);
            record.attempt.generation = record.intent.generation;
            record.attempt.from_incarnation = record.observed.incarnation.saturating_sub(1);
        }
        if let Some(reason) = words.value("error") {
            let note = ErrorNote {
                stage: "start".to_owned(),
                reason: reason.to_owned(),
                message: "it did not start".to_owned(),
                at: old,
            };
            record.attempt.first_error = Some(note.clone());
            record.attempt.latest_error = Some(note);
            record.attempt.failure = Some(FailureKind::Transient);
            record.attempt.number = 3;
            record.attempt.next_try_at = Some(old + std::time::Duration::from_secs(4));
        }
        Ok(Vec::new())
    }

    fn look(&mut self, words: &Words<'_>) -> Result<Printed, String> {
        if words.plain(1).is_empty() {
            self.look_again();
            return Ok(Vec::new());
        }
        let report = BackingReport {
            backing: backing(words.plain(1), words)?,
            backing_run: words.value("run").map(str::to_owned),
            generation: words.number("generation").or(Some(self.record.intent.generation)),
            engine: Some("here".to_owned()),
            unenforced_limits: words.value("unenforced").map(str::to_owned).into_iter().collect(),
            workspace_replaced: false,
        };
        self.see(&report);
        Ok(Vec::new())
    }

    /// Nothing has changed; a backing that nobody ever saw is not there.
    fn look_again(&mut self) {
        let never = matches!(self.record.observed.backing, Backing::Unknown { .. });
        if never && self.live.look_error.is_none() {
            self.becomes(Backing::Absent, None, None);
        }
        self.live.looked = true;
        self.live.looked_before = true;
    }

    fn look_fails(&mut self, message: String) -> Printed {
        let why = UnknownWhy::EngineUnreachable;
        self.see(&BackingReport {
            backing: Backing::Unknown { why, message: message.clone() },
            backing_run: None,
            generation: None,
            engine: None,
            unenforced_limits: Vec::new(),
            workspace_replaced: false,
        });
        self.live.look_error = Some(message);
        Vec::new()
    }

    fn see(&mut self, report: &BackingReport) {
        self.record.observed = self.record.observe(report, self.now);
        self.live.looked = true;
        self.live.looked_before = true;
        self.live.look_error = None;
        if self.record.observed.backing.is_down()
            && matches!(self.live.session, Session::Connected { .. })
        {
            self.live.session = Session::Lost { since: self.now };
        }
    }

    fn session(&mut self, words: &Words<'_>) -> Result<Printed, String> {
        let ended =
            words.execution("ended").map(|(run, restart)| MainStatus::Ended { run, restart });
        let runs =
            words.execution("main").map(|(run, restart)| MainStatus::Running { run, restart });
        let connected = |probed_at| Session::Connected {
            incarnation: words.number("incarnation").unwrap_or(self.record.observed.incarnation),
            since: self.now,
            probed_at,
            main: ended.or(runs).unwrap_or_default(),
        };
        let kind = words.plain(1);
        if !matches!(kind, "result-waits" | "refused") {
            self.live.told.refused = None;
        }
        self.live.session = match kind {
            "refused" => {
                let message = words.rest(2);
                self.live.told.refused = Some(SessionRefused { message, since: self.now });
                return Ok(Vec::new());
            }
            "up" => connected(Some(self.now)),
            "unprobed" => connected(None),
            "result-waits" => {
                self.live.result_waiting = true;
                return Ok(Vec::new());
            }
            "lost" => Session::Lost { since: self.now },
            "none" => Session::None,
            other => return Err(format!("session {other}?")),
        };
        Ok(Vec::new())
    }

    fn result(&mut self, words: &Words<'_>) -> Result<Printed, String> {
        let (run, restart) = words.execution("of").ok_or("of=RUN/RESTART is missing")?;
        let result = RunResult {
            run,
            restart,
            incarnation: self.record.observed.incarnation,
            code: words.number("code").ok_or("code= is missing")?,
            signal: words.number("signal"),
            oom: words.has("oom"),
            finished_at: self.now,
            spawn_error: words.value("spawn-error").map(str::to_owned),
        };
        self.record.observed = self.record.hear(result, self.now);
        self.live.result_waiting = false;
        if let Session::Connected { main, .. } = &mut self.live.session
            && *main == (MainStatus::Running { run, restart })
        {
            *main = MainStatus::Ended { run, restart };
        }
        Ok(Vec::new())
    }

    fn workspace(&mut self, what: &str) -> Result<Printed, String> {
        let other = SandboxId::from_random([2; 8]);
        match what {
            "bound" => self.record.observed.workspace = WorkspaceSeen::Bound,
            "missing" => self.record.observed.workspace = WorkspaceSeen::Missing,
            "held" => self.live.workspace.held_by = Some(other),
            "free" => self.live.workspace.held_by = None,
            "forgotten" => self.live.workspace.forgotten = true,
            "shared" => self.live.workspace.shared = true,
            other => return Err(format!("workspace {other}?")),
        }
        Ok(Vec::new())
    }

    fn gateway(&mut self, what: &str) -> Result<Printed, String> {
        match what {
            "restarts" => {
                let workspace = self.live.workspace.clone();
                self.live = Live { workspace, listening_since: self.now, ..Live::default() };
            }
            "holds" => self.live.gateway_hold = true,
            "goes-on" => self.live.gateway_hold = false,
            "lacks-driver" => self.live.driver_missing = true,
            other => return Err(format!("gateway {other}?")),
        }
        Ok(Vec::new())
    }

    fn verb(&mut self, words: &Words<'_>) -> Result<Printed, String> {
        let asked = Asked { by: "uid:0".to_owned(), at: self.now };
        let options =
            DeleteOptions { discard_workspace: words.has("discard"), forget: words.has("forget") };
        let record = &self.record;
        let answer = match words.plain(1) {
            "start" => verb::start(record, &asked),
            "stop" => verb::stop(record, &asked),
            "restart" => verb::restart(record, &asked).map(Some),
            "delete" => Ok(verb::delete(record, options, &asked)),
            other => return Err(format!("verb {other}?")),
        };
        Ok(vec![match answer {
            Err(error @ VerbError::Deleting { kept_workspace: None, .. }) => {
                format!("refused: {error}; its workspace goes too")
            }
            Err(error) => format!("refused: {error}; its workspace stays"),
            Ok(None) => "asked for already".to_owned(),
            Ok(Some(intent)) => {
                self.live.looked = false;
                self.record.intent = intent;
                let intent = &self.record.intent;
                let (want, generation, run) = (intent.want, intent.generation, intent.run);
                format!("want={want:?} generation={generation} run={run}")
            }
        }])
    }

    fn decide(&mut self) -> Printed {
        let decision = decide(&self.record, &self.live, self.now);
        let line = print::decision(&decision, self.now);
        if let Some(attempt) = decision.attempt {
            self.record.attempt = attempt;
        }
        self.decided = decision.action;
        vec![line]
    }

    fn fails(&mut self, words: &Words<'_>) -> Result<Printed, String> {
        let action = self.decided.take().ok_or("nothing was decided")?;
        let kind = match words.plain(1) {
            "transient" => FailureKind::Transient,
            "outside" => FailureKind::Outside,
            "invalid" => FailureKind::Invalid,
            other => return Err(format!("fails {other}?")),
        };
        let note = ErrorNote {
            stage: action.stage().to_owned(),
            reason: words.plain(2).to_owned(),
            message: words.rest(3),
            at: self.now,
        };
        let record = &mut self.record;
        record.attempt = attempt::failed(&record.attempt, &record.id, note, kind, self.now);
        Ok(Vec::new())
    }

    fn done(&mut self) -> Result<Printed, String> {
        let action = self.decided.take().ok_or("nothing was decided")?;
        self.carry_out(&action);
        Ok(Vec::new())
    }

    /// Decide and do, looking in between, until nothing is left to do.
    fn converge(&mut self) -> Result<Printed, String> {
        let mut printed = Vec::new();
        for _ in 0..20 {
            self.look_again();
            printed.extend(self.decide());
            let Some(action) = self.decided.take() else {
                printed.extend(print::view(&project(&self.record, &self.live, self.now)));
                return Ok(printed);
            };
            self.carry_out(&action);
            if self.forgotten {
                return Ok(printed);
            }
        }
        Err(format!("it never comes to rest:\n{}", printed.join("\n")))
    }

    fn explain(&self) -> Printed {
        let explanation = explain(&self.record, &self.live, self.now);
        let mut lines =
            vec![format!("asked: {}", explanation.asked), format!("seen: {}", explanation.seen)];
        lines.extend(explanation.differs.iter().map(|line| format!("differs: {line}")));
        lines.push(format!("waited for: {}", explanation.waited_for));
        lines.push(format!("next: {}", explanation.next));
        lines.extend(explanation.choices.iter().map(|line| format!("choice: {line}")));
        lines
    }

    /// A backend and a supervisor that do as they are told, at once.
    fn carry_out(&mut self, action: &Action) {
        if let Some(attempt) = attempt::succeeded(&self.record.attempt, action) {
            self.record.attempt = attempt;
        }
        let generation = Some(self.record.intent.generation);
        let carried = self.record.observed.generation;
        match action {
            // What was lost stays lost, until the story brings it back.
            Action::EnsureWorkspace if self.record.observed.workspace == WorkspaceSeen::Missing => {
            }
            Action::EnsureWorkspace => self.record.observed.workspace = WorkspaceSeen::Bound,
            Action::Create => self.becomes(Backing::Idle, None, generation),
            Action::Start => {
                self.runs += 1;
                let name = format!("started-{}", self.runs);
                self.becomes(Backing::Running, Some(name), carried);
                self.connect(MainStatus::Waiting);
            }
            Action::Thaw => self.becomes(Backing::Running, None, carried),
            Action::Go { run, restart, .. } => {
                self.connect(MainStatus::Running { run: *run, restart: *restart });
            }
            Action::Stop { .. } | Action::Kill => {
                let ended = Backing::Exited { code: Some(143), oom: false, finished_at: None };
                self.becomes(ended, None, carried);
            }
            Action::Remove => self.becomes(Backing::Absent, None, None),
            Action::DiscardWorkspace => self.live.workspace.forgotten = true,
            Action::ForgetRecord => self.forgotten = true,
            Action::RequestDelete { discard_workspace } => {
                let options =
                    DeleteOptions { discard_workspace: *discard_workspace, forget: false };
                let asked = Asked { by: "sandkeep".to_owned(), at: self.now };
                if let Some(intent) = verb::delete(&self.record, options, &asked) {
                    self.record.intent = intent;
                }
            }
            Action::PullImage | Action::Freeze => {}
        }
    }

    fn becomes(&mut self, backing: Backing, run: Option<String>, generation: Option<u64>) {
        self.see(&BackingReport {
            backing,
            backing_run: run,
            generation,
            engine: Some("here".to_owned()),
            unenforced_limits: Vec::new(),
            workspace_replaced: false,
        });
    }

    fn connect(&mut self, main: MainStatus) {
        self.live.session = Session::Connected {
            incarnation: self.record.observed.incarnation,
            since: self.now,
            probed_at: Some(self.now),
            main,
        };
    }
}

fn policy_of(text: &str) -> Result<RestartPolicy, String> {
    Ok(match text {
        "never" => RestartPolicy::Never,
        "on-failure" => RestartPolicy::OnFailure,
        "always" => RestartPolicy::Always,
        other => return Err(format!("restart={other}?")),
    })
}

fn backing(kind: &str, words: &Words<'_>) -> Result<Backing, String> {
    Ok(match kind {
        "absent" => Backing::Absent,
        "idle" => Backing::Idle,
        "starting" => Backing::Starting,
        "running" => Backing::Running,
        "paused" => Backing::Paused,
        "stopping" => Backing::Stopping,
        "removing" => Backing::Removing,
        "exited" => {
            Backing::Exited { code: words.number("code"), oom: words.has("oom"), finished_at: None }
        }
        other => return Err(format!("backing {other}?")),
    })
}
