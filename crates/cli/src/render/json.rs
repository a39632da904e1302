//! The JSON documents of the contract: snake_case, RFC 3339 times, `null` for what is not known.
//! Fields are only ever added.

use std::collections::BTreeMap;

use sandkeep_proto::v1;
use serde::Serialize;

use super::time::rfc3339;

/// `list -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct SandboxList {
    sandboxes: Vec<Sandbox>,
}

impl From<Vec<v1::Sandbox>> for SandboxList {
    fn from(sandboxes: Vec<v1::Sandbox>) -> Self {
        Self { sandboxes: sandboxes.into_iter().map(Sandbox::from).collect() }
    }
}

/// `get -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct Sandbox {
    id: String,
    name: String,
    phase: String,
    reason: String,
    message: String,
    since: Option<String>,
    waits_for: Option<String>,
    next: Option<String>,
    next_at: Option<String>,
    intent: Intent,
    generation: u64,
    observed_generation: u64,
    driver: String,
    image: String,
    command: Vec<String>,
    labels: BTreeMap<String, String>,
    user: Option<String>,
    workdir: Option<String>,
    restart: String,
    limits: Limits,
    rm: bool,
    tty: bool,
    hostname: Option<String>,
    incarnation: u64,
    restarts: u64,
    workspace: Option<Workspace>,
    conditions: Vec<Condition>,
    last_error: Option<ErrorNote>,
    exit: Option<Exit>,
    created_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Intent {
    want: String,
    run: u64,
    by: Option<String>,
    at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Limits {
    cpu_millis: Option<u64>,
    memory_bytes: Option<u64>,
    pids: Option<u32>,
    disk_bytes: Option<u64>,
}

/// `workspace get -o json`, and the workspace of a sandbox.
#[derive(Debug, Serialize)]
pub(crate) struct Workspace {
    id: String,
    name: String,
    driver: String,
    state: String,
    holder: Option<String>,
    bytes: Option<u64>,
    path: Option<String>,
    created_at: Option<String>,
}

/// `workspace list -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct WorkspaceList {
    workspaces: Vec<Workspace>,
}

impl From<Vec<v1::Workspace>> for WorkspaceList {
    fn from(workspaces: Vec<v1::Workspace>) -> Self {
        Self { workspaces: workspaces.into_iter().map(Workspace::from).collect() }
    }
}

#[derive(Debug, Serialize)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    since: Option<String>,
}

#[derive(Debug, Serialize)]
struct ErrorNote {
    stage: String,
    reason: String,
    message: String,
    first_at: Option<String>,
    at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Exit {
    code: i32,
    signal: Option<i32>,
    oom: bool,
    finished_at: Option<String>,
    run: u64,
    spawn_error: Option<String>,
}

/// `events -o json`, a line each.
#[derive(Debug, Serialize)]
pub(crate) struct Event {
    sequence: u64,
    at: Option<String>,
    sandbox_id: String,
    sandbox_name: String,
    reason: String,
    message: String,
    dropped: u64,
}

/// `gateway status -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct GatewayStatus {
    pid: u32,
    home: String,
    version: String,
    gateway_id: String,
    drivers: Vec<Driver>,
    sandboxes: BTreeMap<String, u32>,
    hold: Option<Hold>,
    started_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Driver {
    name: String,
    reachable: bool,
    message: String,
    engine: Option<String>,
}

#[derive(Debug, Serialize)]
struct Hold {
    reason: String,
    message: String,
    found: Vec<String>,
    since: Option<String>,
}

/// `explain -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    sandbox: Option<Sandbox>,
    asked: String,
    seen: String,
    differs: Vec<String>,
    chain: Vec<Cause>,
    waited_for: String,
    next: String,
    choices: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Cause {
    at: Option<String>,
    text: String,
}

/// Empty means "none" on the wire.
fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Zero means "none" on the wire.
fn above_zero<T: Default + PartialEq>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}

