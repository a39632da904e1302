//! `explain` for people: asked, seen, what differs, why, what is waited for, what comes next.

use sandkeep_proto::v1::Explanation;

use super::time::{age, now_ms, rfc3339};
use super::{document, escape, json, phrases, result};
use crate::args::TextFormat;
use crate::error::Failure;

/// The whole answer.
pub(crate) fn page(explanation: Explanation, format: TextFormat) -> Result<(), Failure> {
    match format {
        TextFormat::Text => result(&text(&explanation, now_ms())),
        TextFormat::Json => document(&json::Explanation::from(explanation)),
    }
}

fn text(explanation: &Explanation, now: u64) -> String {
    let mut text = String::new();
    if let Some(sandbox) = &explanation.sandbox {
        text += &format!("{}\n", escape::line(&phrases::state(sandbox)));
    }
    section(&mut text, "Asked for", &explanation.asked);
    section(&mut text, "Seen", &explanation.seen);
    items(&mut text, "What differs", explanation.differs.iter().cloned());
    let causes = explanation.chain.iter().map(|cause| match rfc3339(cause.at_ms) {
        Some(at) => format!("{at} ({} ago)  {}", age(cause.at_ms, now), cause.text),
        None => cause.text.clone(),
    });
    items(&mut text, "Why", causes);
    section(&mut text, "Waits for", &explanation.waited_for);
    section(&mut text, "Next", &explanation.next);
    items(&mut text, "What you can do", explanation.choices.iter().cloned());
    text
}

fn section(text: &mut String, heading: &str, value: &str) {
    if !value.is_empty() {
        *text += &format!("{heading}:\n  {}\n", escape::line(value));
    }
}

fn items(text: &mut String, heading: &str, items: impl Iterator<Item = String>) {
    let lines: String = items.map(|item| format!("  {}\n", escape::line(&item))).collect();
    if !lines.is_empty() {
        *text += &format!("{heading}:\n{lines}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandkeep_proto::v1::{Cause, Sandbox};

    #[test]
    fn every_part_that_is_known_is_told_in_order() {
        let explanation = Explanation {
            sandbox: Some(Sandbox {
                name: "lab".into(),
                phase: "Error".into(),
                reason: "BackingOff".into(),
                ..Sandbox::default()
            }),
            asked: "running, since 22:00 by ann".into(),
            seen: "the backing is there and down".into(),
            differs: vec!["it should run and does not".into()],
            chain: vec![Cause { at_ms: 1000, text: "start failed".into() }],
            waited_for: "the next try".into(),
            next: "start again".into(),
            choices: vec!["sandkeep stop lab".into()],
        };
        let expect = "lab: Error (BackingOff)\nAsked for:\n  running, since 22:00 by ann\nSeen:\n  \
                      the backing is there and down\nWhat differs:\n  it should run and does not\nWhy:\n  \
                      1970-01-01T00:00:01.000Z (1s ago)  start failed\nWaits for:\n  the next try\nNext:\n  \
                      start again\nWhat you can do:\n  sandkeep stop lab\n";
        assert_eq!(text(&explanation, 2000), expect);
    }
}
