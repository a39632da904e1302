//! What is written when: how many commits a create costs, and what has to be durable before which
//! step.

use std::time::Duration;

use futures::StreamExt;

use crate::stage::{ENGINE, Stage};

/// The verb with its first try, the mark of the workspace while the backing is on its way up (this
/// engine is slow), the order to run, and the line that it is ready.
#[tokio::test(start_paused = true)]
async fn a_create_costs_four_commits() {
    let mut stage = Stage::new().await;
    stage.ready_one("first").await;
    stage.house.pass(Duration::from_secs(5)).await;
    let before = stage.house.store.commits();
    stage.ready_one("lab").await;
    stage.house.pass(Duration::from_secs(5)).await;
    assert_eq!(stage.house.store.commits() - before, 4);
}

#[tokio::test(start_paused = true)]
async fn lines_of_the_timeline_are_written_together() {
    let mut stage = Stage::new().await;
    stage.ready_one("first").await;
    stage.house.pass(Duration::from_secs(5)).await;
    let before = stage.house.store.commits();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(stage.create(&format!("lab-{number}"), "forever").await);
    }
    for id in &ids {
        stage.ready(id).await;
    }
    stage.house.pass(Duration::from_secs(5)).await;
    assert!(stage.house.store.commits() - before <= 3 * 5 + 2);
    let all = stage.house.gateway().events(None, false).expect("the timeline is there");
    let ready = all.filter(|event| {
        let is_ready = event.as_ref().is_ok_and(|event| event.reason == "Ready");
        std::future::ready(is_ready)
    });
    assert_eq!(ready.count().await, 6);
}

#[tokio::test(start_paused = true)]
async fn who_reads_the_timeline_finds_what_has_just_happened() {
    let mut stage = Stage::new().await;
    let id = stage.ready_one("lab").await;
    let events = stage.house.gateway().events(Some(id.as_str()), false).expect("it has one");
    let last = events.collect::<Vec<_>>().await.pop().expect("a line").expect("it can be read");
    assert_eq!(last.reason, "Ready");
}

/// The engine on the new record is the one that was compared last; nothing is on it yet.
#[tokio::test(start_paused = true)]
async fn an_engine_that_took_anothers_place_unseen_gets_the_next_sandbox() {
    let mut stage = Stage::new().await;
    stage.ready_one("first").await;
    stage.house.world.lead_to("one", "another-engine");
    let id = stage.create("lab", "forever").await;
    let on = |stage: &Stage, name| {
        let there = stage.house.world.with_engine(name, |e| e.backings.contains_key(&id));
        there == Some(true)
    };
    stage.until("made where it was asked for", |stage| on(stage, "another-engine")).await;
    let record = stage.get(&id).expect("it is there").record;
    assert_eq!(record.observed.engine.as_deref(), Some("another-engine"));
    let stored = stage.house.store.contents().records;
    let stored = stored.iter().find(|stored| stored.id == id).expect("it is stored");
    assert_eq!(stored.observed.engine.as_deref(), Some("another-engine"));
    assert!(!on(&stage, ENGINE));
}
