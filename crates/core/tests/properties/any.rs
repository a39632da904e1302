//! Any record, any live facts: also such as no gateway would make.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use sandkeep_core::{
    Activity, Attempt, Backing, BackingReport, ErrorNote, FailureKind, Go, Identity, Image, Intent,
    Limits, Live, MainStatus, Observation, Operation, Record, RestartPolicy, RunResult, SandboxId,
    Session, SessionNotes, Spec, Timestamp, UnknownWhy, Want, WorkspaceFacts, WorkspaceId,
    WorkspaceSeen,
};

/// Small numbers meet each other; the largest one breaks arithmetic.
pub(crate) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..5u64, 1 => Just(u64::MAX)]
}

fn restart() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..4u32, 1 => Just(u32::MAX)]
}

pub(crate) const NOW: u64 = 1_000_000_000;

/// Around now, where deadlines lie, and far away.
pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        10 => (NOW - 100_000..NOW + 100_000).prop_map(Timestamp::from_millis),
        1 => Just(Timestamp::EPOCH),
        1 => Just(Timestamp::from_millis(u64::MAX)),
    ]
}

fn why() -> impl Strategy<Value = UnknownWhy> {
    prop_oneof![
        Just(UnknownWhy::NotYetObserved),
        Just(UnknownWhy::EngineUnreachable),
        Just(UnknownWhy::OtherEngine),
        Just(UnknownWhy::Unintelligible),
    ]
}

pub(crate) fn backing() -> BoxedStrategy<Backing> {
    let exited = (option::of(any::<i32>()), any::<bool>(), option::of(time()))
        .prop_map(|(code, oom, finished_at)| Backing::Exited { code, oom, finished_at });
    prop_oneof![
        1 => why().prop_map(|why| Backing::Unknown { why, message: "no answer".to_owned() }),
        1 => Just(Backing::Absent),
        1 => Just(Backing::Idle),
        1 => Just(Backing::Starting),
        5 => Just(Backing::Running),
        1 => Just(Backing::Paused),
        1 => Just(Backing::Stopping),
        3 => exited,
        1 => Just(Backing::Removing),
    ]
    .boxed()
}

fn run_name() -> impl Strategy<Value = Option<String>> {
    option::of((0..3u8).prop_map(|number| format!("run-{number}")))
}

pub(crate) fn report() -> BoxedStrategy<BackingReport> {
    let limits = vec(Just("pids".to_owned()), 0..2);
    let engine = option::of(Just("engine".to_owned()));
    (backing(), run_name(), option::of(number()), engine, limits)
        .prop_map(|(backing, backing_run, generation, engine, unenforced_limits)| BackingReport {
            backing,
            backing_run,
            generation,
            engine,
            unenforced_limits,
            workspace_replaced: false,
        })
        .boxed()
}

pub(crate) fn result() -> BoxedStrategy<RunResult> {
    (number(), restart(), number(), prop_oneof![Just(0), any::<i32>()], time())
        .prop_map(|(run, restart, incarnation, code, finished_at)| RunResult {
            run,
            restart,
            incarnation,
            code,
            signal: (code > 128).then(|| code - 128),
            oom: code == 137,
            finished_at,
            spawn_error: (code == 127).then(|| "not found".to_owned()),
        })
        .boxed()
}

fn seen() -> impl Strategy<Value = WorkspaceSeen> {
    prop_oneof![
        1 => Just(WorkspaceSeen::NotYet),
        4 => Just(WorkspaceSeen::Bound),
        1 => Just(WorkspaceSeen::Missing)
    ]
}

