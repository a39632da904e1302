//! Connecting, probing, losing and finding again; orders and results.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use sandkeep_core::{MainStatus, Session, SessionNotes};
use sandkeep_frames::Kind;
use sandkeep_frames::log_entry::write_output;
use sandkeep_frames::message::{Go, Hello, LogAck, LogData, LogOffer, Refused, ResultStored};

use super::peer::{hello, main_state};
use super::world::World;
use sandkeep_gateway::session::LogQuery;
use sandkeep_gateway::sessions::{SessionError, Sessions};

fn is_probed(session: &Session) -> bool {
    matches!(session, Session::Connected { probed_at: Some(_), .. })
}

fn is_lost(session: &Session) -> bool {
    matches!(session, Session::Lost { .. })
}

fn main_is(expect: MainStatus) -> impl Fn(&Session) -> bool {
    move |session| matches!(session, Session::Connected { main, .. } if *main == expect)
}

#[tokio::test]
async fn a_greeted_supervisor_is_connected_and_then_proved() {
    let world = World::new();
    assert_eq!(world.hub.session(&world.id), Session::None);
    world.want(3);
    let mut peer = world.dial(3);
    let welcome = peer.greet(&hello()).await;
    assert_eq!((welcome.version, welcome.incarnation), (1, 3));
    tokio::spawn(async move { while peer.next().await.is_some() {} });
    let session = world.until(is_probed).await;
    assert!(matches!(session, Session::Connected { incarnation: 3, .. }));
}

#[tokio::test]
async fn a_session_that_ends_is_told_and_opened_again() {
    let world = World::new();
    for _ in 0..3 {
        drop(world.connected(1).await);
        world.until(is_lost).await;
    }
    let _peer = world.connected(1).await;
}

#[tokio::test]
async fn wanting_the_same_again_changes_nothing_and_another_incarnation_replaces() {
    let world = World::new();
    let mut old = world.connected(1).await;
    world.want(1);
    assert!(matches!(world.hub.session(&world.id), Session::Connected { incarnation: 1, .. }));
    world.want(2);
    assert_eq!(world.hub.session(&world.id), Session::None);
    assert!(old.next().await.is_none());
    let mut late = world.dial(1);
    let mut new = world.dial(2);
    new.greet(&hello()).await;
    world.until(|session| matches!(session, Session::Connected { incarnation: 2, .. })).await;
    assert!(late.next().await.is_none());
}

#[tokio::test]
async fn a_second_supervisor_waits_while_the_first_session_lives() {
    let world = World::new();
    let mut first = world.connected(1).await;
    let mut second = world.dial(1);
    second.say(Kind::Hello, 0, &hello()).await;
    world.hub.go(&world.id, world.order(1, 1)).await.unwrap();
    first.expect::<Go>(Kind::Go).await;
    drop(first);
    second.expect::<sandkeep_frames::message::Welcome>(Kind::Welcome).await;
}

#[tokio::test]
async fn a_released_session_ends_and_is_none() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    world.hub.release(&world.id);
    assert!(peer.next().await.is_none());
    assert_eq!(world.hub.session(&world.id), Session::None);
    let order = world.order(1, 1);
    assert_eq!(world.hub.go(&world.id, order).await, Err(SessionError::NotConnected));
}

#[tokio::test]
async fn an_order_carries_the_whole_spec_to_its_own_incarnation_only() {
    let world = World::new();
    let mut peer = world.connected(4).await;
    let other = world.order(2, 3);
    assert_eq!(world.hub.go(&world.id, other).await, Err(SessionError::NotConnected));
    world.hub.go(&world.id, world.order(2, 4)).await.unwrap();
    let (_, go) = peer.expect::<Go>(Kind::Go).await;
    assert_eq!((go.run, go.incarnation, go.restart), (2, 4, 0));
    let process = go.process.unwrap();
    assert_eq!(process.argv, ["make", "all"]);
    assert_eq!(process.env, ["A=1", "B=2"]);
    assert_eq!((process.user.as_str(), process.workdir.as_str()), ("1000", "/workspace/code"));
    assert!(process.keep_output && process.attached);
}

