//! Since when: each reason counts from its own fact, and every fact here has a time of its own.

use sandkeep_core::{
    Backing, ErrorNote, FailureKind, Live, MainStatus, Record, RestartPolicy, RunResult, Session,
    Timestamp, UnknownWhy, Want, WorkspaceSeen, project,
};

use super::twin::calm;

const NOW: Timestamp = Timestamp::from_millis(super::any::NOW);

/// The n-th moment before now; all of them within a second.
const fn at(moment: u64) -> Timestamp {
    Timestamp::from_millis(super::any::NOW - 1000 + moment)
}

const ASKED: Timestamp = at(10);
const SEEN: Timestamp = at(20);
const CAME_UP: Timestamp = at(30);
const ORDERED: Timestamp = at(40);
const ENDED: Timestamp = at(50);
const FAILED: Timestamp = at(60);

fn record(want: Want, backing: Backing) -> Record {
    let mut record = calm(want, backing, WorkspaceSeen::Bound, true);
    record.intent.at = ASKED;
    record.observed.since = SEEN;
    record.observed.incarnation_since = CAME_UP;
    if let Some(go) = &mut record.attempt.go {
        go.at = ORDERED;
    }
    record
}

fn connected() -> Live {
    let main = MainStatus::Running { run: 1, restart: 0 };
    let session = Session::Connected { incarnation: 1, since: NOW, probed_at: Some(NOW), main };
    Live { looked: true, session, ..Live::default() }
}

#[track_caller]
fn check(record: &Record, live: &Live, reason: &str, since: Timestamp) {
    let view = project(record, live, NOW);
    assert_eq!((view.reason.as_str(), view.since), (reason, since));
}

#[test]
fn up_counts_from_the_order_or_from_the_incarnation_if_that_came_later() {
    let mut record = record(Want::Running, Backing::Running);
    check(&record, &connected(), "Ready", ORDERED);
    record.observed.incarnation_since = at(45);
    check(&record, &connected(), "Ready", at(45));
    // An order to an earlier incarnation says nothing of this one.
    record.intent.spec.restart = RestartPolicy::Never;
    record.observed.incarnation = 2;
    record.observed.incarnation_since = CAME_UP;
    let main = MainStatus::Waiting;
    let session = Session::Connected { incarnation: 2, since: NOW, probed_at: Some(NOW), main };
    check(&record, &Live { session, ..connected() }, "RunLost", CAME_UP);
}

#[test]
fn an_end_counts_from_when_it_was_heard_of() {
    let mut record = record(Want::Running, Backing::Running);
    record.observed.result_at = ENDED;
    let ended = |code| RunResult {
        run: 1,
        restart: 0,
        incarnation: 1,
        code,
        signal: None,
        oom: false,
        finished_at: Timestamp::EPOCH,
        spawn_error: None,
    };
    record.observed.result = Some(ended(0));
    check(&record, &connected(), "CommandCompleted", ENDED);
    record.observed.result = Some(ended(3));
    check(&record, &connected(), "CommandRestarting", ENDED);
    record.observed.incarnation_since = at(55);
    check(&record, &connected(), "CommandRestarting", at(55));
    record.intent.spec.restart = RestartPolicy::Never;
    check(&record, &connected(), "CommandFailed", ENDED);
}

#[test]
fn a_lost_session_counts_from_its_loss_or_from_coming_up() {
    let record = record(Want::Running, Backing::Running);
    let live = Live { looked: true, ..Live::default() };
    let lost = Live { session: Session::Lost { since: at(70) }, ..live.clone() };
    check(&record, &lost, "SessionLost", at(70));
    check(&record, &live, "SessionLost", ORDERED);
}

#[test]
fn sleep_counts_from_its_beginning() {
    let mut record = record(Want::Running, Backing::Idle);
    record.activity.asleep_since = Some(at(15));
    check(&record, &connected(), "Sleeping", at(15));
}

#[test]
fn a_failure_counts_from_the_first_error_of_this_wish() {
    let mut record = record(Want::Running, Backing::Idle);
    let mut note = ErrorNote {
        stage: "start".to_owned(),
        reason: "Broken".to_owned(),
        message: String::new(),
        at: FAILED,
    };
    record.attempt.number = 1;
    record.attempt.from_incarnation = 1;
    record.attempt.failure = Some(FailureKind::Transient);
    record.attempt.next_try_at = Some(NOW + std::time::Duration::from_secs(1));
    record.attempt.latest_error = Some(note.clone());
    record.attempt.first_error = Some(note.clone());
    check(&record, &connected(), "Broken", FAILED);
    note.at = at(5);
    record.attempt.first_error = Some(note);
    check(&record, &connected(), "Broken", ASKED);
}

#[test]
fn what_was_asked_for_counts_from_then_and_what_was_seen_from_when_it_was_seen() {
    let removing = record(Want::Deleted, Backing::Removing);
    check(&removing, &connected(), "Deleting", ASKED);
    let why = UnknownWhy::EngineUnreachable;
    let mut unseen = record(Want::Running, Backing::Unknown { why, message: "away".to_owned() });
    unseen.intent.at = at(25);
    check(&unseen, &connected(), "EngineUnreachable", SEEN);
    let mut stopped = record(Want::Stopped, Backing::Idle);
    check(&stopped, &connected(), "Stopped", SEEN);
    stopped.intent.at = at(25);
    check(&stopped, &connected(), "Stopped", at(25));
}