impl From<v1::Sandbox> for Sandbox {
    fn from(s: v1::Sandbox) -> Self {
        let spec = s.spec.unwrap_or_default();
        Self {
            id: s.id,
            name: s.name,
            phase: s.phase,
            reason: s.reason,
            message: s.message,
            since: rfc3339(s.since_ms),
            waits_for: given(s.waits_for),
            next: given(s.next),
            next_at: rfc3339(s.next_at_ms),
            intent: Intent {
                want: s.want,
                run: s.run,
                by: given(s.asked_by),
                at: rfc3339(s.asked_at_ms),
            },
            generation: s.generation,
            observed_generation: s.observed_generation,
            driver: s.driver,
            image: spec.image,
            command: spec.command,
            labels: spec.labels.into_iter().collect(),
            user: given(spec.user),
            workdir: given(spec.workdir),
            restart: spec.restart,
            limits: Limits {
                cpu_millis: above_zero(spec.cpu_millis),
                memory_bytes: above_zero(spec.memory_bytes),
                pids: above_zero(spec.pids),
                disk_bytes: above_zero(spec.disk_bytes),
            },
            rm: spec.remove_when_done,
            tty: spec.tty,
            hostname: given(s.hostname),
            incarnation: s.incarnation,
            restarts: s.restarts,
            workspace: s.workspace.map(Workspace::from),
            conditions: s.conditions.into_iter().map(Condition::from).collect(),
            last_error: s.last_error.map(ErrorNote::from),
            exit: s.exit.map(Exit::from),
            created_at: rfc3339(s.created_at_ms),
        }
    }
}

impl From<v1::Workspace> for Workspace {
    fn from(w: v1::Workspace) -> Self {
        Self {
            id: w.id,
            name: w.name,
            driver: w.driver,
            state: w.state,
            holder: given(w.holder),
            bytes: w.bytes_known.then_some(w.bytes),
            path: given(w.path),
            created_at: rfc3339(w.created_at_ms),
        }
    }
}

impl From<v1::Condition> for Condition {
    fn from(c: v1::Condition) -> Self {
        Self {
            r#type: c.r#type,
            status: c.status,
            reason: c.reason,
            message: c.message,
            since: rfc3339(c.since_ms),
        }
    }
}

impl From<v1::ErrorNote> for ErrorNote {
    fn from(e: v1::ErrorNote) -> Self {
        Self {
            stage: e.stage,
            reason: e.reason,
            message: e.message,
            first_at: rfc3339(e.first_at_ms),
            at: rfc3339(e.at_ms),
        }
    }
}

impl From<v1::Exit> for Exit {
    fn from(e: v1::Exit) -> Self {
        Self {
            code: e.code,
            signal: above_zero(e.signal),
            oom: e.oom,
            finished_at: rfc3339(e.finished_at_ms),
            run: e.run,
            spawn_error: given(e.spawn_error),
        }
    }
}

impl From<v1::Event> for Event {
    fn from(e: v1::Event) -> Self {
        Self {
            sequence: e.sequence,
            at: rfc3339(e.at_ms),
            sandbox_id: e.sandbox_id,
            sandbox_name: e.sandbox_name,
            reason: e.reason,
            message: e.message,
            dropped: e.dropped,
        }
    }
}

impl From<v1::GatewayStatusResponse> for GatewayStatus {
    fn from(g: v1::GatewayStatusResponse) -> Self {
        let driver = |d: v1::DriverStatus| Driver {
            name: d.name,
            reachable: d.reachable,
            message: d.message,
            engine: given(d.engine),
        };
        let hold = |h: v1::Hold| Hold {
            reason: h.reason,
            message: h.message,
            found: h.found,
            since: rfc3339(h.since_ms),
        };
        Self {
            pid: g.pid,
            home: g.home,
            version: g.version,
            gateway_id: g.gateway_id,
            drivers: g.drivers.into_iter().map(driver).collect(),
            sandboxes: g.sandboxes.into_iter().collect(),
            hold: g.hold.map(hold),
            started_at: rfc3339(g.started_at_ms),
        }
    }
}

impl From<v1::Explanation> for Explanation {
    fn from(e: v1::Explanation) -> Self {
        let cause = |c: v1::Cause| Cause { at: rfc3339(c.at_ms), text: c.text };
        Self {
            sandbox: e.sandbox.map(Sandbox::from),
            asked: e.asked,
            seen: e.seen,
            differs: e.differs,
            chain: e.chain.into_iter().map(cause).collect(),
            waited_for: e.waited_for,
            next: e.next,
            choices: e.choices,
        }
    }
}

#[cfg(test)]
#[path = "json_golden.rs"]
mod golden;
