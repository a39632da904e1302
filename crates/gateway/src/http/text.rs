//! Metrics in the text format of Prometheus, written by hand: a dozen lines need no library.

use std::collections::BTreeMap;
use std::fmt::Write;

use sandkeep_core::{Phase, Session};

use crate::gateway::{DriverState, Snapshot};
use crate::grpc::{Api, by_phase};
use crate::metrics::Metrics;

/// So that a phase with no sandbox is 0 and not absent.
const PHASES: [Phase; 10] = [
    Phase::Provisioning,
    Phase::Starting,
    Phase::Ready,
    Phase::Sleeping,
    Phase::Stopping,
    Phase::Stopped,
    Phase::Completed,
    Phase::Error,
    Phase::Deleting,
    Phase::Unknown,
];

/// Everything there is to tell, now.
pub(super) fn render(api: &Api) -> String {
    let mut page = Page::default();
    let version = api.about.version.as_str();
    page.head("sandkeep_build_info", "gauge", "The version that runs.");
    page.line("sandkeep_build_info", &[("version", version)], 1);
    page.head("sandkeep_start_time_ms", "gauge", "When the gateway started, ms since 1970.");
    page.line("sandkeep_start_time_ms", &[], api.about.started_at.as_millis());
    let snapshots = api.gateway.list(&BTreeMap::new());
    sandboxes(&mut page, &by_phase(&snapshots));
    let connected =
        |snapshot: &&Snapshot| matches!(snapshot.live.session, Session::Connected { .. });
    let connected = snapshots.iter().filter(connected).count() as u64;
    page.gauge("sandkeep_sessions_connected", "Sessions with supervisors.", connected);
    drivers(&mut page, &api.gateway.drivers());
    page.head("sandkeep_hold", "gauge", "1 while nothing is changed on backends.");
    page.line("sandkeep_hold", &[], u64::from(api.gateway.hold().is_some()));
    counted(&mut page, &api.metrics);
    page.text
}

fn sandboxes(page: &mut Page, counts: &BTreeMap<Phase, u32>) {
    page.head("sandkeep_sandboxes", "gauge", "Sandboxes by phase.");
    for phase in PHASES {
        let count = counts.get(&phase).copied().unwrap_or(0);
        page.line("sandkeep_sandboxes", &[("phase", &phase.to_string())], count.into());
    }
}

fn drivers(page: &mut Page, drivers: &[DriverState]) {
    page.head("sandkeep_driver_up", "gauge", "1 while the driver's engine answers.");
    for driver in drivers {
        let up = u64::from(driver.reachable);
        page.line("sandkeep_driver_up", &[("driver", &driver.name)], up);
    }
}

fn counted(page: &mut Page, metrics: &Metrics) {
    let startup = &metrics.startup;
    page.family("sandkeep_actions_total", "action", "Actions on backends.", &metrics.actions.get());
    page.family("sandkeep_api_calls_total", "method", "API calls.", &metrics.api_calls.get());
    let refusals = metrics.api_refusals.get();
    page.family("sandkeep_api_refusals_total", "reason", "API calls refused.", &refusals);
    let dropped = metrics.events_dropped.get();
    page.counter("sandkeep_events_dropped_total", "Events dropped on a full disk.", dropped);
    page.gauge("sandkeep_queue_depth", "Sandboxes that wait.", metrics.queue_depth.get());
    let errors = metrics.reconcile_errors.get();
    page.family("sandkeep_reconcile_errors_total", "kind", "Passes that failed.", &errors);
    let passes = metrics.reconcile_passes.get();
    page.counter("sandkeep_reconcile_passes_total", "Passes of the reconciler.", passes);
    let serving = startup.serving_after_ms.get();
    page.gauge("sandkeep_startup_serving_ms", "From start until the API answered.", serving);
    page.head("sandkeep_startup_sandboxes", "gauge", "How sandboxes were found at start.");
    for (outcome, gauge) in [
        ("resumed", &startup.resumed),
        ("recovered", &startup.recovered),
        ("waiting", &startup.waiting),
        ("failed", &startup.failed),
    ] {
        page.line("sandkeep_startup_sandboxes", &[("outcome", outcome)], gauge.get());
    }
    let commits = metrics.store_commits.get();
    page.counter("sandkeep_store_commits_total", "Batches made durable.", commits);
    let refused = metrics.store_errors.get();
    page.family("sandkeep_store_errors_total", "kind", "Batches refused.", &refused);
}

/// Lines of the format; a write to a `String` cannot fail.
#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _never = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.text.push_str(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            let open = if i == 0 { '{' } else { ',' };
            let _never = write!(self.text, "{open}{label}=\"{}\"", escape(value));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _never = writeln!(self.text, "{close} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.line(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.line(name, &[], value);
    }

    fn family(&mut self, name: &str, label: &str, help: &str, values: &BTreeMap<&str, u64>) {
        self.head(name, "counter", help);
        for (kind, count) in values {
            self.line(name, &[(label, kind)], *count);
        }
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_numbers_stand_alone() {
        let mut page = Page::default();
        page.line("a", &[], 1);
        page.line("b", &[("x", "q\"\\\n"), ("y", "")], 2);
        assert_eq!(page.text, "a 1\nb{x=\"q\\\"\\\\\\n\",y=\"\"} 2\n");
    }

    #[test]
    fn every_counter_is_told_with_help_and_type() {
        let metrics = Metrics::default();
        metrics.actions.increment("start");
        metrics.startup.recovered.set(3);
        let mut page = Page::default();
        counted(&mut page, &metrics);
        assert!(page.text.contains("sandkeep_actions_total{action=\"start\"} 1\n"));
        assert!(page.text.contains("sandkeep_startup_sandboxes{outcome=\"recovered\"} 3\n"));
        for line in page.text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(page.text.contains(&format!("# TYPE {name} ")), "{line}");
        }
    }
}
