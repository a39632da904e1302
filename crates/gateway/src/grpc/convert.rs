//! What the gateway knows, as messages of the interface. Total: every record has a message.

use sandkeep_core as core;
use sandkeep_core::{Image, Phase, Privilege, RestartPolicy, Timestamp, WaitsFor, Want};
use sandkeep_proto::v1;

use crate::gateway::{DriverState, HoldState, Snapshot, WorkspaceView};

/// One sandbox. Takes the view apart: a list has thousands of them.
pub(crate) fn sandbox(mut snapshot: Snapshot) -> v1::Sandbox {
    let workspace = snapshot.workspace.take().map(self::workspace);
    let next = std::mem::take(&mut snapshot.view.next);
    let conditions = std::mem::take(&mut snapshot.view.conditions);
    let next_at_ms = snapshot.view.next_at.map_or(0, Timestamp::as_millis);
    let (record, intent) = (&snapshot.record, &snapshot.record.intent);
    v1::Sandbox {
        next,
        next_at_ms,
        spec: Some(spec(&intent.spec)),
        workspace,
        conditions: conditions.into_iter().map(condition).collect(),
        last_error: last_error(&record.attempt),
        exit: record.observed.result.as_ref().filter(|r| r.run == intent.run).map(exit),
        hostname: record.identity.hostname.clone(),
        asked_by: intent.by.clone(),
        asked_at_ms: intent.at.as_millis(),
        ..brief(snapshot)
    }
}

/// One sandbox as far as a table shows it: most of the time of a long list goes into the rest.
pub(crate) fn brief(snapshot: Snapshot) -> v1::Sandbox {
    let observed_generation = observed_generation(&snapshot);
    let Snapshot { record, view, workspace, .. } = snapshot;
    let intent = &record.intent;
    v1::Sandbox {
        id: record.id.to_string(),
        name: record.name.to_string(),
        phase: view.phase.to_string(),
        reason: view.reason,
        message: view.message,
        since_ms: view.since.as_millis(),
        waits_for: waits_for(view.waits_for).to_owned(),
        want: want(intent.want).to_owned(),
        run: intent.run,
        generation: intent.generation,
        observed_generation,
        driver: record.driver.clone(),
        incarnation: record.observed.incarnation,
        restarts: record.observed.restarts,
        workspace: workspace.map(|view| v1::Workspace {
            id: view.workspace.id.into(),
            name: view.workspace.name.into(),
            state: view.state.to_owned(),
            ..v1::Workspace::default()
        }),
        created_at_ms: record.created_at.as_millis(),
        revision: record.revision,
        ..v1::Sandbox::default()
    }
}

/// The newest generation that the view speaks of: the current one once this process has looked
/// since it was asked for, before that the newest that anything was tried for or seen with.
fn observed_generation(snapshot: &Snapshot) -> u64 {
    let record = &snapshot.record;
    let current = record.intent.generation;
    if snapshot.live.looked {
        return current;
    }
    record.observed.generation.unwrap_or(0).max(record.attempt.generation).min(current)
}

/// The word of the interface.
pub(crate) const fn waits_for(waits_for: Option<WaitsFor>) -> &'static str {
    match waits_for {
        None => "",
        Some(WaitsFor::Time) => "time",
        Some(WaitsFor::Outside) => "outside",
        Some(WaitsFor::User) => "user",
    }
}

/// The word of the interface.
pub(crate) const fn want(want: Want) -> &'static str {
    match want {
        Want::Running => "Running",
        Want::Stopped => "Stopped",
        Want::Deleted => "Deleted",
    }
}

