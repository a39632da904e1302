//! What the API calls: verbs and questions. Verbs change intent, durably, and wake the reconciler;
//! questions read memory and never an engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use sandkeep_core::{Live, Record, SandboxId, View, Workspace};
use sandkeep_store::Event;

use crate::refusal::Refusal;
use crate::verbs::wishes::Wishes;

/// The control plane of one home.
#[derive(Debug)]
pub struct Gateway {}

/// A request for a new sandbox.
#[derive(Debug, Clone)]
pub struct CreateSandbox {
    /// Chosen by the client, so that a repeated request makes nothing twice.
    pub id: Option<SandboxId>,
    /// As given; `None`: one is made up.
    pub name: Option<String>,
    /// `None`: the first driver.
    pub driver: Option<String>,
    /// An existing workspace to use.
    pub workspace: Option<String>,
    /// A new workspace even though one of the sandbox's name is kept.
    pub new_workspace: bool,
    /// An existing sandbox of that name is the answer.
    pub reuse: bool,
    /// What it should be like.
    pub wishes: Wishes,
}

/// The verbs that change what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentVerb {
    /// Up.
    Start,
    /// Down.
    Stop,
    /// Up anew.
    Restart,
}

/// One sandbox at one moment: facts, and the view derived from them.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The durable facts.
    pub record: Arc<Record>,
    /// The facts in memory.
    pub live: Live,
    /// What people see.
    pub view: View,
    /// Its workspace; `None`: there is no record of it any more.
    pub workspace: Option<WorkspaceView>,
}

/// A workspace at one moment.
#[derive(Debug, Clone)]
pub struct WorkspaceView {
    /// Its record.
    pub workspace: Workspace,
    /// `Pending, Bound, Kept, Missing, Discarding`.
    pub state: &'static str,
    /// Name of the sandbox that holds it.
    pub holder: Option<String>,
}

/// One driver's state.
#[derive(Debug, Clone)]
pub struct DriverState {
    /// Its name.
    pub name: String,
    /// The latest call was answered.
    pub reachable: bool,
    /// The engine's words when it was not.
    pub message: String,
    /// The engine's marker; `None`: not known yet.
    pub engine: Option<String>,
}

/// Why the gateway changes nothing on backends.
#[derive(Debug, Clone)]
pub struct HoldState {
    /// One CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// What was found, a line each.
    pub found: Vec<String>,
}

impl Gateway {
    /// Makes a sandbox. Answered once durable. A repeated id answers with what is there.
    pub async fn create(&self, request: CreateSandbox, by: &str) -> Result<Snapshot, Refusal> {
        let _unused = (request, by);
        unimplemented!()
    }

    /// start, stop, restart: by name (the newest of that name) or id.
    pub async fn set_intent(
        &self,
        name: &str,
        verb: IntentVerb,
        by: &str,
    ) -> Result<Snapshot, Refusal> {
        let _unused = (name, verb, by);
        unimplemented!()
    }

    /// delete: accepted in every state.
    pub async fn delete(
        &self,
        name: &str,
        discard_workspace: bool,
        forget: bool,
        by: &str,
    ) -> Result<Snapshot, Refusal> {
        let _unused = (name, discard_workspace, forget, by);
        unimplemented!()
    }

    /// One sandbox, by name (the newest of that name) or id.
    pub fn get(&self, name: &str) -> Result<Snapshot, Refusal> {
        let _unused = name;
        unimplemented!()
    }

    /// All sandboxes whose labels hold all of `selector`, by creation time, oldest first.
    pub fn list(&self, selector: &BTreeMap<String, String>) -> Vec<Snapshot> {
        let _unused = selector;
        unimplemented!()
    }

    /// The sandbox now, then after each change of its facts (a slow reader sees the newest only);
    /// `None` and the end once its record is gone.
    pub fn watch(&self, name: &str) -> Result<BoxStream<'static, Option<Snapshot>>, Refusal> {
        let _unused = name;
        unimplemented!()
    }

    /// The timeline, oldest first; with `follow` it goes on as things happen. Of one sandbox (by
    /// name or id, also of one that is gone, by id), or of all.
    pub fn events(
        &self,
        name: Option<&str>,
        follow: bool,
    ) -> Result<BoxStream<'static, Result<Event, Refusal>>, Refusal> {
        let _unused = (name, follow);
        unimplemented!()
    }

    /// All workspaces, by name.
    pub fn workspaces(&self) -> Vec<WorkspaceView> {
        unimplemented!()
    }

    /// One workspace, by name or id.
    pub fn workspace(&self, name: &str) -> Result<WorkspaceView, Refusal> {
        let _unused = name;
        unimplemented!()
    }

    /// Discards a workspace that nothing holds or refers to.
    pub async fn delete_workspace(&self, name: &str, by: &str) -> Result<WorkspaceView, Refusal> {
        let _unused = (name, by);
        unimplemented!()
    }

    /// The drivers and whether they answer.
    pub fn drivers(&self) -> Vec<DriverState> {
        unimplemented!()
    }

    /// Set while the gateway is in hold.
    pub fn hold(&self) -> Option<HoldState> {
        unimplemented!()
    }

    /// Ends the hold: what was found is ours again. Names of what was adopted.
    pub async fn adopt(&self, by: &str) -> Result<Vec<String>, Refusal> {
        let _unused = by;
        unimplemented!()
    }

    /// Ends the hold: what was found is left alone from now on. Names of what was disowned.
    pub async fn disown(&self, by: &str) -> Result<Vec<String>, Refusal> {
        let _unused = by;
        unimplemented!()
    }
}
