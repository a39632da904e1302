//! `explain`: the facts of one sandbox and its timeline, told as a chain of causes.
//!
//! Says nothing that the view does not say: it decides nothing and looks at no engine.

use futures::StreamExt;
use sandkeep_core::{Backing, Phase, Status, Timestamp, Want};
use sandkeep_proto::v1;

use crate::gateway::{Gateway, Snapshot};
use crate::grpc::convert;
use crate::refusal::Refusal;

/// Newest causes shown; the whole timeline is what `events` is for.
const CAUSES_MAX: usize = 20;

/// The explanation of one sandbox.
pub(crate) async fn explain(gateway: &Gateway, name: &str) -> Result<v1::Explanation, Refusal> {
    let snapshot = gateway.get(name)?;
    let view = &snapshot.view;
    Ok(v1::Explanation {
        asked: asked(&snapshot),
        seen: seen(&snapshot),
        differs: differs(&snapshot),
        chain: chain(gateway, &snapshot).await?,
        waited_for: waited_for(&snapshot),
        next: view.next.clone(),
        choices: choices(&snapshot),
        sandbox: Some(convert::sandbox(&snapshot)),
    })
}

fn asked(snapshot: &Snapshot) -> String {
    let intent = &snapshot.record.intent;
    let run = match (intent.want, intent.spec.command.is_empty()) {
        (Want::Running, false) => format!(", run {} of its command", intent.run),
        _ => String::new(),
    };
    let want = convert::want(intent.want);
    format!("{want}{run}, by {} at {}", intent.by, time(intent.at))
}

fn seen(snapshot: &Snapshot) -> String {
    let observed = &snapshot.record.observed;
    let backing = match &observed.backing {
        Backing::Unknown { message, .. } => format!("not known: {message}"),
        Backing::Absent => "not there".to_owned(),
        Backing::Idle => "there, holding no compute".to_owned(),
        Backing::Starting => "starting".to_owned(),
        Backing::Running => "running".to_owned(),
        Backing::Paused => "frozen".to_owned(),
        Backing::Stopping => "stopping".to_owned(),
        Backing::Exited { code, oom, .. } => {
            let code = code.map_or_else(String::new, |code| format!(" with {code}"));
            let oom = if *oom { ", out of memory" } else { "" };
            format!("ended{code}{oom}, still on disk")
        }
        Backing::Removing => "being removed".to_owned(),
    };
    let fresh = if snapshot.live.looked { "" } else { ", before this gateway started" };
    let nth = match observed.incarnation {
        0 => String::new(),
        incarnation => format!(", incarnation {incarnation}"),
    };
    format!("backing {backing}{nth} (since {}{fresh})", time(observed.since))
}

fn differs(snapshot: &Snapshot) -> Vec<String> {
    let words = |condition: &sandkeep_core::Condition| {
        let message = match condition.message.as_str() {
            "" => String::new(),
            message => format!(": {message}"),
        };
        format!("{:?} is {:?}, {}{message}", condition.kind, condition.status, condition.reason)
    };
    let conditions = snapshot.view.conditions.iter();
    conditions.filter(|condition| condition.status != Status::True).map(words).collect()
}

async fn chain(gateway: &Gateway, snapshot: &Snapshot) -> Result<Vec<v1::Cause>, Refusal> {
    let mut events = gateway.events(Some(snapshot.record.id.as_str()), false)?;
    let mut causes = std::collections::VecDeque::new();
    while let Some(event) = events.next().await {
        let event = event?;
        if causes.len() == CAUSES_MAX {
            causes.pop_front();
        }
        let text = match event.message.as_str() {
            "" => event.reason,
            message => format!("{}: {message}", event.reason),
        };
        causes.push_back(v1::Cause { at_ms: event.at.as_millis(), text });
    }
    let attempt = &snapshot.record.attempt;
    let mut causes: Vec<v1::Cause> = causes.into();
    for (which, error) in [("first", &attempt.first_error), ("latest", &attempt.latest_error)] {
        let Some(error) = error else { continue };
        let text = format!("{which} error, {}: {}: {}", error.stage, error.reason, error.message);
        causes.push(v1::Cause { at_ms: error.at.as_millis(), text });
    }
    causes.sort_by_key(|cause| cause.at_ms);
    Ok(causes)
}

fn waited_for(snapshot: &Snapshot) -> String {
    let view = &snapshot.view;
    match convert::waits_for(view.waits_for) {
        "" => String::new(),
        who => format!("{who}: {}", view.reason),
    }
}

fn choices(snapshot: &Snapshot) -> Vec<String> {
    let name = &snapshot.record.name;
    let command = |words: &str| format!("sandkeep {words}");
    let mut choices = match snapshot.view.phase {
        Phase::Deleting => vec![
            command(&format!("wait {name} --for deleted")),
            command(&format!("delete {name} --forget")),
        ],
        Phase::Ready | Phase::Sleeping => {
            vec![command(&format!("exec {name} -- COMMAND")), command(&format!("stop {name}"))]
        }
        Phase::Stopped | Phase::Stopping | Phase::Completed => {
            vec![command(&format!("start {name}"))]
        }
        Phase::Error | Phase::Unknown | Phase::Provisioning | Phase::Starting => vec![
            command(&format!("restart {name}")),
            command(&format!("stop {name}")),
            command(&format!("logs {name}")),
        ],
    };
    if snapshot.view.phase != Phase::Deleting {
        choices.push(command(&format!("delete {name}")));
    }
    choices
}

/// RFC 3339 to the second; a time that the calendar does not have as milliseconds since 1970.
fn time(at: Timestamp) -> String {
    let seconds = i64::try_from(at.as_millis() / 1000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| format!("{} ms", at.as_millis()), |at| at.to_string())
}
