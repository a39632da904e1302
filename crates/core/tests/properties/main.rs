//! What must hold for any record, any live facts and any time, also for such as no gateway makes.

mod any;
mod broken;
mod cases;
mod since;
mod twin;

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use sandkeep_core::check::check;
use sandkeep_core::verb::{self, Asked, DeleteOptions};
use sandkeep_core::{
    Action, Backing, Decision, Live, MainStatus, Phase, Reason, Record, RunState, Session,
    Timestamp, WaitsFor, Want, attempt, decide, explain, project,
};

use any::{NOW, live, record, report, result, sound, time};

/// `PROPTEST_CASES` walks further.
fn config() -> ProptestConfig {
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        ProptestConfig::default().cases
    } else {
        1024
    };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn raises(action: &Action) -> bool {
    matches!(
        action,
        Action::EnsureWorkspace
            | Action::PullImage
            | Action::Create
            | Action::Start
            | Action::Thaw
            | Action::Go { .. }
    )
}

fn cannot_be_seen(record: &Record, live: &Live) -> bool {
    let unknown = matches!(record.observed.backing, Backing::Unknown { .. });
    !live.looked || live.look_error.is_some() || unknown || live.driver_missing
}

fn with_attempt(record: &Record, decision: &Decision) -> Record {
    let mut next = record.clone();
    if let Some(attempt) = &decision.attempt {
        next.attempt = attempt.clone();
    }
    next
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_same_facts_get_the_same_answer(record in record(), live in live(), now in time()) {
        prop_assert_eq!(decide(&record, &live, now), decide(&record, &live, now));
        prop_assert_eq!(project(&record, &live, now), project(&record, &live, now));
        prop_assert_eq!(explain(&record, &live, now), explain(&record, &live, now));
    }

    #[test]
    fn only_ready_waits_for_nobody(record in record(), live in live(), now in time()) {
        let view = project(&record, &live, now);
        // With an action under way something is waited for, Ready or not.
        prop_assert_eq!(view.waits_for.is_none(), view.phase == Phase::Ready);
        prop_assert!(view.phase == Phase::Ready || !view.next.is_empty(), "{view:?}");
        prop_assert!(!view.reason.is_empty() && !view.message.is_empty(), "{view:?}");
        prop_assert!(!explain(&record, &live, now).choices.is_empty());
    }

    #[test]
    fn every_wait_has_an_end(record in record(), live in live(), now in time()) {
        let decision = decide(&record, &live, now);
        let timed = decision.waits_for == Some(WaitsFor::Time) && decision.action.is_none();
        let outside = decision.waits_for == Some(WaitsFor::Outside);
        if timed || outside {
            let at = decision.wake_at.expect("a time to ask again");
            let grace = record.intent.spec.stop_grace().saturating_add(Duration::from_secs(5));
            prop_assert!(at <= now + grace.max(Duration::from_secs(60)), "{decision:?}");
        }
    }

    #[test]
    fn nothing_is_done_to_what_cannot_be_seen(record in record(), live in live(), now in time()) {
        let decision = decide(&record, &live, now);
        if cannot_be_seen(&record, &live) {
            let forgets = record.intent.want == Want::Deleted && record.intent.forget;
            let allowed = forgets.then_some(Action::ForgetRecord);
            prop_assert!(decision.action.is_none() || decision.action == allowed, "{decision:?}");
        }
    }

    #[test]
    fn hold_changes_nothing(record in record(), live in live(), now in time()) {
        let held = Live { gateway_hold: true, ..live };
        let decision = decide(&record, &held, now);
        prop_assert_eq!(decision.action, None);
        prop_assert_eq!(decision.attempt, None);
    }

    #[test]
    fn actions_fit_the_intent(record in record(), live in live(), now in time()) {
        let decision = decide(&record, &live, now);
        let Some(action) = decision.action else { return Ok(()) };
        if let (Action::Go { .. }, Some(ordered)) = (&action, &decision.attempt)
            && ordered.go != record.attempt.go
        {
            // Coming this far ends the errors and the waits of the try.
            prop_assert!(ordered.next_try_at.is_none() && ordered.failure.is_none());
            prop_assert!(ordered.first_error.is_none() && ordered.latest_error.is_none());
        }
        match record.intent.want {
            Want::Running => prop_assert!(
                !matches!(action, Action::Remove | Action::DiscardWorkspace | Action::ForgetRecord),
                "{action:?}"
            ),
            Want::Stopped => prop_assert!(
                matches!(action, Action::Stop { .. } | Action::Kill), "{action:?}"
            ),
            Want::Deleted => prop_assert!(!raises(&action), "{action:?}"),
        }
        if action == Action::DiscardWorkspace {
            prop_assert!(record.intent.discard_workspace && !live.workspace.shared);
            prop_assert!(record.observed.backing == Backing::Absent && record.attempt.removed);
        }
        if action == Action::ForgetRecord && !record.intent.forget {
            prop_assert!(record.observed.backing == Backing::Absent && record.attempt.removed);
        }
    }

    #[test]
    fn a_backing_newer_than_its_record_is_left_alone(
        record in record(), live in live(), now in time()
    ) {
        let newer = record.observed.generation > Some(record.intent.generation);
        let there = record.observed.backing.is_live() || record.observed.backing.is_down();
        if newer && there {
            let action = decide(&record, &live, now).action;
            prop_assert!(action.is_none() || action == Some(Action::ForgetRecord), "{action:?}");
        }
    }

    #[test]
    fn what_may_have_work_is_not_killed(record in record(), live in live(), now in time()) {
        let incarnation = record.observed.incarnation;
        let had_go = record.attempt.go.is_some_and(|go| go.incarnation == incarnation);
        let fresh = record.intent.fresh_after > 0 && incarnation <= record.intent.fresh_after;
        let runs = record.observed.backing == Backing::Running;
        let wanted = record.intent.want == Want::Running && !record.asleep();
        if wanted && runs && had_go && !fresh {
            let action = decide(&record, &live, now).action;
            prop_assert!(
                !matches!(action, Some(Action::Kill | Action::Stop { .. })), "{action:?}"
            );
        }
    }

    #[test]
    fn ready_has_a_proved_session_of_this_incarnation(
        record in record(), live in live(), now in time()
    ) {
        let view = project(&record, &live, now);
        if view.phase == Phase::Ready {
            prop_assert_eq!(&record.observed.backing, &Backing::Running);
            let incarnation = record.observed.incarnation;
            let proved = matches!(
                live.session,
                Session::Connected { incarnation: of, probed_at: Some(_), .. }
                    if of == incarnation
            );
            prop_assert!(proved && live.looked);
        }
    }

    #[test]
    fn what_is_stored_settles_it(record in record(), live in live(), now in time()) {
        // At the end of time there is no later.
        prop_assume!(now < Timestamp::from_millis(u64::MAX));
        let first = decide(&record, &live, now);
        let stored = with_attempt(&record, &first);
        let second = decide(&stored, &live, now);
        // An order that the supervisor claims to have had already needs no repeating; a kill at a
        // deadline is counted as a failed try, whose wait begins at once.
        let counted = first.action == Some(Action::Kill) && first.attempt.is_some();
        let heard = matches!((&first.action, &live.session), (
            Some(Action::Go { run, restart, .. }),
            Session::Connected {
                main: MainStatus::Running { run: of, restart: at }
                    | MainStatus::Ended { run: of, restart: at },
                ..
            },
        ) if (of, at) >= (run, restart));
        if heard {
            // That it was heard is stored as well; then nothing more.
            let third = decide(&with_attempt(&stored, &second), &live, now);
            prop_assert_eq!(&third.attempt, &None, "it goes on being stored: {:?}", second);
        } else {
            prop_assert_eq!(&second.attempt, &None, "nothing is stored twice: {:?}", first);
        }
        let same = second.action == first.action || counted || heard;
        prop_assert!(same, "{first:?} {second:?}");
    }

    #[test]
    fn since_does_not_move_with_the_clock(
        record in record(), live in live(), now in time(), later in 0..100_000u64
    ) {
        let one = project(&record, &live, now);
        let other = project(&record, &live, now + Duration::from_millis(later));
        if one.reason == other.reason && one.phase == other.phase {
            prop_assert_eq!(one.since, other.since);
        }
    }

    #[test]
    fn a_deleted_sandbox_never_comes_back(record in record(), live in live(), now in time()) {
        if record.intent.want == Want::Deleted {
            let asked = Asked { by: "uid:0".to_owned(), at: now };
            prop_assert!(verb::start(&record, &asked).is_err());
            prop_assert!(verb::stop(&record, &asked).is_err());
            prop_assert!(verb::restart(&record, &asked).is_err());
            prop_assert_eq!(project(&record, &live, now).phase, Phase::Deleting);
        }
    }

    #[test]
    fn verbs_are_answered_and_idempotent(
        record in record(), now in time(), discard in any::<bool>(), forget in any::<bool>()
    ) {
        let asked = Asked { by: "uid:7".to_owned(), at: now };
        let options = DeleteOptions { discard_workspace: discard, forget };
        let record = sound(record);
        let with = |intent| Record { intent, ..record.clone() };
        let next = record.intent.generation + 1;
        if let Ok(Some(intent)) = verb::start(&record, &asked) {
            prop_assert_eq!((intent.want, intent.generation), (Want::Running, next));
            prop_assert!(intent.by == asked.by && intent.at >= now);
            prop_assert_eq!(verb::start(&with(intent), &asked), Ok(None));
        }
        if let Ok(Some(intent)) = verb::stop(&record, &asked) {
            prop_assert_eq!((intent.want, intent.generation), (Want::Stopped, next));
            prop_assert_eq!(verb::stop(&with(intent), &asked), Ok(None));
        }
        if let Ok(intent) = verb::restart(&record, &asked) {
            prop_assert_eq!((intent.want, intent.generation), (Want::Running, next));
            prop_assert_eq!(intent.run, record.intent.run + 1);
            prop_assert_eq!(intent.fresh_after, record.observed.incarnation);
        }
        match verb::delete(&record, options, &asked) {
            None => prop_assert_eq!(record.intent.want, Want::Deleted),
            Some(intent) => {
                prop_assert_eq!((intent.want, intent.generation), (Want::Deleted, next));
                prop_assert!(intent.discard_workspace >= discard && intent.forget >= forget);
                prop_assert_eq!(verb::delete(&with(intent), options, &asked), None);
            }
        }
    }

    #[test]
    fn start_asks_for_a_new_run_exactly_when_the_current_one_is_over(
        record in record(), now in time()
    ) {
        let asked = Asked { by: "uid:0".to_owned(), at: now };
        let mut record = sound(record);
        record.intent.want = Want::Running;
        let state = RunState::of(&record);
        let over = matches!(state, RunState::Ended(_)) || state.is_over(&record.intent.spec);
        let run = verb::start(&record, &asked).expect("it is not deleted");
        prop_assert_eq!(run.is_some_and(|intent| intent.run > record.intent.run), over);
    }

    #[test]
    fn sound_records_stay_sound(record in record(), live in live(), now in time(), report in report(), told in result()) {
        let record = sound(record);
        prop_assert_eq!(check(&record), None);
        let decision = decide(&record, &live, now);
        let stored = with_attempt(&record, &decision);
        prop_assert_eq!(check(&stored), None, "after {:?}", decision);
        let seen = Record { observed: record.observe(&report, now), ..record.clone() };
        prop_assert_eq!(check(&seen), None);
        let heard = Record { observed: record.hear(told, now), ..record.clone() };
        prop_assert_eq!(check(&heard), None);
        let asked = Asked { by: "uid:0".to_owned(), at: now };
        for intent in [verb::start(&record, &asked), verb::stop(&record, &asked)] {
            if let Ok(Some(intent)) = intent {
                prop_assert_eq!(check(&Record { intent, ..record.clone() }), None);
            }
        }
        if let Ok(intent) = verb::restart(&record, &asked) {
            prop_assert_eq!(check(&Record { intent, ..record.clone() }), None);
        }
    }

    #[test]
    fn seeing_the_same_again_changes_nothing(record in record(), report in report(), now in time()) {
        let once = Record { observed: record.observe(&report, now), ..record.clone() };
        let later = now + Duration::from_secs(5);
        prop_assert_eq!(&once.observe(&report, later), &once.observed);
    }

    #[test]
    fn incarnations_never_fall(record in record(), report in report(), now in time()) {
        let seen = record.observe(&report, now);
        prop_assert!(seen.incarnation >= record.observed.incarnation);
        prop_assert!(seen.restarts >= record.observed.restarts);
        prop_assert!(seen.restarts - record.observed.restarts <= 1);
    }

    #[test]
    fn results_of_executions_that_were_not_ordered_are_not_believed(
        record in record(), told in result(), now in time()
    ) {
        let ordered = record.attempt.go.map(|go| (go.run, go.restart));
        let heard = record.hear(told.clone(), now);
        if Some((told.run, told.restart)) > ordered {
            prop_assert_eq!(&heard, &record.observed);
        }
        let before = record.observed.result.as_ref().map(|known| (known.run, known.restart));
        let after = heard.result.as_ref().map(|known| (known.run, known.restart));
        prop_assert!(after >= before);
    }

    #[test]
    fn a_failed_try_waits_and_keeps_the_first_error(record in record(), now in time()) {
        let note = |reason: &str| sandkeep_core::ErrorNote {
            stage: "start".to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            at: now,
        };
        let kind = sandkeep_core::FailureKind::Transient;
        let before = sandkeep_core::Attempt { first_error: None, ..record.attempt.clone() };
        let once = attempt::failed(&before, &record.id, note("First"), kind, now);
        let twice = attempt::failed(&once, &record.id, note("Second"), kind, now);
        let reason = |note: &Option<sandkeep_core::ErrorNote>| {
            note.as_ref().map(|note| note.reason.clone()).unwrap_or_default()
        };
        prop_assert_eq!(reason(&twice.first_error), "First");
        prop_assert_eq!(reason(&twice.latest_error), "Second");
        prop_assert!(twice.number >= once.number);
        prop_assert!(once.next_try_at.expect("it waits") <= now + Duration::from_secs(60));
    }
}

#[test]
fn records_outlive_their_text() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..200 {
        let record = record().new_tree(&mut runner).expect("a record").current();
        let text = serde_json::to_string(&record).expect("text");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("a record"), record);
    }
}

#[test]
fn a_record_of_an_older_version_is_read() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let record = record().new_tree(&mut runner).expect("a record").current();
    let mut text = serde_json::to_value(&record).expect("text");
    text["intent"]["spec"].as_object_mut().expect("an object").remove("stop_grace_ms");
    // Everything that was added later has a default.
    text["attempt"] = serde_json::json!({});
    for later in ["fresh_after", "spec_generation"] {
        text["intent"].as_object_mut().expect("an object").remove(later);
    }
    for later in ["previous_backing_run", "result_at", "result"] {
        text["observed"].as_object_mut().expect("an object").remove(later);
    }
    let read: Record = serde_json::from_value(text).expect("an older record");
    assert_eq!(read.intent.spec.stop_grace(), Duration::from_secs(10));
    let now = Timestamp::from_millis(NOW);
    let view = project(&read, &Live::default(), now);
    assert_ne!(view.reason, Reason::Ready.as_str());
}
