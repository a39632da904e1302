//! The timeline: in order, in pages, bounded.

use super::{Place, commit, event, open, record};
use crate::{Change, Event, EventBounds};

pub async fn events_come_in_order_and_in_pages(place: &dyn Place) {
    let store = open(place).await;
    for number in 0..10 {
        let events =
            (0..3).map(|part| Change::AppendEvent(event(None, format!("{number}.{part}"))));
        commit(&*store, events.collect()).await;
    }
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = store.events(None, after, 7).await.expect("events");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 7);
        assert!(page.first().is_some_and(|first| first.sequence > after));
        after = last.sequence;
        seen.extend(page);
    }
    assert!(seen.is_sorted_by(|a, b| a.sequence < b.sequence));
    let messages: Vec<_> = seen.iter().map(|event| event.message.clone()).collect();
    let expected: Vec<_> = (0..30).map(|n| format!("{}.{}", n / 3, n % 3)).collect();
    assert_eq!(messages, expected);
    assert_eq!(store.events(None, 0, 0).await.expect("none asked for"), []);
    assert_eq!(store.events(None, u64::MAX, 10).await.expect("after the end"), []);
}

pub async fn events_of_one_sandbox_stand_alone(place: &dyn Place) {
    let store = open(place).await;
    let (one, other) = (record(1), record(2));
    for number in 0..5 {
        let events = [Some(&one), Some(&other), None];
        let events = events.map(|whose| Change::AppendEvent(event(whose, format!("{number}"))));
        commit(&*store, events.into()).await;
    }
    let all = store.events(None, 0, 100).await.expect("events");
    assert_eq!(all.len(), 15);
    let mine = store.events(Some(&one.id), 0, 100).await.expect("events");
    let expected: Vec<Event> =
        all.into_iter().filter(|event| event.sandbox.as_ref() == Some(&one.id)).collect();
    assert_eq!(mine, expected);
    let rest = store.events(Some(&one.id), mine[2].sequence, 1).await.expect("events");
    assert_eq!(rest, mine[3..4]);
}

pub async fn event_sequences_rise_over_a_reload(place: &dyn Place) {
    let mut last = 0;
    for round in 0..3 {
        let store = open(place).await;
        commit(&*store, vec![Change::AppendEvent(event(None, format!("{round}")))]).await;
        let events = store.events(None, last, 10).await.expect("events");
        assert_eq!(events.len(), 1, "round {round}");
        last = events[0].sequence;
    }
}

pub async fn the_timeline_of_one_sandbox_is_bounded(place: &dyn Place) {
    let store = place.open(EventBounds { per_sandbox: 20, total: 1_000 }).await;
    let (talkative, quiet) = (record(1), record(2));
    commit(&*store, vec![Change::AppendEvent(event(Some(&quiet), "once"))]).await;
    for number in 0..100 {
        let event = event(Some(&talkative), format!("{number}"));
        commit(&*store, vec![Change::AppendEvent(event)]).await;
    }
    let kept = store.events(Some(&talkative.id), 0, 1_000).await.expect("events");
    assert!((20..=22).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(|event| event.message.as_str()), Some("99"));
    assert!(kept.is_sorted_by(|a, b| a.sequence + 1 == b.sequence));
    let once = store.events(Some(&quiet.id), 0, 10).await.expect("events");
    assert_eq!(once.len(), 1, "a talkative sandbox pushes out nobody else's events");
}

pub async fn the_whole_timeline_is_bounded(place: &dyn Place) {
    let store = place.open(EventBounds { per_sandbox: 20, total: 50 }).await;
    for number in 0..200 {
        let events = [Some(record(number % 40)), None]
            .map(|whose| Change::AppendEvent(event(whose.as_ref(), format!("{number}"))));
        commit(&*store, events.into()).await;
    }
    let kept = store.events(None, 0, 1_000).await.expect("events");
    assert!((20..=55).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(|event| event.message.as_str()), Some("199"));
}
