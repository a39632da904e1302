//! Values to store, each unlike the others by its number.

use sandkeep_core::{Observation, Record, SandboxId, Timestamp, Workspace, WorkspaceId};

use crate::{Event, Tombstone};

/// A record to store; `number` makes it unlike others.
pub fn record(number: u64) -> Record {
    let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let id = SandboxId::from_random(random);
    let name: sandkeep_core::Name = format!("box-{number}").parse().expect("a valid name");
    let at = Timestamp::from_millis(1_000 + number);
    // From JSON: what the core adds with a default need not be known here.
    let value = serde_json::json!({
        "id": id, "name": name, "driver": "local", "created_at": at,
        "identity": { "hostname": name, "session_key": "00".repeat(32) },
        "intent": {
            "want": "running", "generation": 1, "run": 1, "by": "uid:0", "at": at,
            "spec": {
                "image": "host", "command": ["sh", "-c", "echo hello"], "env": { "KEY": "value" },
                "workspace": WorkspaceId::from_random(random), "workspace_name": name,
                "limits": { "memory_bytes": 1_u64 << 30 }, "restart": "on-failure",
                "stop_grace_ms": 10_000,
            },
        },
        "observed": Observation::not_yet(at), "attempt": {},
    });
    serde_json::from_value(value).expect("a whole record")
}

/// A workspace to store.
pub fn workspace(number: u64) -> Workspace {
    let record = record(number);
    Workspace {
        id: record.intent.spec.workspace,
        name: record.name,
        driver: record.driver,
        engine: Some("engine".to_owned()),
        created_at: record.created_at,
        marked: true,
        holder: Some(record.id),
        discard: false,
        handle: Some("/somewhere".to_owned()),
        bytes: Some(u64::MAX >> 1),
        revision: 0,
    }
}

/// An event to append.
pub fn event(sandbox: Option<&Record>, message: impl Into<String>) -> Event {
    Event {
        sequence: 0,
        at: Timestamp::from_millis(5),
        sandbox: sandbox.map(|record| record.id.clone()),
        name: sandbox.map_or_else(String::new, |record| record.name.to_string()),
        reason: "Tried".to_owned(),
        message: message.into(),
        dropped: 0,
    }
}

/// What stays of `record`.
pub fn tombstone(record: &Record) -> Tombstone {
    Tombstone {
        id: record.id.to_string(),
        name: record.name.to_string(),
        driver: record.driver.clone(),
        generation: record.intent.generation,
        at: Timestamp::from_millis(9),
    }
}
