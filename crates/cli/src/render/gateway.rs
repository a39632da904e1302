//! The gateway's state for people and programs.

use sandkeep_proto::v1::GatewayStatusResponse;

use super::table::fields;
use super::time::{age, now_ms, rfc3339};
use super::{document, json, result};
use crate::args::TextFormat;
use crate::error::Failure;

/// `gateway status`.
pub(crate) fn status(status: GatewayStatusResponse, format: TextFormat) -> Result<(), Failure> {
    match format {
        TextFormat::Text => result(&text(&status, now_ms())),
        TextFormat::Json => document(&json::GatewayStatus::from(status)),
    }
}

fn text(status: &GatewayStatusResponse, now: u64) -> String {
    let drivers: Vec<String> = status
        .drivers
        .iter()
        .map(|driver| match (driver.reachable, driver.message.is_empty()) {
            (true, _) => driver.name.clone(),
            (false, true) => format!("{} (not reachable)", driver.name),
            (false, false) => format!("{} (not reachable: {})", driver.name, driver.message),
        })
        .collect();
    let mut phases: Vec<String> =
        status.sandboxes.iter().map(|(phase, count)| format!("{count} {phase}")).collect();
    phases.sort_by(|a, b| a.split(' ').nth(1).cmp(&b.split(' ').nth(1)));
    let started = rfc3339(status.started_at_ms)
        .map(|at| format!("{at} ({} ago)", age(status.started_at_ms, now)));
    let mut text = fields(&[
        ("Pid", status.pid.to_string()),
        ("Home", status.home.clone()),
        ("Version", status.version.clone()),
        ("Gateway id", status.gateway_id.clone()),
        ("Drivers", drivers.join(", ")),
        ("Sandboxes", if phases.is_empty() { "none".to_owned() } else { phases.join(", ") }),
        ("Started", started.unwrap_or_default()),
    ]);
    if let Some(hold) = &status.hold {
        text += &fields(&[("On hold", format!("{} ({})", hold.message, hold.reason))]);
        for found in &hold.found {
            text += &format!("  {}\n", super::escape::line(found));
        }
        text +=
            "  take it over: sandkeep gateway adopt\n  leave it alone: sandkeep gateway disown\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandkeep_proto::v1::{DriverStatus, Hold};

    #[test]
    fn a_gateway_on_hold_says_what_it_found_and_the_two_ways_out() {
        let status = GatewayStatusResponse {
            pid: 7,
            home: "/home".into(),
            version: "1".into(),
            drivers: vec![DriverStatus {
                name: "local".into(),
                reachable: true,
                ..Default::default()
            }],
            sandboxes: [("Ready".into(), 2), ("Error".into(), 1)].into(),
            hold: Some(Hold {
                reason: "StoreRolledBack".into(),
                message: "the store is older than what runs".into(),
                found: vec!["lab".into()],
                since_ms: 0,
            }),
            started_at_ms: 1000,
            gateway_id: "abc".into(),
        };
        let expect = "Pid:        7\nHome:       /home\nVersion:    1\nGateway id: abc\nDrivers:    local\n\
                      Sandboxes:  1 Error, 2 Ready\nStarted:    1970-01-01T00:00:01.000Z (1s ago)\n\
                      On hold: the store is older than what runs (StoreRolledBack)\n  lab\n  \
                      take it over: sandkeep gateway adopt\n  leave it alone: sandkeep gateway disown\n";
        assert_eq!(text(&status, 2000), expect);
    }
}
