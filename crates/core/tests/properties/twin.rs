//! A dumb twin of `decide`: a flat table for a sandbox that nothing ever went wrong with, walked
//! whole. It shares no code with the real one.

use sandkeep_core::verb::{self, Asked};
use sandkeep_core::{
    Action, Attempt, Backing, Go, Live, MainStatus, Operation, Record, Session, Timestamp, Want,
    WorkspaceSeen, decide,
};

use proptest::strategy::{Strategy, ValueTree};

const NOW: Timestamp = Timestamp::from_millis(super::any::NOW);

fn backings() -> [Backing; 8] {
    [
        Backing::Absent,
        Backing::Idle,
        Backing::Starting,
        Backing::Running,
        Backing::Paused,
        Backing::Stopping,
        Backing::Exited { code: Some(143), oom: false, finished_at: None },
        Backing::Removing,
    ]
}

/// A sandbox whose tries all went well, in incarnation 1 (none yet when it was never started).
pub(crate) fn calm(want: Want, backing: Backing, workspace: WorkspaceSeen, go: bool) -> Record {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut record = super::any::record().new_tree(&mut runner).expect("a record").current();
    record.activity.asleep_since = None;
    let intent = &mut record.intent;
    (intent.want, intent.generation, intent.run) = (want, 1, 1);
    (intent.fresh_after, intent.spec_generation) = (0, 1);
    (intent.discard_workspace, intent.forget) = (false, false);
    intent.spec.command = vec!["work".to_owned()];
    intent.spec.restart = sandkeep_core::RestartPolicy::OnFailure;
    intent.spec.remove_when_done = false;
    intent.spec.stop_grace_ms = 10_000;
    let observed = &mut record.observed;
    *observed = sandkeep_core::Observation::not_yet(NOW);
    observed.backing = backing;
    observed.workspace = workspace;
    observed.backing_run = Some("a".to_owned());
    observed.incarnation = 1;
    observed.incarnation_since = NOW;
    observed.generation = (observed.backing != Backing::Absent).then_some(1);
    record.attempt = Attempt {
        operation: Some(Operation::BringUp),
        generation: 1,
        go: go.then_some(Go { run: 1, incarnation: 1, restart: 0, at: NOW }),
        ..Attempt::default()
    };
    record
}

fn expected(want: Want, backing: &Backing, bound: bool, go: bool, session: bool) -> Option<Action> {
    let grace = std::time::Duration::from_secs(10);
    match (want, backing) {
        (Want::Running, Backing::Absent | Backing::Idle | Backing::Exited { .. }) if !bound => {
            Some(Action::EnsureWorkspace)
        }
        (Want::Running, Backing::Absent) => Some(Action::Create),
        (Want::Running, Backing::Idle | Backing::Exited { .. }) => Some(Action::Start),
        (Want::Running, Backing::Paused) => Some(Action::Thaw),
        (Want::Running, Backing::Running) if session && !go => {
            Some(Action::Go { run: 1, restart: 0, incarnation: 1 })
        }
        (Want::Running, _) => None,
        (Want::Stopped, Backing::Starting | Backing::Running | Backing::Paused) => {
            Some(Action::Stop { grace })
        }
        (Want::Stopped, _) => None,
        (Want::Deleted, Backing::Starting | Backing::Running | Backing::Paused) => {
            Some(Action::Stop { grace })
        }
        (Want::Deleted, Backing::Stopping) => None,
        (Want::Deleted, _) => Some(Action::Remove),
    }
}

#[test]
fn a_dumb_twin_agrees_when_nothing_went_wrong() {
    for want in [Want::Running, Want::Stopped, Want::Deleted] {
        for backing in backings() {
            for (bound, go, session) in
                (0..8).map(|bits| (bits & 1 == 1, bits & 2 == 2, bits & 4 == 4))
            {
                let workspace = if bound { WorkspaceSeen::Bound } else { WorkspaceSeen::NotYet };
                let record = calm(want, backing.clone(), workspace, go);
                let main = MainStatus::Running { run: 1, restart: 0 };
                let connected = Session::Connected {
                    incarnation: 1,
                    since: NOW,
                    probed_at: Some(NOW),
                    main: if go { main } else { MainStatus::Waiting },
                };
                let session_fact = if session { connected } else { Session::None };
                let live = Live { looked: true, session: session_fact, ..Live::default() };
                let expected = expected(want, &backing, bound, go, session);
                let action = decide(&record, &live, NOW).action;
                assert_eq!(action, expected, "{want:?} {backing:?} {bound} {go} {session}");
            }
        }
    }
}

/// Every verb leads on from every state: the next look is followed by the step that the verb
/// needs, or by none because it is met.
#[test]
fn every_verb_leads_on_from_every_backing() {
    for want in [Want::Running, Want::Stopped] {
        for backing in backings() {
            // Without an order: no run that could be over.
            let record = calm(want, backing.clone(), WorkspaceSeen::Bound, false);
            let asked = Asked { by: "uid:0".to_owned(), at: NOW };
            let live = Live { looked: true, ..Live::default() };
            let after = |intent: Option<_>| {
                let intent = intent.unwrap_or_else(|| record.intent.clone());
                decide(&Record { intent, ..record.clone() }, &live, NOW)
            };
            let started = after(verb::start(&record, &asked).expect("it is answered"));
            let stopped = after(verb::stop(&record, &asked).expect("it is answered"));
            // Nothing failed and nothing is waited for: what is asked for already stays as it is.
            let same = if want == Want::Running { verb::start } else { verb::stop };
            assert_eq!(same(&record, &asked), Ok(None), "{want:?} {backing:?}");
            let restarted = after(Some(verb::restart(&record, &asked).expect("it is answered")));
            let deleted = after(verb::delete(&record, Default::default(), &asked));
            let up = matches!(backing, Backing::Starting | Backing::Running | Backing::Paused);
            let down = matches!(backing, Backing::Absent | Backing::Idle | Backing::Exited { .. });
            assert_eq!(matches!(stopped.action, Some(Action::Stop { .. })), up, "{backing:?}");
            assert_eq!(
                matches!(started.action, Some(Action::Create | Action::Start)),
                down,
                "{backing:?}"
            );
            if backing == Backing::Running {
                assert!(matches!(restarted.action, Some(Action::Stop { .. })));
            }
            // What is on its way is waited for, with a time to ask again.
            for decision in [&started, &stopped, &restarted, &deleted] {
                let met = decision.waits_for == Some(sandkeep_core::WaitsFor::User);
                let leads_on = decision.action.is_some() || decision.wake_at.is_some() || met;
                assert!(leads_on, "{backing:?} {decision:?}");
            }
        }
    }
}
