//! `create`: everything is checked before anything is stored, so a refused create holds no name.

use std::sync::Arc;

use sandkeep_core::{
    Activity, Attempt, Identity, Intent, Name, Observation, Operation, Record, SandboxId, Spec,
    Timestamp, Want, Workspace, WorkspaceId,
};

use super::made_up_name::made_up;
use super::wishes::Wishes;
use crate::drivers::Slot;
use crate::gateway::CreateSandbox;
use crate::refusal::{Refusal, RefusalKind};
use crate::registry::EngineIs;
use crate::shared::Shared;

/// Tries at a made-up name that nobody has.
const NAME_TRIES: usize = 16;

/// Makes the record; the reconciler does the rest. A repeated id answers with what is there.
pub(crate) async fn create(
    shared: &Arc<Shared>,
    request: CreateSandbox,
    by: &str,
) -> Result<SandboxId, Refusal> {
    if let Some(known) = repeated(shared, &request)? {
        return Ok(known);
    }
    let slot = driver(shared, request.driver.as_deref())?;
    super::check::check(&request.wishes, &slot.driver.capabilities(), &shared.home)?;
    let _one_at_a_time = shared.registry.creating().await;
    if let Some(known) = repeated(shared, &request)? {
        return Ok(known);
    }
    let name = name(shared, request.name.as_deref())?;
    if let Some(holder) = shared.registry.name_holder(&name) {
        return if request.reuse { Ok(holder) } else { Err(taken(&name)) };
    }
    let id = match request.id {
        Some(id) => id,
        None => SandboxId::from_random(random(shared)?),
    };
    let now = shared.clock.now();
    let (workspace, made) =
        workspace(shared, &request.workspace, request.new_workspace, &name, &id, &slot, now)?;
    let mut record =
        record(shared, id, name, slot.driver.name(), request.wishes, &workspace, made, by, now)?;
    let engine = begin(&mut record, &slot, &workspace, now);
    let message = format!("asked for by {by}");
    let passes = made || workspace.holder.as_ref() == Some(&record.id);
    crate::failpoint::hit("verb-create", "before");
    let stored = shared.registry.insert(record, passes.then_some(workspace), message, engine);
    let record =
        stored.await.map_err(|error| Refusal::of_store("the sandbox was not made", &error))?;
    crate::failpoint::hit("verb-create", "stored");
    shared.wake(&record.id);
    Ok(record.id.clone())
}

/// Stores the first try with the record itself, which saves a sync of the disk: when it is known
/// already on which engine it will be, so that this is durable before anything is done there.
fn begin(record: &mut Record, slot: &Slot, workspace: &Workspace, now: Timestamp) -> EngineIs {
    let Some(engine) = slot.compared_engine() else { return EngineIs::Seen };
    if workspace.engine.as_ref().is_some_and(|kept_by| *kept_by != engine) {
        return EngineIs::Seen;
    }
    record.observed.engine = Some(engine);
    record.attempt = Attempt::begun(Operation::BringUp, record.intent.generation, now);
    EngineIs::Presumed
}

fn repeated(shared: &Shared, request: &CreateSandbox) -> Result<Option<SandboxId>, Refusal> {
    let Some(id) = &request.id else { return Ok(None) };
    if shared.registry.record(id).is_some() {
        return Ok(Some(id.clone()));
    }
    if shared.registry.inner().tombstones.contains_key(id.as_str()) {
        return Err(Refusal::new(
            RefusalKind::Conflict,
            "AlreadyDeleted",
            "the sandbox was not made",
            format!("a sandbox with the id {id} was made and deleted before"),
            "use another request id",
        ));
    }
    Ok(None)
}

fn driver(shared: &Shared, name: Option<&str>) -> Result<Arc<Slot>, Refusal> {
    let found = match name {
        Some(name) => shared.drivers.get(name),
        None => shared.drivers.first(),
    };
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = shared.drivers.all().iter().map(|slot| slot.driver.name()).collect();
        Refusal::new(
            RefusalKind::Invalid,
            "UnknownDriver",
            "the sandbox was not made",
            format!("this gateway has no driver {:?}", name.unwrap_or_default()),
            format!("use one of: {}", known.join(", ")),
        )
    })
}

fn name(shared: &Shared, given: Option<&str>) -> Result<Name, Refusal> {
    if let Some(given) = given {
        return given.parse().map_err(|error: sandkeep_core::InvalidName| {
            Refusal::new(
                RefusalKind::Invalid,
                "InvalidName",
                format!("{given:?} cannot be a sandbox's name"),
                error.to_string(),
                "use up to 63 of a-z, 0-9 and -, not beginning or ending with -",
            )
        });
    }
    for _ in 0..NAME_TRIES {
        let bytes: [u8; 8] = random(shared)?;
        let name = made_up([bytes[0], bytes[1], bytes[2], bytes[3]]).parse::<Name>();
        let free = |name: &Name| {
            shared.registry.name_holder(name).is_none()
                && !shared.registry.inner().workspace_names.contains_key(name)
        };
        if let Some(name) = name.ok().filter(free) {
            return Ok(name);
        }
    }
    Err(Refusal::new(
        RefusalKind::Failed,
        "NoFreeName",
        "the sandbox was not made",
        "no free name was found",
        "give one: --name NAME",
    ))
}

