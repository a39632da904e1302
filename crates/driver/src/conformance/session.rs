//! Sessions: PID 1 of exactly the asked run, and nobody else.

use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::Outcome;
use super::fixture::{Fixture, PATIENCE, Wishes, fine, refused};
use crate::{Driver, ErrorKind, SessionStream};

async fn session(driver: &dyn Driver, wishes: &Wishes, run: &str) -> Box<dyn SessionStream> {
    let opened = tokio::time::timeout(PATIENCE, driver.open_session(&wishes.id, run)).await;
    let Ok(opened) = opened else { panic!("nobody came for a session in {PATIENCE:?}") };
    let (stream, peer) = fine("open_session", opened);
    assert_eq!(peer.backing_run, run);
    stream
}

/// PID 1 speaks first.
async fn speaks(stream: &mut dyn SessionStream) {
    let mut byte = [0];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await;
    assert!(matches!(read, Ok(Ok(1))), "PID 1 said nothing: {read:?}");
}

pub(super) async fn pid_1_gets_a_session(fixture: &dyn Fixture) -> Outcome {
    fixture.has_sessions()?;
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    speaks(&mut *session(&*driver, &wishes, &run).await).await;
    // The session broke; PID 1 comes again.
    speaks(&mut *session(&*driver, &wishes, &run).await).await;
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn a_second_process_gets_the_session_after_the_first_is_gone(
    fixture: &dyn Fixture,
) -> Outcome {
    fixture.has_sessions()?;
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    drop(session(&*driver, &wishes, &run).await);
    let next = fixture.reopened();
    speaks(&mut *session(&*next, &wishes, &run).await).await;
    fine("remove", next.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn a_process_inside_that_is_not_pid_1_gets_no_session(
    fixture: &dyn Fixture,
) -> Outcome {
    fixture.has_sessions()?;
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    // While PID 1 holds the session, an impostor comes and is alone in the queue.
    let mut held = session(&*driver, &wishes, &run).await;
    speaks(&mut *held).await;
    fixture.connect_from_inside(&wishes.id, &run).await?;
    let alone = tokio::time::timeout(Duration::from_secs(1), driver.open_session(&wishes.id, &run));
    if let Ok(opened) = alone.await {
        panic!("the impostor got a session: {:?}", opened.map(|(_, peer)| peer));
    }
    drop(held);
    speaks(&mut *session(&*driver, &wishes, &run).await).await;
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn a_session_of_an_ended_run_is_refused(fixture: &dyn Fixture) -> Outcome {
    fixture.has_sessions()?;
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let ended = wishes.running(&*driver).await;
    fine("kill", driver.kill(&wishes.id).await);
    let run = wishes.started(&*driver).await;
    for bad in [ended.as_str(), "", "nonsense"] {
        let opened = driver.open_session(&wishes.id, bad).await.map(|(_, peer)| peer);
        assert_eq!(refused("open_session", opened), ErrorKind::NotFound, "{bad:?}");
    }
    speaks(&mut *session(&*driver, &wishes, &run).await).await;
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}

pub(super) async fn waiting_for_a_session_ends_with_the_run(fixture: &dyn Fixture) -> Outcome {
    fixture.has_sessions()?;
    let (driver, wishes) = (fixture.driver(), Wishes::new(fixture, 1));
    let run = wishes.running(&*driver).await;
    let mut held = session(&*driver, &wishes, &run).await;
    speaks(&mut *held).await;
    let waiting = tokio::spawn({
        let (driver, id, run) = (driver.clone(), wishes.id.clone(), run.clone());
        async move { driver.open_session(&id, &run).await.map(|(_, peer)| peer) }
    });
    fixture.kill_pid_1(&wishes.id, &run).await?;
    let answer = tokio::time::timeout(PATIENCE, waiting).await;
    let answer = answer.unwrap_or_else(|_| panic!("it waits for a run that has ended"));
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(refused("open_session", answer), ErrorKind::NotFound);
    fine("remove", driver.remove(&wishes.id).await);
    Ok(())
}
