//! The long answer to "why is it like this?": what was asked, what is seen, what differs, what is
//! waited for, what happens next and what the user may do. Built on [`decide`] and [`project`];
//! decides nothing.

use crate::condition::Reason;
use crate::decide::decide;
use crate::intent::Want;
use crate::live::{Live, Session};
use crate::observation::{Backing, WorkspaceSeen};
use crate::project::{Phase, View, WaitsFor, kind, project};
use crate::record::Record;
use crate::run::RunState;
use crate::time::Timestamp;

/// One sandbox explained, as sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What was asked for, and by whom.
    pub asked: String,
    /// What is seen.
    pub seen: String,
    /// What is not as asked for, most important first; empty: nothing.
    pub differs: Vec<String>,
    /// Who or what is waited for; empty: nobody and nothing.
    pub waited_for: String,
    /// What happens next; empty: nothing needs to.
    pub next: String,
    /// What the user may do, each a command; at least one while the sandbox is there.
    pub choices: Vec<String>,
}

/// Explains. Total and pure.
pub fn explain(record: &Record, live: &Live, now: Timestamp) -> Explanation {
    let view = project(record, live, now);
    let reason = decide(record, live, now).reason;
    Explanation {
        asked: asked(record),
        seen: seen(record, live),
        differs: differs(record, live, &view),
        waited_for: waited_for(&view).to_owned(),
        choices: choices(record, &view, reason),
        next: view.next,
    }
}

fn asked(record: &Record) -> String {
    let intent = &record.intent;
    let (want, more) = match intent.want {
        Want::Running => ("running", format!(", run {}", intent.run)),
        Want::Stopped => ("stopped", String::new()),
        Want::Deleted if intent.discard_workspace => {
            ("deleted", " together with its workspace".to_owned())
        }
        Want::Deleted => ("deleted", String::new()),
    };
    let by = &intent.by;
    format!("{want}{more} (generation {}, by {by})", intent.generation)
}

fn seen(record: &Record, live: &Live) -> String {
    let observed = &record.observed;
    let when = if live.looked && live.look_error.is_none() { "" } else { "when last seen, " };
    let session = match live.session {
        Session::Connected { incarnation, .. } if incarnation == observed.incarnation => {
            "its supervisor is connected"
        }
        _ => "no supervisor is connected",
    };
    let command = match RunState::of(record) {
        _ if record.intent.spec.command.is_empty() => "there is no main command",
        RunState::NotGiven => "the main command has had no go",
        RunState::Alive => "the main command had its go",
        RunState::Lost => "the main command was lost with an earlier backing",
        RunState::Ended(_) => "the main command has ended",
    };
    let backing = kind(&observed.backing);
    format!("{when}backing {backing} (incarnation {}); {session}; {command}", observed.incarnation)
}

fn differs(record: &Record, live: &Live, view: &View) -> Vec<String> {
    let mut differs = Vec::new();
    let settled = matches!(view.phase, Phase::Ready | Phase::Stopped | Phase::Sleeping);
    if !settled {
        differs.push(view.message.clone());
    }
    if record.observed.workspace == WorkspaceSeen::Missing && record.intent.want == Want::Running {
        differs.push("the workspace is missing".to_owned());
    }
    if record.observed.workspace_replaced {
        differs.push(
            "the workspace was replaced while it runs: what it writes now is not in the workspace; \
             take out what you need with exec, then restart it"
                .to_owned(),
        );
    }
    if live.gateway_hold {
        differs.push("the gateway is in hold and changes nothing on backends".to_owned());
    }
    let unenforced = &record.observed.unenforced_limits;
    if !unenforced.is_empty() {
        differs.push(format!("these limits are not enforced: {}", unenforced.join(", ")));
    }
    if let Some(missing) = live.told.missing_guards.as_ref().filter(|missing| !missing.is_empty()) {
        differs.push(format!("these guards are not up inside: {}", missing.join(", ")));
    }
    let carried = record.observed.generation.unwrap_or(u64::MAX);
    if carried < record.intent.spec_generation && record.observed.backing == Backing::Running {
        differs.push("the backing was made from an older spec; a restart applies it".to_owned());
    }
    differs.dedup();
    differs
}

const fn waited_for(view: &View) -> &'static str {
    match view.waits_for {
        None => "",
        Some(WaitsFor::Time) => "something under way, or the next try",
        Some(WaitsFor::Outside) => "something outside Sandkeep; it is looked at again by itself",
        Some(WaitsFor::User) => "you",
    }
}

fn choices(record: &Record, view: &View, reason: Reason) -> Vec<String> {
    // The name of a deleted sandbox may be another one's already.
    let deleted = record.intent.want == Want::Deleted;
    let name = if deleted { record.id.as_str() } else { record.name.as_str() };
    let command = |verb: &str| format!("sandkeep {verb} {name}");
    let hold = || vec!["sandkeep gateway adopt".to_owned(), "sandkeep gateway disown".to_owned()];
    let mut choices = match (reason, view.phase) {
        (Reason::GatewayOnHold | Reason::StoreRolledBack, Phase::Deleting) => return hold(),
        (Reason::GatewayOnHold | Reason::StoreRolledBack, _) => hold(),
        (_, Phase::Deleting) if view.waits_for == Some(WaitsFor::Outside) => {
            return vec![command("delete --forget")];
        }
        (_, Phase::Deleting) => return vec![command("wait --for deleted")],
        (_, Phase::Ready) => vec![command("exec"), command("stop"), command("restart")],
        (_, Phase::Stopped | Phase::Sleeping) => vec![command("start")],
        (_, Phase::Completed) => vec![command("start"), command("exec"), command("logs")],
        (Reason::CommandFailed, _) => vec![command("logs"), command("start"), command("exec")],
        (Reason::SessionLost, _) => vec![command("restart"), command("stop")],
        (_, Phase::Unknown) => vec![command("stop")],
        (_, Phase::Error) => vec![command("start"), command("stop")],
        _ => vec![command("wait --for ready"), command("stop")],
    };
    choices.push(command("delete"));
    choices
}