fn taken(name: &Name) -> Refusal {
    Refusal::new(
        RefusalKind::AlreadyExists,
        "AlreadyExists",
        format!("sandbox {:?} was not made", name.as_str()),
        "a sandbox of this name exists",
        format!("use it (--reuse), or remove it first: sandkeep delete {name}"),
    )
}

/// The workspace of a new sandbox, and whether it is a new one.
#[allow(clippy::too_many_arguments, reason = "one place, all of it needed to choose")]
fn workspace(
    shared: &Shared,
    wanted: &Option<String>,
    new: bool,
    name: &Name,
    id: &SandboxId,
    slot: &Slot,
    now: Timestamp,
) -> Result<(Workspace, bool), Refusal> {
    if let Some(wanted) = wanted {
        return existing_workspace(shared, wanted, id, slot).map(|workspace| (workspace, false));
    }
    let mut workspace_name = name.clone();
    let taken = shared.registry.inner().workspace_names.get(name).cloned();
    if let Some(taken) = taken {
        // One that is on its way out is nobody's to use, so it is in nobody's way.
        if !new && !is_going(shared, &taken) {
            return Err(kept(name));
        }
        workspace_name = free_workspace_name(shared, name)?;
    }
    let workspace = Workspace {
        id: WorkspaceId::from_random(random(shared)?),
        name: workspace_name,
        driver: slot.driver.name().to_owned(),
        engine: None,
        created_at: now,
        marked: false,
        holder: Some(id.clone()),
        discard: false,
        handle: None,
        bytes: None,
        revision: 0,
    };
    Ok((workspace, true))
}

/// Whether the workspace is being discarded, or goes with the sandbox that holds it.
fn is_going(shared: &Shared, id: &WorkspaceId) -> bool {
    let goes = |user: &Record| user.intent.want == Want::Deleted && user.intent.discard_workspace;
    let users = shared.registry.users_of(id);
    let go_all = !users.is_empty() && users.iter().all(|user| goes(user));
    go_all || shared.registry.workspace(id).is_some_and(|workspace| workspace.discard)
}

fn existing_workspace(
    shared: &Shared,
    wanted: &str,
    id: &SandboxId,
    slot: &Slot,
) -> Result<Workspace, Refusal> {
    let found = shared.registry.resolve_workspace(wanted)?;
    let refuse = |reason, why: String, next: String| {
        Err(Refusal::new(RefusalKind::Conflict, reason, "the sandbox was not made", why, next))
    };
    if found.discard {
        let why = format!("the workspace {:?} is being discarded", found.name.as_str());
        return refuse("WorkspaceDiscarding", why, "use another workspace".to_owned());
    }
    if found.driver != slot.driver.name() {
        let why = format!("the workspace {:?} lies with the driver {}", wanted, found.driver);
        return refuse("WorkspaceElsewhere", why, format!("use --driver {}", found.driver));
    }
    let mut workspace = (*found).clone();
    if workspace.holder.is_none() {
        workspace.holder = Some(id.clone());
    }
    Ok(workspace)
}

fn kept(name: &Name) -> Refusal {
    Refusal::new(
        RefusalKind::AlreadyExists,
        "WorkspaceKept",
        format!("sandbox {:?} was not made", name.as_str()),
        "a workspace of this name is kept",
        format!("use it: --workspace {name}; or have a new one beside it: --new-workspace"),
    )
}

fn free_workspace_name(shared: &Shared, name: &Name) -> Result<Name, Refusal> {
    let inner = shared.registry.inner();
    for number in 2..10_000 {
        let suffix = format!("-{number}");
        let stem: String = name.as_str().chars().take(63 - suffix.len()).collect();
        let candidate = format!("{stem}{suffix}").parse::<Name>();
        if let Some(free) = candidate.ok().filter(|name| !inner.workspace_names.contains_key(name))
        {
            return Ok(free);
        }
    }
    Err(kept(name))
}

#[allow(clippy::too_many_arguments, reason = "a record has these parts")]
fn record(
    shared: &Shared,
    id: SandboxId,
    name: Name,
    driver: &str,
    wishes: Wishes,
    workspace: &Workspace,
    made: bool,
    by: &str,
    now: Timestamp,
) -> Result<Record, Refusal> {
    let spec: Spec = wishes.into_spec(workspace.id.clone(), workspace.name.clone(), made);
    let key: [[u8; 8]; 4] = [random(shared)?, random(shared)?, random(shared)?, random(shared)?];
    let session_key = key.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
    Ok(Record {
        identity: Identity { hostname: name.to_string(), session_key },
        id,
        name,
        driver: driver.to_owned(),
        created_at: now,
        intent: Intent::first(spec, by.to_owned(), now),
        observed: Observation::not_yet(now),
        attempt: Attempt::default(),
        activity: Activity::default(),
        revision: 0,
    })
}

fn random(shared: &Shared) -> Result<[u8; 8], Refusal> {
    shared.entropy.bytes().map_err(|error| {
        Refusal::new(
            RefusalKind::Failed,
            "NoRandomness",
            "the sandbox was not made",
            format!("the system gives no random bytes: {error}"),
            "try again",
        )
    })
}