#[tokio::test]
async fn a_result_is_kept_until_it_is_stored_and_then_the_supervisor_is_told() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    peer.say(Kind::MainState, 0, &main_state(1, 1, None)).await;
    world.until(main_is(MainStatus::Running { run: 1, restart: 0 })).await;
    assert_eq!(world.hub.result(&world.id), None);
    peer.say(Kind::MainState, 0, &main_state(1, 1, Some(3))).await;
    world.until(main_is(MainStatus::Ended { run: 1, restart: 0 })).await;
    let result = world.hub.result(&world.id).unwrap();
    assert_eq!((result.run, result.incarnation, result.code), (1, 1, 3));
    // It survives the end of the session, and of the wish for one.
    drop(peer);
    world.until(is_lost).await;
    world.hub.release(&world.id);
    assert_eq!(world.hub.result(&world.id), Some(result));
    world.hub.result_stored(&world.id, 1, 0);
    assert_eq!(world.hub.result(&world.id), None);
    // Offered again: told again, and not a result again.
    world.want(1);
    let mut peer = world.dial(1);
    peer.greet(&Hello { main: Some(main_state(1, 1, Some(3))), ..hello() }).await;
    let (_, stored) = peer.expect::<ResultStored>(Kind::ResultStored).await;
    assert_eq!((stored.run, stored.restart), (1, 0));
    assert_eq!(world.hub.result(&world.id), None);
}

#[tokio::test]
async fn a_result_from_an_earlier_life_is_a_result_but_no_state_of_this_one() {
    let world = World::new();
    world.want(2);
    let mut peer = world.dial(2);
    peer.greet(&Hello { main: Some(main_state(5, 1, Some(0))), ..hello() }).await;
    world.until(main_is(MainStatus::Waiting)).await;
    let result = world.hub.result(&world.id).unwrap();
    assert_eq!((result.run, result.incarnation), (5, 1));
}

#[tokio::test]
async fn a_word_of_a_future_life_or_of_no_run_is_ignored() {
    let world = World::new();
    let mut peer = world.connected(2).await;
    peer.say(Kind::MainState, 0, &main_state(9, 3, Some(0))).await;
    peer.say(Kind::MainState, 0, &main_state(0, 2, Some(0))).await;
    peer.say(Kind::MainState, 0, &main_state(1, 2, None)).await;
    world.until(main_is(MainStatus::Running { run: 1, restart: 0 })).await;
    assert_eq!(world.hub.result(&world.id), None);
}

