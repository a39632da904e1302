//! Sandboxes for people: the table of `list`, the page of `get`, and names.

use sandkeep_proto::v1::Sandbox;

use super::table::{Table, fields};
use super::time::{age, now_ms, rfc3339, until};
use super::{document, json, result};
use crate::args::Format;
use crate::error::Failure;

/// `list`.
pub(crate) fn list(sandboxes: Vec<Sandbox>, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => result(&table(&sandboxes, now_ms())),
        Format::Json => document(&json::SandboxList::from(sandboxes)),
        Format::Name => result(&names(&sandboxes)),
    }
}

/// `get`, and the results of verbs: `single` writes one document instead of a list of one.
pub(crate) fn pages(sandboxes: Vec<Sandbox>, single: bool, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => {
            let now = now_ms();
            let pages: Vec<String> = sandboxes.iter().map(|sandbox| page(sandbox, now)).collect();
            result(&pages.join("\n"))
        }
        Format::Json => one_or_many(sandboxes, single),
        Format::Name => result(&names(&sandboxes)),
    }
}

/// One document for one, a list for many.
pub(crate) fn one_or_many(mut sandboxes: Vec<Sandbox>, single: bool) -> Result<(), Failure> {
    match sandboxes.pop() {
        Some(one) if single && sandboxes.is_empty() => document(&json::Sandbox::from(one)),
        last => {
            sandboxes.extend(last);
            document(&json::SandboxList::from(sandboxes))
        }
    }
}

/// A line each.
pub(crate) fn names(sandboxes: &[Sandbox]) -> String {
    sandboxes.iter().map(|sandbox| super::escape::line(&sandbox.name) + "\n").collect()
}

/// `lab: Ready`, a line each.
pub(crate) fn outcomes(sandboxes: &[Sandbox]) -> String {
    let line = |sandbox| super::escape::line(&super::phrases::state(sandbox)) + "\n";
    sandboxes.iter().map(line).collect()
}

/// `lab: deleted`, a line each.
pub(crate) fn words(sandboxes: &[Sandbox], word: &str) -> String {
    let line = |sandbox: &Sandbox| format!("{}: {word}\n", super::escape::line(&sandbox.name));
    sandboxes.iter().map(line).collect()
}

fn table(sandboxes: &[Sandbox], now: u64) -> String {
    let mut table = Table::new(&["NAME", "PHASE", "REASON", "SINCE", "AGE", "DRIVER", "WORKSPACE"]);
    for sandbox in sandboxes {
        let reason = if sandbox.reason == sandbox.phase { "" } else { &sandbox.reason };
        table.row([
            sandbox.name.clone(),
            sandbox.phase.clone(),
            reason.to_owned(),
            age(sandbox.since_ms, now),
            age(sandbox.created_at_ms, now),
            sandbox.driver.clone(),
            sandbox.workspace.as_ref().map(|w| w.name.clone()).unwrap_or_default(),
        ]);
    }
    table.text()
}

fn page(sandbox: &Sandbox, now: u64) -> String {
    let spec = sandbox.spec.clone().unwrap_or_default();
    let when = |at_ms| match rfc3339(at_ms) {
        Some(at) => format!("{at} ({} ago)", age(at_ms, now)),
        None => String::new(),
    };
    let next = match sandbox.next_at_ms {
        0 => sandbox.next.clone(),
        at => format!("{} ({})", sandbox.next, until(at, now)),
    };
    let mut labels: Vec<String> = spec.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    labels.sort();
    let mut text = fields(&[
        ("Name", sandbox.name.clone()),
        ("Id", sandbox.id.clone()),
        ("Phase", phase_line(sandbox)),
        ("Since", when(sandbox.since_ms)),
        ("Waits for", sandbox.waits_for.clone()),
        ("Next", next),
        ("Wanted", format!("{}, run {}", sandbox.want, sandbox.run)),
        ("Driver", sandbox.driver.clone()),
        ("Image", spec.image),
        ("Command", shell_words(&spec.command)),
        ("Restart", spec.restart),
        ("Labels", labels.join(", ")),
        ("Workspace", workspace_line(sandbox)),
        ("Incarnation", format!("{} (healed {} times)", sandbox.incarnation, sandbox.restarts)),
        ("Exit", exit_line(sandbox)),
        ("Last error", error_line(sandbox, now)),
        ("Created", when(sandbox.created_at_ms)),
    ]);
    if !sandbox.conditions.is_empty() {
        let mut table = Table::new(&["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
        for condition in &sandbox.conditions {
            table.row([
                condition.r#type.clone(),
                condition.status.clone(),
                condition.reason.clone(),
                age(condition.since_ms, now),
                condition.message.clone(),
            ]);
        }
        text += &table.text();
    }
    text
}

fn phase_line(sandbox: &Sandbox) -> String {
    super::phrases::state_of(sandbox)
}

fn workspace_line(sandbox: &Sandbox) -> String {
    let Some(workspace) = &sandbox.workspace else { return String::new() };
    let mut line = format!("{} ({})", workspace.name, workspace.state);
    if !workspace.path.is_empty() {
        line += &format!(" at {}", workspace.path);
    }
    line
}

fn exit_line(sandbox: &Sandbox) -> String {
    let Some(exit) = &sandbox.exit else { return String::new() };
    let mut line = exit.code.to_string();
    if exit.signal != 0 {
        line += &format!(", by signal {}", exit.signal);
    }
    if exit.oom {
        line += ", out of memory";
    }
    if !exit.spawn_error.is_empty() {
        line += &format!(", {}", exit.spawn_error);
    }
    line
}

fn error_line(sandbox: &Sandbox, now: u64) -> String {
    let Some(error) = &sandbox.last_error else { return String::new() };
    let ago = age(error.at_ms, now);
    format!("{}: {} ({}, {ago} ago)", error.stage, error.message, error.reason)
}

/// The command as it could be typed.
pub(crate) fn shell_words(argv: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    let words = argv.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "sandbox_golden.rs"]
mod golden;
