//! Messages of clients, as what the gateway asks for. Every string is bounded here; what it means
//! is checked by [`verbs::check`](crate::verbs::check).

use std::collections::BTreeMap;

use sandkeep_core::{Image, Limits, Mount, Privilege, RestartPolicy, SandboxId};
use sandkeep_proto::v1;

use crate::gateway::{CreateSandbox, IntentVerb};
use crate::refusal::{Refusal, RefusalKind};
use crate::verbs::check::quoted;
use crate::verbs::wishes::Wishes;

/// Far longer than any name or id, short enough to be looked up and quoted without a thought.
const NAME_MAX_BYTES: usize = 256;

/// Labels of a selector; more than a sandbox can have selects nothing.
const SELECTOR_MAX: usize = 64;

/// As Docker: ten seconds for a main command to end by itself.
const DEFAULT_GRACE_MS: u64 = 10_000;

/// A name or an id in a request.
pub(crate) fn name<'a>(field: &str, text: &'a str) -> Result<&'a str, Refusal> {
    if text.is_empty() {
        return Err(refuse("NameMissing", format!("{field} is empty"), "give a name or an id"));
    }
    bounded(field, text)
}

/// As [`name`]; empty is `None`.
pub(crate) fn optional<'a>(field: &str, text: &'a str) -> Result<Option<&'a str>, Refusal> {
    if text.is_empty() { Ok(None) } else { bounded(field, text).map(Some) }
}

fn bounded<'a>(field: &str, text: &'a str) -> Result<&'a str, Refusal> {
    if text.len() <= NAME_MAX_BYTES {
        return Ok(text);
    }
    Err(refuse(
        "NameTooLong",
        format!("{field} has {} bytes; at most {NAME_MAX_BYTES} are taken", text.len()),
        "give a name or an id",
    ))
}

/// `start`, `stop` or `restart`.
pub(crate) fn verb(text: &str) -> Result<IntentVerb, Refusal> {
    match text {
        "start" => Ok(IntentVerb::Start),
        "stop" => Ok(IntentVerb::Stop),
        "restart" => Ok(IntentVerb::Restart),
        other => Err(refuse(
            "UnknownVerb",
            format!("there is no verb {}", quoted(other)),
            "use start, stop or restart",
        )),
    }
}

/// The selector of a list.
pub(crate) fn selector(
    selector: impl IntoIterator<Item = (String, String)>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let selector: BTreeMap<String, String> = selector.into_iter().collect();
    if selector.len() > SELECTOR_MAX {
        return Err(refuse(
            "SelectorTooLong",
            format!("{} labels are asked for; at most {SELECTOR_MAX} are taken", selector.len()),
            "select by fewer labels",
        ));
    }
    Ok(selector)
}

/// A request for a new sandbox.
pub(crate) fn create(request: v1::CreateRequest) -> Result<CreateSandbox, Refusal> {
    let spec = request.spec.ok_or_else(|| {
        refuse("SpecMissing", "the request has no spec", "use a client of this version")
    })?;
    Ok(CreateSandbox {
        id: request_id(&request.request_id)?,
        name: optional("the name", &request.name)?.map(str::to_owned),
        driver: optional("the driver", &request.driver)?.map(str::to_owned),
        workspace: optional("the workspace", &request.workspace)?.map(str::to_owned),
        new_workspace: request.new_workspace,
        reuse: request.reuse,
        wishes: wishes(spec)?,
    })
}

fn request_id(text: &str) -> Result<Option<SandboxId>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        refuse(
            "InvalidRequestId",
            format!("{} is not a request id", quoted(text)),
            "send 12 random characters of a-z and 2-7, or none",
        )
    })
}

fn wishes(spec: v1::Spec) -> Result<Wishes, Refusal> {
    Ok(Wishes {
        image: image(&spec.image),
        command: spec.command,
        env: spec.env.into_iter().collect(),
        user: Some(spec.user).filter(|user| !user.is_empty()),
        workdir: Some(spec.workdir).filter(|workdir| !workdir.is_empty()),
        limits: Limits {
            cpu_millis: Some(spec.cpu_millis).filter(|cpu| *cpu > 0),
            memory_bytes: Some(spec.memory_bytes).filter(|bytes| *bytes > 0),
            pids: Some(spec.pids).filter(|pids| *pids > 0),
            disk_bytes: Some(spec.disk_bytes).filter(|bytes| *bytes > 0),
        },
        restart: restart(&spec.restart)?,
        labels: spec.labels.into_iter().collect(),
        mounts: spec.mounts.into_iter().map(mount).collect(),
        tools: spec.tools,
        privileges: spec.privileges.iter().map(|p| privilege(p)).collect::<Result<_, _>>()?,
        unenforced: spec.unenforced,
        remove_when_done: spec.remove_when_done,
        tty: spec.tty,
        stdin: spec.stdin,
        attach: spec.attach,
        stop_grace_ms: match spec.stop_grace_ms {
            0 => DEFAULT_GRACE_MS,
            grace_ms => grace_ms,
        },
    })
}

fn image(text: &str) -> Image {
    match text.strip_prefix("dir:") {
        Some(directory) => Image::Directory(directory.to_owned()),
        None if text.is_empty() || text == "host" => Image::Host,
        None => Image::Oci(text.to_owned()),
    }
}

fn restart(text: &str) -> Result<RestartPolicy, Refusal> {
    match text {
        "never" => Ok(RestartPolicy::Never),
        "" | "on-failure" => Ok(RestartPolicy::OnFailure),
        "always" => Ok(RestartPolicy::Always),
        other => Err(refuse(
            "InvalidRestart",
            format!("there is no restart policy {}", quoted(other)),
            "use never, on-failure or always",
        )),
    }
}

fn mount(mount: v1::Mount) -> Mount {
    Mount { source: mount.source, target: mount.target, read_only: mount.read_only }
}

fn privilege(text: &str) -> Result<Privilege, Refusal> {
    match text {
        "packages" => Ok(Privilege::Packages),
        other => Err(refuse(
            "InvalidPrivileges",
            format!("there is no privilege {}", quoted(other)),
            "use packages",
        )),
    }
}

/// The id of an exec: `[a-z0-9-]{1,63}`.
pub(crate) fn exec_id(text: &str) -> Result<String, Refusal> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=63).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(refuse(
        "InvalidExecId",
        format!("{} is not the id of an exec", quoted(text)),
        "use 1 to 63 of a-z, 0-9 and -",
    ))
}

/// A refusal of a whole request.
pub(crate) fn refuse(
    reason: &'static str,
    why: impl Into<String>,
    next: impl Into<String>,
) -> Refusal {
    Refusal::new(RefusalKind::Invalid, reason, "the request was refused", why, next)
}
