//! `explain`: what the core says of the facts, and the newest part of the timeline as a chain of
//! causes. Looks at no engine.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use sandkeep_core::Attempt;
use sandkeep_proto::v1;

use crate::gateway::Gateway;
use crate::grpc::convert;
use crate::refusal::Refusal;

/// Newest causes shown; the whole timeline is what `events` is for.
const CAUSES_MAX: usize = 20;

/// The explanation of one sandbox.
pub(crate) async fn explain(gateway: &Gateway, name: &str) -> Result<v1::Explanation, Refusal> {
    let (snapshot, explanation) = gateway.explain(name)?;
    let record = Arc::clone(&snapshot.record);
    Ok(v1::Explanation {
        sandbox: Some(convert::sandbox(snapshot)),
        asked: explanation.asked,
        seen: explanation.seen,
        differs: explanation.differs,
        chain: chain(gateway, record.id.as_str(), &record.attempt).await?,
        waited_for: explanation.waited_for,
        next: explanation.next,
        choices: explanation.choices,
    })
}

/// What happened, oldest first, with the errors that the timeline may not hold any more.
async fn chain(gateway: &Gateway, id: &str, attempt: &Attempt) -> Result<Vec<v1::Cause>, Refusal> {
    let mut events = gateway.events(Some(id), false)?;
    let mut newest = VecDeque::new();
    while let Some(event) = events.next().await {
        let event = event?;
        if newest.len() == CAUSES_MAX {
            newest.pop_front();
        }
        let text = match event.message.as_str() {
            "" => event.reason,
            message => format!("{}: {message}", event.reason),
        };
        newest.push_back(v1::Cause { at_ms: event.at.as_millis(), text });
    }
    let mut causes: Vec<v1::Cause> = newest.into();
    let latest = attempt.latest_error.as_ref().filter(|l| attempt.first_error.as_ref() != Some(l));
    for (which, error) in [("first", attempt.first_error.as_ref()), ("latest", latest)] {
        let Some(error) = error else { continue };
        let text = format!("{which} error, {}: {}: {}", error.stage, error.reason, error.message);
        causes.push(v1::Cause { at_ms: error.at.as_millis(), text });
    }
    causes.sort_by_key(|cause| cause.at_ms);
    Ok(causes)
}
