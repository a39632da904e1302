//! `start`, `stop`, `restart`: answered in every phase, idempotent, durable before the answer.

use std::sync::{Arc, Mutex, PoisonError};

use sandkeep_core::verb::{self, Asked, VerbError};
use sandkeep_core::{Intent, Record, SandboxId, WorkspaceSeen};
use sandkeep_store::Priority;

use crate::gateway::IntentVerb;
use crate::refusal::{Refusal, RefusalKind};
use crate::registry::{Changed, Draft};
use crate::shared::Shared;

/// Writes the new intent, if it is one, and wakes the reconciler either way.
pub(crate) async fn set_intent(
    shared: &Arc<Shared>,
    name: &str,
    verb: IntentVerb,
    by: &str,
) -> Result<SandboxId, Refusal> {
    let id = shared.registry.resolve(name)?;
    let asked = Asked { by: by.to_owned(), at: shared.clock.now() };
    let refused: Arc<Mutex<Option<VerbError>>> = Arc::default();
    let refusal = Arc::clone(&refused);
    let priority = match verb {
        IntentVerb::Stop => Priority::Reserve,
        IntentVerb::Start | IntentVerb::Restart => Priority::Normal,
    };
    crate::failpoint::hit(stage(verb), "before");
    let changed = shared.registry.change(&id, priority, move |draft| {
        match new_intent(&draft.record, verb, &asked) {
            Ok(Some(intent)) => apply(draft, intent, verb),
            Ok(None) => false,
            Err(error) => {
                *refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                false
            }
        }
    });
    let what = format!("{} of {name:?} was not taken", word(verb));
    let changed = changed.await.map_err(|error| Refusal::of_store(&what, &error))?;
    crate::failpoint::hit(stage(verb), "stored");
    if let Some(error) = refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(deleting(&what, &error));
    }
    if matches!(changed, Changed::Gone) {
        return Err(shared.registry.resolve(id.as_str()).err().unwrap_or_else(|| gone(name)));
    }
    shared.wake(&id);
    Ok(id)
}

fn new_intent(
    record: &Record,
    verb: IntentVerb,
    asked: &Asked,
) -> Result<Option<Intent>, VerbError> {
    match verb {
        IntentVerb::Start => verb::start(record, asked),
        IntentVerb::Stop => verb::stop(record, asked),
        IntentVerb::Restart => verb::restart(record, asked).map(Some),
    }
}

fn apply(draft: &mut Draft, intent: Intent, verb: IntentVerb) -> bool {
    let event = match verb {
        IntentVerb::Start => "StartAsked",
        IntentVerb::Stop => "StopAsked",
        IntentVerb::Restart => "RestartAsked",
    };
    draft.events.push((event, format!("asked for by {}", intent.by)));
    draft.record.intent = intent;
    if verb != IntentVerb::Stop {
        draft.record.activity.asleep_since = None;
        // Whatever was missing may be back: look again before saying so.
        if draft.record.observed.workspace == WorkspaceSeen::Missing {
            draft.record.observed.workspace = WorkspaceSeen::NotYet;
        }
    }
    true
}

const fn word(verb: IntentVerb) -> &'static str {
    match verb {
        IntentVerb::Start => "start",
        IntentVerb::Stop => "stop",
        IntentVerb::Restart => "restart",
    }
}

const fn stage(verb: IntentVerb) -> &'static str {
    match verb {
        IntentVerb::Start => "verb-start",
        IntentVerb::Stop => "verb-stop",
        IntentVerb::Restart => "verb-restart",
    }
}

fn deleting(what: &str, error: &VerbError) -> Refusal {
    let VerbError::Deleting { kept_workspace, .. } = error;
    let next = kept_workspace.as_ref().map_or_else(
        || "make a new one: sandkeep create".to_owned(),
        |workspace| {
            format!("its workspace is kept; use it: sandkeep create --workspace {workspace}")
        },
    );
    Refusal::new(RefusalKind::Conflict, "Deleting", what, error.to_string(), next)
}

fn gone(name: &str) -> Refusal {
    Refusal::new(
        RefusalKind::NotFound,
        "NotFound",
        format!("sandbox {name:?} was not found"),
        "it is gone",
        "see what there is: sandkeep list",
    )
}