fn observation() -> BoxedStrategy<Observation> {
    let runs = (run_name(), run_name(), number());
    let times = (time(), time(), time());
    let rest = (option::of(number()), seen(), option::of(result()), number());
    (backing(), runs, times, rest)
        .prop_map(
            |(
                backing,
                (backing_run, previous_backing_run, incarnation),
                (incarnation_since, since, result_at),
                (generation, workspace, result, restarts),
            )| Observation {
                backing,
                backing_run,
                previous_backing_run,
                incarnation,
                incarnation_since,
                since,
                generation,
                engine: None,
                workspace,
                result,
                result_at,
                unenforced_limits: Vec::new(),
                workspace_replaced: false,
                restarts,
            },
        )
        .boxed()
}

fn note() -> impl Strategy<Value = ErrorNote> {
    time().prop_map(|at| ErrorNote {
        stage: "start".to_owned(),
        reason: "Broken".to_owned(),
        message: "it broke".to_owned(),
        at,
    })
}

fn go() -> impl Strategy<Value = Go> {
    (number(), restart(), number(), time()).prop_map(|(run, restart, incarnation, at)| Go {
        run,
        incarnation,
        restart,
        at,
    })
}

fn attempt() -> BoxedStrategy<Attempt> {
    let operation = option::of(prop_oneof![
        Just(Operation::BringUp),
        Just(Operation::TakeDown),
        Just(Operation::Remove)
    ]);
    let failure = option::of(prop_oneof![
        Just(FailureKind::Transient),
        Just(FailureKind::Outside),
        Just(FailureKind::Invalid)
    ]);
    let count = (number(), restart(), time(), option::of(time()));
    let errors = (option::of(note()), failure, option::of(go()));
    let rest = (number(), any::<bool>(), number(), any::<(bool, bool)>());
    (operation, count, errors, rest)
        .prop_map(
            |(
                operation,
                (generation, number, started_at, next_try_at),
                (error, failure, go),
                (from_incarnation, heals_loss, reached, (removed, seeks_workspace)),
            )| Attempt {
                operation,
                generation,
                number,
                started_at,
                next_try_at,
                first_error: error.clone(),
                latest_error: error,
                go,
                failure,
                from_incarnation,
                heals_loss,
                reached,
                removed,
                seeks_workspace,
            },
        )
        .boxed()
}

fn spec() -> BoxedStrategy<Spec> {
    let policy = prop_oneof![
        Just(RestartPolicy::Never),
        Just(RestartPolicy::OnFailure),
        Just(RestartPolicy::Always)
    ];
    let flags = any::<[bool; 4]>();
    let grace = prop_oneof![Just(10_000u64), Just(0), Just(u64::MAX)];
    (policy, flags, grace)
        .prop_map(|(restart, [command, rm, made, limited], grace)| Spec {
            image: Image::Host,
            command: if command { vec!["work".to_owned()] } else { Vec::new() },
            env: Default::default(),
            user: None,
            workdir: None,
            workspace: WorkspaceId::from_random([1; 8]),
            workspace_name: "lab".parse().expect("a name"),
            limits: Limits { pids: limited.then_some(10), ..Limits::default() },
            restart,
            labels: Default::default(),
            mounts: Vec::new(),
            tools: Vec::new(),
            privileges: Vec::new(),
            unenforced: false,
            remove_when_done: rm,
            made_workspace: made,
            tty: false,
            stdin: false,
            attach: false,
            stop_grace_ms: grace,
        })
        .boxed()
}

fn intent() -> BoxedStrategy<Intent> {
    let want =
        prop_oneof![3 => Just(Want::Running), 1 => Just(Want::Stopped), 1 => Just(Want::Deleted)];
    let counts = (number(), number(), number(), number());
    let flags = (any::<bool>(), any::<bool>());
    (want, spec(), counts, flags, time())
        .prop_map(|(want, spec, (generation, run, fresh_after, spec_generation), flags, at)| {
            Intent {
                want,
                generation,
                run,
                fresh_after,
                spec_generation,
                discard_workspace: flags.0,
                forget: flags.1,
                ..Intent::first(spec, "uid:0".to_owned(), at)
            }
        })
        .boxed()
}

