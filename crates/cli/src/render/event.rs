//! The timeline, a line each: as it comes, so nothing waits for the widest cell.

use sandkeep_proto::v1::Event;

use super::time::rfc3339;
use super::{document_line, escape, json, result};
use crate::args::TextFormat;
use crate::error::Failure;

/// One event.
pub(crate) fn line(event: Event, format: TextFormat) -> Result<(), Failure> {
    match format {
        TextFormat::Text => result(&text(&event)),
        TextFormat::Json => document_line(&json::Event::from(event)),
    }
}

fn text(event: &Event) -> String {
    let mut text = String::new();
    if event.dropped > 0 {
        text += &format!("({} events were dropped here: the disk was full)\n", event.dropped);
    }
    let at = rfc3339(event.at_ms).unwrap_or_default();
    let name = if event.sandbox_name.is_empty() { "-" } else { &event.sandbox_name };
    let name = escape::line(name);
    let reason = escape::line(&event.reason);
    text += format!("{at}  {name:<20}  {reason:<24}  {}", escape::line(&event.message)).trim_end();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_and_tells_what_was_dropped_before_it() {
        let event = Event {
            at_ms: 1000,
            sandbox_name: "lab".into(),
            reason: "Ready".into(),
            message: "up\nagain".into(),
            dropped: 2,
            ..Event::default()
        };
        assert_eq!(
            text(&event),
            "(2 events were dropped here: the disk was full)\n\
             1970-01-01T00:00:01.000Z  lab                   Ready                     up\\nagain\n"
        );
    }
}
