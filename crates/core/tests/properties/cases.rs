//! Single cases that random walks meet too rarely.

use sandkeep_core::{
    Action, Backing, ConditionType, ErrorNote, FailureKind, Live, MainStatus, Operation, Record,
    Session, Status, Timestamp, UnknownWhy, Want, WorkspaceSeen, decide,
};

use super::twin::calm;

const NOW: Timestamp = Timestamp::from_millis(super::any::NOW);
const LONG_AGO: Timestamp = Timestamp::from_millis(super::any::NOW - 90_000);

fn connected(main: MainStatus) -> Live {
    let session = Session::Connected { incarnation: 1, since: NOW, probed_at: Some(NOW), main };
    Live { looked: true, session, ..Live::default() }
}

fn after_a_failed_try(go: bool) -> Record {
    let mut record = calm(Want::Running, Backing::Running, WorkspaceSeen::Bound, go);
    let note = ErrorNote {
        stage: "session".to_owned(),
        reason: "Broken".to_owned(),
        message: String::new(),
        at: LONG_AGO,
    };
    let attempt = &mut record.attempt;
    (attempt.number, attempt.next_try_at) = (2, Some(LONG_AGO));
    (attempt.first_error, attempt.latest_error) = (Some(note.clone()), Some(note));
    attempt.failure = Some(FailureKind::Transient);
    record.observed.incarnation_since = LONG_AGO;
    if let Some(go) = &mut record.attempt.go {
        go.at = LONG_AGO;
    }
    record
}

#[test]
fn an_order_ends_the_wait_and_the_errors_and_keeps_the_count() {
    let record = after_a_failed_try(false);
    let ordered = decide(&record, &connected(MainStatus::Waiting), NOW).attempt;
    let ordered = ordered.expect("the order is stored");
    assert_eq!((ordered.number, ordered.next_try_at, ordered.failure), (2, None, None));
    assert_eq!((ordered.first_error, ordered.latest_error), (None, None));
}

#[test]
fn a_steady_minute_forgets_the_whole_try() {
    let record = after_a_failed_try(true);
    let main = MainStatus::Running { run: 1, restart: 0 };
    let steady = decide(&record, &connected(main), NOW).attempt.expect("it is stored once");
    assert_eq!((steady.number, steady.next_try_at, steady.failure), (0, None, None));
    assert_eq!((steady.first_error, steady.latest_error), (None, None));
    assert_eq!(steady.go, record.attempt.go);
}

/// A gateway may keep the last view while its engine is away: nothing is claimed from it.
#[test]
fn a_view_that_was_kept_while_the_engine_is_away_is_not_known() {
    let record = calm(Want::Running, Backing::Running, WorkspaceSeen::Bound, true);
    let main = MainStatus::Running { run: 1, restart: 0 };
    let status = |live: &Live| {
        let view = sandkeep_core::project(&record, live, NOW);
        let backed = view.conditions.iter().find(|one| one.kind == ConditionType::Backed);
        backed.map(|one| (one.status, one.reason.clone()))
    };
    let live = connected(main);
    assert_eq!(status(&live), Some((Status::True, "BackingRunning".to_owned())));
    let away = Live { look_error: Some("no".to_owned()), ..live };
    assert_eq!(status(&away), Some((Status::Unknown, "EngineUnreachable".to_owned())));
}

/// Each reason to give up on the engine is enough by itself, and without one it is asked.
#[test]
fn forgetting_needs_one_reason() {
    let mut record = calm(Want::Deleted, Backing::Running, WorkspaceSeen::Bound, true);
    record.intent.forget = true;
    let live = Live { looked: true, ..Live::default() };
    let forgets = |record: &Record, live: &Live| {
        decide(record, live, NOW).action == Some(Action::ForgetRecord)
    };
    assert!(!forgets(&record, &live), "the engine is asked first");
    assert!(!forgets(&record, &Live::default()), "it is looked at first");
    assert!(forgets(&record, &Live { driver_missing: true, ..live.clone() }));
    assert!(forgets(&record, &Live { look_error: Some("no".to_owned()), ..live.clone() }));
    let mut unknown = record.clone();
    unknown.observed.backing =
        Backing::Unknown { why: UnknownWhy::OtherEngine, message: String::new() };
    assert!(forgets(&unknown, &live));
    let mut refused = record.clone();
    refused.attempt.operation = Some(Operation::Remove);
    refused.attempt.failure = Some(FailureKind::Transient);
    assert!(forgets(&refused, &live));
    let mut newer = record.clone();
    newer.observed.generation = Some(2);
    assert!(forgets(&newer, &live));
    for mut kept in [unknown, refused, newer] {
        kept.intent.forget = false;
        assert!(!forgets(&kept, &live), "nobody asked to forget it");
    }
}

/// What happens next while a stop, a deletion or a start waits: the next look, the end of its grace
/// or the next try.
#[test]
fn what_is_waited_for_on_the_way_is_told_apart() {
    const LOOK: &str = "the gateway looks at it";
    const FORCE: &str = "past its grace it is ended by force";
    const AGAIN: &str = "it is tried again";
    const RESTART: &str = "past its deadline it is killed and started again";
    let next = |want, backing: Backing, looked, waits: bool| {
        let mut record = calm(want, backing, WorkspaceSeen::Bound, false);
        if waits {
            let operation =
                if want == Want::Stopped { Operation::TakeDown } else { Operation::Remove };
            record.attempt.operation = Some(operation);
            record.attempt.next_try_at = Some(NOW + std::time::Duration::from_secs(1));
        }
        let live = Live { looked, looked_before: true, ..Live::default() };
        sandkeep_core::project(&record, &live, NOW).next
    };
    for want in [Want::Stopped, Want::Deleted] {
        assert_eq!(next(want, Backing::Stopping, true, false), FORCE, "{want:?}");
        for backing in [Backing::Running, Backing::Stopping] {
            assert_eq!(next(want, backing, false, false), LOOK, "{want:?}");
        }
        assert_eq!(next(want, Backing::Running, true, true), AGAIN, "{want:?}");
    }
    assert_eq!(next(Want::Running, Backing::Starting, true, false), RESTART);
    assert_eq!(next(Want::Running, Backing::Starting, false, false), LOOK);
    assert_eq!(next(Want::Running, Backing::Running, true, false), RESTART);
}
