//! What becomes of an attempt after an action: failed, done, or done without effect.

use sandkeep_core::attempt::{failed, succeeded, without_effect};
use sandkeep_core::{Action, Attempt, ErrorNote, FailureKind, SandboxId, Timestamp, backoff};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn id() -> SandboxId {
    SandboxId::from_random([5; 8])
}

fn note(stage: &str, reason: &str) -> ErrorNote {
    ErrorNote {
        stage: stage.to_owned(),
        reason: reason.to_owned(),
        message: "it broke".to_owned(),
        at: NOW,
    }
}

#[test]
fn a_failure_is_counted_kept_and_waited_for() {
    let once =
        failed(&Attempt::default(), &id(), note("create", "First"), FailureKind::Transient, NOW);
    assert_eq!(once.number, 1);
    assert_eq!(once.next_try_at, Some(NOW + backoff::wait_before(&id(), 1)));
    let twice = failed(&once, &id(), note("start", "Second"), FailureKind::Outside, NOW);
    assert_eq!(twice.number, 2);
    assert_eq!(twice.next_try_at, Some(NOW + backoff::wait_before(&id(), 2)));
    assert_eq!(twice.first_error, Some(note("create", "First")));
    assert_eq!(twice.latest_error, Some(note("start", "Second")));
    assert_eq!(twice.failure, Some(FailureKind::Outside));
}

#[test]
fn only_making_and_starting_can_be_hopeless() {
    for (stage, kind) in [
        ("workspace", FailureKind::Invalid),
        ("pull", FailureKind::Invalid),
        ("create", FailureKind::Invalid),
        ("start", FailureKind::Invalid),
        ("stop", FailureKind::Transient),
        ("kill", FailureKind::Transient),
        ("thaw", FailureKind::Transient),
        ("session", FailureKind::Transient),
    ] {
        let after =
            failed(&Attempt::default(), &id(), note(stage, "No"), FailureKind::Invalid, NOW);
        assert_eq!(after.failure, Some(kind), "{stage}");
    }
    let outside = failed(&Attempt::default(), &id(), note("stop", "No"), FailureKind::Outside, NOW);
    assert_eq!(outside.failure, Some(FailureKind::Outside), "only hopelessness is doubted");
}

#[test]
fn success_is_stored_where_it_is_needed_and_once() {
    let removed = succeeded(&Attempt::default(), &Action::Remove).expect("a removal is stored");
    assert!(removed.removed);
    assert_eq!(succeeded(&removed, &Action::Remove), None);
    let seeking = Attempt { seeks_workspace: true, ..Attempt::default() };
    let sought = succeeded(&seeking, &Action::EnsureWorkspace).expect("the search is over");
    assert!(!sought.seeks_workspace);
    for action in [Action::EnsureWorkspace, Action::Create, Action::Start, Action::Kill] {
        assert_eq!(succeeded(&Attempt::default(), &action), None, "{action:?}");
    }
    assert_eq!(succeeded(&seeking, &Action::Start), None);
}

#[test]
fn an_action_without_effect_is_a_failure() {
    let before = Attempt { number: 4, generation: 7, ..Attempt::default() };
    let after = without_effect(&before, &id(), &Action::Start, NOW);
    assert_eq!((after.number, after.generation), (5, 7));
    assert_eq!(after.failure, Some(FailureKind::Transient));
    let error = after.latest_error.expect("an error");
    assert_eq!((error.stage.as_str(), error.reason.as_str()), ("start", "NoEffect"));
    assert!(error.message.contains("start") && error.at == NOW);
}

#[test]
fn every_action_names_its_step() {
    use std::time::Duration;
    let steps = [
        (Action::EnsureWorkspace, "workspace"),
        (Action::PullImage, "pull"),
        (Action::Create, "create"),
        (Action::Start, "start"),
        (Action::Go { run: 1, restart: 0, incarnation: 1 }, "session"),
        (Action::Stop { grace: Duration::ZERO }, "stop"),
        (Action::Kill, "kill"),
        (Action::Freeze, "freeze"),
        (Action::Thaw, "thaw"),
        (Action::Remove, "remove"),
        (Action::DiscardWorkspace, "discard"),
        (Action::ForgetRecord, "forget"),
        (Action::RequestDelete { discard_workspace: true }, "delete"),
    ];
    for (action, step) in steps {
        assert_eq!(action.stage(), step);
    }
}