#[tokio::test]
async fn a_running_command_is_never_seen_as_waiting_after_a_reconnect() {
    let world = World::new();
    world.want(1);
    let mut peer = world.dial(1);
    peer.say(Kind::Hello, 0, &Hello { main: Some(main_state(1, 1, None)), ..hello() }).await;
    let session = world.until(|session| matches!(session, Session::Connected { .. })).await;
    assert!(main_is(MainStatus::Running { run: 1, restart: 0 })(&session), "{session:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missed_probe_is_told_and_ends_nothing_and_a_late_answer_counts() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let pongs = Arc::clone(&peer.pongs);
    tokio::spawn(async move { while peer.next().await.is_some() {} });
    world.until(is_probed).await;
    pongs.store(false, Ordering::Relaxed);
    let doubted = |s: &Session| matches!(s, Session::Connected { probed_at: None, .. });
    world.until_within(Duration::from_secs(60), doubted).await;
    world.hub.go(&world.id, world.order(1, 1)).await.unwrap();
    pongs.store(true, Ordering::Relaxed);
    world.until_within(Duration::from_secs(60), is_probed).await;
    // At rest nothing wakes the reconciler, though probes go on.
    assert!(!world.is_woken_within(Duration::from_secs(600)).await);
}

#[tokio::test]
async fn a_supervisor_that_speaks_no_common_version_is_told_so_and_asked_again() {
    let world = World::new();
    world.want(1);
    let mut peer = world.dial(1);
    let future = Hello { oldest_version: 1000, newest_version: 1001, ..hello() };
    peer.say(Kind::Hello, 0, &future).await;
    let (_, refused) = peer.expect::<Refused>(Kind::Refused).await;
    assert_eq!(refused.reason, "Version");
    assert!(peer.next().await.is_none());
    let told = world.until_noted(|notes| notes.refused.is_some()).await;
    let message = told.refused.unwrap().message;
    assert!(message.contains("version"), "{message}");
    assert_eq!(world.hub.session(&world.id), Session::None);
    // One that stands takes the word back.
    world.want(1);
    let mut peer = world.dial(1);
    peer.greet(&hello()).await;
    tokio::spawn(async move { while peer.next().await.is_some() {} });
    world.until(is_probed).await;
    assert_eq!(world.hub.notes(&world.id).refused, None);
}

#[tokio::test]
async fn a_refusal_by_the_supervisor_and_its_missing_guards_are_known() {
    let world = World::new();
    world.want(1);
    let mut peer = world.dial(1);
    let guards = vec!["landlock".to_owned(), "seccomp".to_owned()];
    peer.greet(&Hello { missing_guards: guards.clone(), ..hello() }).await;
    world.until(|session| matches!(session, Session::Connected { .. })).await;
    assert_eq!(world.hub.notes(&world.id).missing_guards, Some(guards));
    let refused = Refused { reason: "Protocol".into(), message: "you speak in riddles".into() };
    peer.say(Kind::Refused, 0, &refused).await;
    let told = world.until_noted(|notes| notes.refused.is_some()).await;
    let message = told.refused.unwrap().message;
    assert_eq!(message, "the supervisor refused the session: you speak in riddles");
    // What is known of the guards is of that PID 1, and goes with it.
    assert!(told.missing_guards.is_some());
    world.want(2);
    assert_eq!(world.hub.notes(&world.id), SessionNotes::default());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_given_up_for_the_next() {
    let world = World::new();
    world.want(1);
    let mut silent = world.dial(1);
    assert!(silent.next().await.is_none());
    let _peer = world.connected(1).await;
}

#[tokio::test]
async fn a_log_is_acknowledged_once_durable_and_the_next_session_is_told_of_it() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    let mut entries = Vec::new();
    write_output(&mut entries, 1, 1000, b"built\n");
    let source = "main-1".to_owned();
    let to = entries.len() as u64;
    let data = LogData { source: source.clone(), entries: entries.into(), ..LogData::default() };
    peer.say(Kind::LogData, 0, &data).await;
    let (_, ack) = peer.expect::<LogAck>(Kind::LogAck).await;
    assert_eq!((ack.source.as_str(), ack.offset), ("main-1", to));
    let mut log = world.hub.logs().read(&world.id, LogQuery::default()).await.unwrap();
    assert_eq!(log.next().await.unwrap().unwrap().bytes, "built\n");
    drop(peer);
    world.until(is_lost).await;
    let mut peer = world.dial(1);
    let offer = LogOffer { source, from: 0, to: to + 100, complete: false };
    let welcome = peer.greet(&Hello { logs: vec![offer], ..hello() }).await;
    assert_eq!(welcome.logs, [ack]);
}

#[tokio::test]
async fn forgetting_ends_the_session_and_drops_the_result() {
    let world = World::new();
    let mut peer = world.connected(1).await;
    peer.say(Kind::MainState, 0, &main_state(1, 1, Some(0))).await;
    world.until(main_is(MainStatus::Ended { run: 1, restart: 0 })).await;
    world.hub.forget(&world.id).await;
    assert_eq!(world.hub.result(&world.id), None);
    assert!(peer.next().await.is_none());
}
