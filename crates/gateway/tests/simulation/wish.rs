//! Requests that simulated users make.

use std::collections::BTreeMap;

use sandkeep_core::{Image, Limits, RestartPolicy, SandboxId};
use sandkeep_gateway::CreateSandbox;
use sandkeep_gateway::verbs::wishes::Wishes;

/// Wishes for a sandbox that runs `command`.
pub(crate) fn wishes(command: &str, restart: RestartPolicy) -> Wishes {
    Wishes {
        image: Image::Host,
        command: command.split_whitespace().map(str::to_owned).collect(),
        env: BTreeMap::new(),
        user: None,
        workdir: None,
        limits: Limits::default(),
        restart,
        labels: BTreeMap::new(),
        mounts: Vec::new(),
        tools: Vec::new(),
        privileges: Vec::new(),
        unenforced: true,
        remove_when_done: false,
        tty: false,
        stdin: false,
        attach: false,
        stop_grace_ms: 10_000,
    }
}

/// A request for a sandbox on `driver`.
pub(crate) fn request(id: &SandboxId, name: &str, driver: &str, wishes: Wishes) -> CreateSandbox {
    CreateSandbox {
        id: Some(id.clone()),
        name: Some(name.to_owned()),
        driver: Some(driver.to_owned()),
        workspace: None,
        new_workspace: true,
        reuse: false,
        wishes,
    }
}
