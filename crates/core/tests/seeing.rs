//! What a look and a supervisor's word do to the observation.

use sandkeep_core::{Backing, BackingReport, Observation, RunResult, Timestamp, UnknownWhy};

const FIRST: Timestamp = Timestamp::from_millis(1_000);
const LATER: Timestamp = Timestamp::from_millis(9_000);

fn report(backing: Backing, run: Option<&str>) -> BackingReport {
    BackingReport {
        backing,
        backing_run: run.map(str::to_owned),
        generation: Some(1),
        engine: Some("here".to_owned()),
        unenforced_limits: vec!["disk".to_owned()],
        workspace_replaced: false,
    }
}

fn exited() -> Backing {
    Backing::Exited { code: Some(143), oom: false, finished_at: None }
}

fn result(run: u64, restart: u32, code: i32) -> RunResult {
    RunResult {
        run,
        restart,
        incarnation: 1,
        code,
        signal: None,
        oom: false,
        finished_at: FIRST,
        spawn_error: None,
    }
}

#[test]
fn each_new_run_of_the_backing_is_numbered_once() {
    let none = Observation::not_yet(FIRST);
    let first = none.merge(&report(Backing::Running, Some("a")), FIRST);
    assert_eq!((first.incarnation, first.incarnation_since), (1, FIRST));
    let same = first.merge(&report(Backing::Running, Some("a")), LATER);
    assert_eq!(same, first);
    let second = first.merge(&report(Backing::Running, Some("b")), LATER);
    assert_eq!((second.incarnation, second.incarnation_since), (2, LATER));
    assert_eq!(second.since, FIRST, "the kind has not changed");
    assert_eq!(second.previous_backing_run.as_deref(), Some("a"));
}

#[test]
fn a_late_answer_about_the_run_before_is_no_news() {
    let second = Observation::not_yet(FIRST)
        .merge(&report(Backing::Running, Some("a")), FIRST)
        .merge(&report(Backing::Running, Some("b")), FIRST);
    assert_eq!(second.merge(&report(exited(), Some("a")), LATER), second);
    // One that names no run is news: not every engine names what has ended.
    assert_eq!(second.merge(&report(exited(), None), LATER).backing, exited());
}

#[test]
fn a_backing_that_ended_keeps_its_number() {
    let first = Observation::not_yet(FIRST).merge(&report(Backing::Running, Some("a")), FIRST);
    let ended = first.merge(&report(exited(), Some("a")), LATER);
    assert_eq!((ended.incarnation, ended.incarnation_since, ended.since), (1, FIRST, LATER));
    let silent = first.merge(&report(Backing::Absent, None), LATER);
    assert_eq!((silent.incarnation, silent.backing_run.as_deref()), (1, Some("a")));
}

#[test]
fn what_an_engine_that_is_away_does_not_say_is_kept() {
    let first = Observation::not_yet(FIRST).merge(&report(Backing::Running, Some("a")), FIRST);
    let unknown = Backing::Unknown { why: UnknownWhy::EngineUnreachable, message: String::new() };
    let away = BackingReport {
        backing: unknown.clone(),
        backing_run: None,
        generation: None,
        engine: None,
        unenforced_limits: Vec::new(),
        workspace_replaced: false,
    };
    let seen = first.merge(&away, LATER);
    assert_eq!(seen.backing, unknown);
    assert_eq!((seen.generation, seen.unenforced_limits.len()), (Some(1), 1));
    assert_eq!(seen.engine.as_deref(), Some("here"), "the engine is recorded once");
    let elsewhere = BackingReport { engine: Some("there".to_owned()), ..report(exited(), None) };
    assert_eq!(seen.merge(&elsewhere, LATER).engine.as_deref(), Some("here"));
}

#[test]
fn the_newest_result_stays() {
    let none = Observation::not_yet(FIRST);
    let first = none.with_result(result(1, 1, 3), FIRST);
    assert_eq!(first.with_result(result(1, 0, 0), LATER), first, "an older execution");
    assert_eq!(first.with_result(result(1, 1, 0), LATER), first, "the same, told again");
    let next = first.with_result(result(1, 2, 0), LATER);
    assert_eq!((next.result, next.result_at), (Some(result(1, 2, 0)), LATER));
    let run = first.with_result(result(2, 0, 0), LATER);
    assert_eq!(run.result, Some(result(2, 0, 0)));
}

#[test]
fn kinds_of_backing_are_live_or_down_or_neither() {
    let live = [Backing::Starting, Backing::Running, Backing::Paused, Backing::Stopping];
    assert!(live.iter().all(|backing| backing.is_live() && !backing.is_down()));
    let down = [Backing::Idle, exited()];
    assert!(down.iter().all(|backing| backing.is_down() && !backing.is_live()));
    let neither = [Backing::Absent, Backing::Removing];
    assert!(neither.iter().all(|backing| !backing.is_live() && !backing.is_down()));
}

#[test]
fn times_never_run_over() {
    use std::time::Duration;
    let late = Timestamp::from_millis(u64::MAX);
    assert_eq!(late + Duration::MAX, late);
    assert_eq!(FIRST - Duration::from_secs(5), Timestamp::EPOCH);
    assert_eq!(LATER - Duration::from_secs(1), Timestamp::from_millis(8_000));
    assert_eq!(FIRST + Duration::from_secs(8), LATER);
    assert_eq!(LATER.since(FIRST), Duration::from_secs(8));
    assert_eq!(FIRST.since(LATER), Duration::ZERO);
    assert_eq!(FIRST.as_millis(), 1_000);
}