fn spec(spec: &core::Spec) -> v1::Spec {
    v1::Spec {
        image: match &spec.image {
            Image::Host => "host".to_owned(),
            Image::Directory(directory) => format!("dir:{directory}"),
            Image::Oci(reference) => reference.clone(),
        },
        command: spec.command.clone(),
        env: spec.env.clone().into_iter().collect(),
        user: spec.user.clone().unwrap_or_default(),
        workdir: spec.workdir.clone().unwrap_or_default(),
        cpu_millis: spec.limits.cpu_millis.unwrap_or(0),
        memory_bytes: spec.limits.memory_bytes.unwrap_or(0),
        pids: spec.limits.pids.unwrap_or(0),
        disk_bytes: spec.limits.disk_bytes.unwrap_or(0),
        restart: match spec.restart {
            RestartPolicy::Never => "never",
            RestartPolicy::OnFailure => "on-failure",
            RestartPolicy::Always => "always",
        }
        .to_owned(),
        labels: spec.labels.clone().into_iter().collect(),
        mounts: spec.mounts.iter().map(mount).collect(),
        tools: spec.tools.clone(),
        privileges: spec.privileges.iter().map(privilege).collect(),
        unenforced: spec.unenforced,
        remove_when_done: spec.remove_when_done,
        tty: spec.tty,
        stdin: spec.stdin,
        attach: spec.attach,
        stop_grace_ms: spec.stop_grace_ms,
    }
}

fn mount(mount: &core::Mount) -> v1::Mount {
    v1::Mount {
        source: mount.source.clone(),
        target: mount.target.clone(),
        read_only: mount.read_only,
    }
}

fn privilege(privilege: &Privilege) -> String {
    match privilege {
        Privilege::Packages => "packages".to_owned(),
    }
}

fn condition(condition: core::Condition) -> v1::Condition {
    v1::Condition {
        r#type: format!("{:?}", condition.kind),
        status: format!("{:?}", condition.status),
        reason: condition.reason,
        message: condition.message,
        since_ms: condition.since.as_millis(),
    }
}

fn last_error(attempt: &core::Attempt) -> Option<v1::ErrorNote> {
    let latest = attempt.latest_error.as_ref().or(attempt.first_error.as_ref())?;
    let first = attempt.first_error.as_ref().unwrap_or(latest);
    Some(v1::ErrorNote {
        stage: latest.stage.clone(),
        reason: latest.reason.clone(),
        message: latest.message.clone(),
        first_at_ms: first.at.as_millis(),
        at_ms: latest.at.as_millis(),
    })
}

fn exit(result: &core::RunResult) -> v1::Exit {
    v1::Exit {
        code: result.code,
        signal: result.signal.unwrap_or(0),
        oom: result.oom,
        finished_at_ms: result.finished_at.as_millis(),
        run: result.run,
        spawn_error: result.spawn_error.clone().unwrap_or_default(),
    }
}

/// One workspace.
pub(crate) fn workspace(view: WorkspaceView) -> v1::Workspace {
    let workspace = view.workspace;
    v1::Workspace {
        id: workspace.id.into(),
        name: workspace.name.into(),
        driver: workspace.driver,
        state: view.state.to_owned(),
        holder: view.holder.unwrap_or_default(),
        path: workspace.handle.unwrap_or_default(),
        bytes: workspace.bytes.unwrap_or(0),
        created_at_ms: workspace.created_at.as_millis(),
        bytes_known: workspace.bytes.is_some(),
    }
}

/// One line of the timeline.
pub(crate) fn event(event: &sandkeep_store::Event) -> v1::Event {
    v1::Event {
        sequence: event.sequence,
        at_ms: event.at.as_millis(),
        sandbox_id: event.sandbox.as_ref().map(ToString::to_string).unwrap_or_default(),
        sandbox_name: event.name.clone(),
        reason: event.reason.clone(),
        message: event.message.clone(),
        dropped: event.dropped,
    }
}

/// One driver.
pub(crate) fn driver(state: DriverState) -> v1::DriverStatus {
    v1::DriverStatus {
        name: state.name,
        reachable: state.reachable,
        message: state.message,
        engine: state.engine.unwrap_or_default(),
    }
}

/// The hold.
pub(crate) fn hold(state: HoldState) -> v1::Hold {
    let HoldState { reason, message, found, since } = state;
    v1::Hold { reason, message, found, since_ms: since.as_millis() }
}

/// How many sandboxes are in each phase; phases with none are left out.
pub(crate) fn by_phase(snapshots: &[Snapshot]) -> std::collections::BTreeMap<Phase, u32> {
    let mut counts = std::collections::BTreeMap::new();
    for snapshot in snapshots {
        *counts.entry(snapshot.view.phase).or_default() += 1;
    }
    counts
}
