//! Verbs that wait: for how long, for what, and what ends them.

use tokio::io::AsyncReadExt;

use crate::exec::interrupt;
use crate::fake::Fake;
use crate::process::{end, sandkeep, start};

fn pending(fake: &Fake) {
    fake.becomes(|sandbox| {
        sandbox.phase = "Starting".into();
        sandbox.reason = "WaitingForSupervisor".into();
        sandbox.waits_for = "time".into();
    });
}

#[tokio::test]
async fn a_wait_ends_when_the_goal_is_met() {
    let fake = Fake::start();
    pending(&fake);
    let mut child = start(&fake, &["start", "lab"]);
    let told = "lab: Starting (WaitingForSupervisor)\n";
    let mut progress = vec![0; told.len()];
    child.stderr.as_mut().unwrap().read_exact(&mut progress).await.unwrap();
    assert_eq!(String::from_utf8(progress).unwrap(), told);
    fake.becomes(|sandbox| *sandbox = crate::fake::ready());
    let ended = end(child).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "lab: Ready\n"));
    assert_eq!(ended.stderr, "");
}

#[tokio::test]
async fn waiting_for_the_user_is_1_and_a_time_out_is_6() {
    let fake = Fake::start();
    pending(&fake);
    let ended = sandkeep(&fake, &["start", "-q", "lab", "--timeout", "50ms"]).await;
    assert_eq!(ended.code, 6);
    assert!(ended.stderr.contains("next: the work goes on; to wait again"), "{}", ended.stderr);
    assert!(ended.stderr.contains("why: Starting (WaitingForSupervisor)"), "{}", ended.stderr);
    fake.becomes(|sandbox| {
        sandbox.phase = "Error".into();
        sandbox.reason = "WorkspaceMissing".into();
        sandbox.message = "the workspace is gone".into();
        sandbox.waits_for = "user".into();
    });
    let ended = sandkeep(&fake, &["restart", "lab"]).await;
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("  why: the workspace is gone\n"), "{}", ended.stderr);
}

#[tokio::test]
async fn without_waiting_the_answer_is_enough() {
    let fake = Fake::start();
    pending(&fake);
    let ended = sandkeep(&fake, &["stop", "--no-wait", "lab"]).await;
    assert_eq!(ended.code, 0);
    assert_eq!(fake.asked(), ["stop lab"]);
}

#[tokio::test]
async fn ctrl_c_ends_the_waiting_and_says_that_the_work_goes_on() {
    let fake = Fake::start();
    pending(&fake);
    let child = start(&fake, &["stop", "lab"]);
    fake.until("it watches", || fake.asked().contains(&"watch abcdefghijkl".into())).await;
    // The signal is heard from the moment on at which the wait began, before it watched.
    interrupt(&child);
    let ended = end(child).await;
    assert_eq!(ended.code, 130);
    assert!(ended.stderr.contains("Ctrl-C ends the waiting, not the work"), "{}", ended.stderr);
}

#[tokio::test]
async fn delete_waits_until_the_record_is_gone_and_tells_of_the_kept_workspace() {
    let fake = Fake::start();
    let child = start(&fake, &["delete", "lab"]);
    fake.until("it watches", || fake.asked().contains(&"watch abcdefghijkl".into())).await;
    fake.goes();
    let ended = end(child).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "lab: deleted\n"));
    assert!(ended.stderr.contains("sandkeep create --workspace lab"), "{}", ended.stderr);
    assert!(ended.stderr.contains("sandkeep workspace delete lab"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_sandbox_that_goes_while_waited_for_is_3_and_for_deleted_it_is_0() {
    let fake = Fake::start();
    pending(&fake);
    let child = start(&fake, &["wait", "lab"]);
    fake.until("it watches", || fake.asked().contains(&"watch abcdefghijkl".into())).await;
    fake.goes();
    assert_eq!(end(child).await.code, 3);
    assert_eq!(sandkeep(&fake, &["wait", "lab", "--for", "deleted"]).await.code, 0);
    assert_eq!(sandkeep(&fake, &["wait", "lab"]).await.code, 3);
}

#[tokio::test]
async fn a_condition_can_be_waited_for() {
    let fake = Fake::start();
    pending(&fake);
    let child = start(&fake, &["wait", "-q", "lab", "--for", "condition=Connected"]);
    fake.until("it watches", || fake.asked().contains(&"watch abcdefghijkl".into())).await;
    fake.becomes(|sandbox| {
        sandbox.conditions = vec![sandkeep_proto::v1::Condition {
            r#type: "Connected".into(),
            status: "True".into(),
            ..Default::default()
        }];
    });
    assert_eq!(end(child).await.code, 0);
}
