//! Each invariant of `check` is broken once, and named.

use proptest::strategy::{Strategy, ValueTree};
use sandkeep_core::check::check;
use sandkeep_core::{
    Attempt, ErrorNote, FailureKind, Go, Observation, Record, RunResult, Timestamp,
};

/// Generation 3, run 2, incarnation 2, everything in order and each bound reached.
fn sound() -> Record {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut record = super::any::record().new_tree(&mut runner).expect("a record").current();
    let now = Timestamp::from_millis(super::any::NOW);
    let intent = &mut record.intent;
    (intent.generation, intent.run) = (3, 2);
    (intent.fresh_after, intent.spec_generation) = (2, 3);
    record.observed = Observation::not_yet(now);
    let observed = &mut record.observed;
    (observed.incarnation, observed.restarts) = (2, 2);
    observed.backing_run = Some("b".to_owned());
    observed.previous_backing_run = Some("a".to_owned());
    observed.result = Some(result(2, 1));
    let note = ErrorNote {
        stage: "start".to_owned(),
        reason: "Broken".to_owned(),
        message: String::new(),
        at: now,
    };
    record.attempt = Attempt {
        generation: 3,
        first_error: Some(note.clone()),
        latest_error: Some(note),
        failure: Some(FailureKind::Transient),
        go: Some(Go { run: 2, incarnation: 2, restart: 1, at: now }),
        reached: 2,
        from_incarnation: 2,
        ..Attempt::default()
    };
    record
}

fn result(run: u64, restart: u32) -> RunResult {
    RunResult {
        run,
        restart,
        incarnation: 2,
        code: 0,
        signal: None,
        oom: false,
        finished_at: Timestamp::EPOCH,
        spawn_error: None,
    }
}

type Break = fn(&mut Record);

#[test]
fn each_invariant_is_named_when_it_is_broken() {
    assert_eq!(check(&sound()), None);
    let breaks: [(&str, Break); 17] = [
        ("generations start at 1", |record| record.intent.generation = 0),
        ("runs start at 1", |record| record.intent.run = 0),
        ("each run is a change of intent", |record| record.intent.run = 4),
        ("the spec changed at a past generation", |record| record.intent.spec_generation = 4),
        ("a fresh backing is one above", |record| record.intent.fresh_after = 3),
        ("an incarnation is a named run", |record| record.observed.backing_run = None),
        ("an incarnation is a named run", |record| {
            record.observed.incarnation = 0;
            record.observed.restarts = 0;
            record.intent.fresh_after = 0;
        }),
        ("two runs of a backing have two names", |record| {
            record.observed.previous_backing_run = Some("b".to_owned());
        }),
        ("each healed loss is an incarnation", |record| record.observed.restarts = 3),
        ("a result belongs to an order", |record| record.observed.result = Some(result(2, 2))),
        ("a result belongs to an order", |record| record.attempt.go = None),
        ("nothing is tried for an intent that is not there", |record| {
            record.attempt.generation = 4;
        }),
        ("a latest error has a first one", |record| record.attempt.first_error = None),
        ("a failed try has an error", |record| {
            record.attempt.first_error = None;
            record.attempt.latest_error = None;
        }),
        ("no run is ordered that was not asked for", |record| record.intent.run = 1),
        ("orders go to incarnations that were seen", |record| {
            record.attempt.go =
                Some(Go { run: 2, incarnation: 3, restart: 1, at: Timestamp::EPOCH });
        }),
        ("only incarnations that were seen are reached", |record| record.attempt.reached = 3),
    ];
    for (rule, break_it) in breaks {
        let mut record = sound();
        break_it(&mut record);
        let broken = check(&record).unwrap_or_default();
        assert!(broken.starts_with(rule), "{rule:?} was expected, {broken:?} is told");
    }
    let mut record = sound();
    record.attempt.from_incarnation = 3;
    assert!(check(&record).is_some_and(|rule| rule.starts_with("a try begins")));
}

/// The one bound that `sound` cannot reach together with the others.
#[test]
fn a_new_record_is_sound() {
    let mut record = sound();
    record.intent = sandkeep_core::Intent::first(
        record.intent.spec,
        "uid:0".to_owned(),
        Timestamp::from_millis(1),
    );
    record.observed = Observation::not_yet(Timestamp::EPOCH);
    record.attempt = Attempt::default();
    assert_eq!(check(&record), None);
}
