//! Engines, what they hold, and the way a driver reaches one.

use std::collections::BTreeMap;
use std::time::Duration;

use sandkeep_core::{GatewayId, Name, SandboxId, WorkspaceId};
use tokio::sync::mpsc::UnboundedSender;

use super::backing::SimBacking;
use crate::WatchEvent;

/// Whether an engine can be reached, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It answers.
    Up,
    /// It refuses connections.
    Down,
    /// It takes a call and says nothing until that ends.
    Hung,
    /// It answers, this much later.
    Slow(Duration),
}

/// A workspace as an engine keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimWorkspace {
    /// Whose it is, by its mark.
    pub gateway: GatewayId,
    /// Its name, by its mark.
    pub name: Name,
    /// It carries its mark.
    pub marked: bool,
    /// Everything that was written into it, oldest first.
    pub content: Vec<u64>,
}

/// One engine: a place that backings and workspaces are on.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// Backings by sandbox.
    pub backings: BTreeMap<SandboxId, SimBacking>,
    /// Workspaces by id.
    pub workspaces: BTreeMap<WorkspaceId, SimWorkspace>,
    /// It has no room for anything new.
    pub full: bool,
}

/// The way of one driver to an engine.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// Name of the engine it leads to, which is also that engine's identity.
    pub(super) engine: String,
    pub(super) reach: Reach,
    pub(super) subscribers: Vec<UnboundedSender<WatchEvent>>,
}

impl Endpoint {
    /// Whether calls get through.
    pub(super) const fn answers(&self) -> bool {
        matches!(self.reach, Reach::Up | Reach::Slow(_))
    }
}