pub(crate) fn record() -> BoxedStrategy<Record> {
    let asleep = option::weighted(0.2, time());
    (intent(), observation(), attempt(), asleep)
        .prop_map(|(intent, observed, attempt, asleep_since)| Record {
            id: SandboxId::from_random([3; 8]),
            name: "lab".parse().expect("a name"),
            driver: "local".to_owned(),
            created_at: Timestamp::EPOCH,
            identity: Identity { hostname: "lab".to_owned(), session_key: "k".to_owned() },
            intent,
            observed,
            attempt,
            activity: Activity { asleep_since, ..Activity::default() },
            revision: 1,
        })
        .boxed()
}

/// The nearest record that a gateway could have made.
pub(crate) fn sound(mut record: Record) -> Record {
    let observed = &mut record.observed;
    observed.incarnation = observed.incarnation.min(5);
    let seen = observed.incarnation;
    if seen == 0 {
        observed.backing_run = None;
    } else if observed.backing_run.is_none() {
        observed.backing_run = Some("run-9".to_owned());
    }
    if observed.previous_backing_run == observed.backing_run || seen == 0 {
        observed.previous_backing_run = None;
    }
    observed.restarts = observed.restarts.min(seen);
    let intent = &mut record.intent;
    intent.generation = intent.generation.clamp(1, 9);
    intent.run = intent.run.clamp(1, intent.generation);
    intent.spec_generation = intent.spec_generation.min(intent.generation);
    intent.fresh_after = intent.fresh_after.min(seen);
    let attempt = &mut record.attempt;
    attempt.generation = attempt.generation.min(intent.generation);
    attempt.from_incarnation = attempt.from_incarnation.min(seen);
    attempt.reached = attempt.reached.min(seen);
    if attempt.latest_error.is_none() {
        attempt.failure = None;
    }
    if let Some(go) = &mut attempt.go {
        go.run = go.run.clamp(1, intent.run);
        go.incarnation = go.incarnation.min(seen);
    }
    let ordered = attempt.go.map(|go| (go.run, go.restart));
    if observed.result.as_ref().map(|result| (result.run, result.restart)) > ordered {
        observed.result = None;
    }
    record
}

fn main_status() -> impl Strategy<Value = MainStatus> {
    prop_oneof![
        Just(MainStatus::Waiting),
        (number(), restart()).prop_map(|(run, restart)| MainStatus::Running { run, restart }),
        (number(), restart()).prop_map(|(run, restart)| MainStatus::Ended { run, restart }),
    ]
}

fn session() -> BoxedStrategy<Session> {
    let connected = (number(), time(), option::weighted(0.8, time()), main_status()).prop_map(
        |(incarnation, since, probed_at, main)| Session::Connected {
            incarnation,
            since,
            probed_at,
            main,
        },
    );
    prop_oneof![
        1 => Just(Session::None),
        1 => time().prop_map(|since| Session::Lost { since }),
        3 => connected,
    ]
    .boxed()
}

pub(crate) fn live() -> BoxedStrategy<Live> {
    let looks =
        (prop::bool::weighted(0.9), any::<bool>(), option::weighted(0.1, Just("no".to_owned())));
    let workspace = (prop::bool::weighted(0.1), any::<bool>(), prop::bool::weighted(0.1));
    let rare = (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (looks, session(), time(), workspace, rare)
        .prop_map(
            |(
                (looked, looked_before, look_error),
                session,
                listening_since,
                (held, shared, forgotten),
                (gateway_hold, driver_missing, result_waiting),
            )| Live {
                looked,
                looked_before,
                look_error,
                session,
                told: SessionNotes::default(),
                listening_since,
                result_waiting,
                workspace: WorkspaceFacts {
                    held_by: held.then(|| SandboxId::from_random([4; 8])),
                    marked: true,
                    shared,
                    forgotten,
                },
                gateway_hold,
                driver_missing,
                acting: None,
            },
        )
        .boxed()
}
