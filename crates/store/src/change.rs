//! What a store holds, and the changes that can be made to it.

use sandkeep_core::{GatewayId, Record, SandboxId, Timestamp, Workspace, WorkspaceId};
use serde::{Deserialize, Serialize};

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Insert (revision 0) or replace (the stored revision must be equal). Stored with revision + 1.
    PutRecord(Box<Record>),
    /// The record goes; a tombstone stays.
    BuryRecord {
        /// Which.
        id: SandboxId,
        /// Its revision as stored.
        revision: u64,
        /// What stays.
        tombstone: Tombstone,
    },
    /// Insert or replace, as with records.
    PutWorkspace(Box<Workspace>),
    /// The workspace was discarded; a tombstone stays.
    BuryWorkspace {
        /// Which.
        id: WorkspaceId,
        /// Its revision as stored.
        revision: u64,
        /// What stays.
        tombstone: Tombstone,
    },
    /// A tombstone that nothing carries any more, older than its keeping time.
    DropTombstone {
        /// The id it was for.
        id: String,
    },
    /// A line of the timeline; its sequence is given by the store.
    AppendEvent(Event),
    /// Replace the gateway's own facts.
    PutMeta(Meta),
}

/// How urgent a batch is when the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Refused with `DiskFull` while the reserve is all that is left.
    Normal,
    /// Stop, delete, observations: may use the reserve. Its events are dropped first and counted.
    Reserve,
}

/// What stays of a deleted sandbox or workspace, so that leftovers are known for ours and dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The sandbox's or workspace's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Generation at the end; a backing with a higher one proves that this store was rolled back.
    pub generation: u64,
    /// When it went.
    pub at: Timestamp,
}

/// A line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Given by the store, rising; 0 before.
    pub sequence: u64,
    /// When.
    pub at: Timestamp,
    /// The sandbox's id; `None`: the gateway itself.
    pub sandbox: Option<SandboxId>,
    /// Its name then.
    pub name: String,
    /// One CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Events that were dropped before this one because the disk was full.
    #[serde(default)]
    pub dropped: u64,
}

/// Which directory a home is: the same after a rename and after a reboot, another one for a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeDirectory {
    /// Its inode number.
    pub inode: u64,
    /// The file system's id. `None`: it may be another one after a reboot.
    #[serde(default)]
    pub file_system: Option<u64>,
}

/// The gateway's own durable facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Made once with the home; everything on a backend carries it.
    pub gateway: GatewayId,
    /// Machine id of the machine that the home was last opened on.
    pub machine: String,
    /// The directory that the home was last opened in. `None`: an older build wrote it, or the
    /// file system does not number its directories for good.
    #[serde(default)]
    pub directory: Option<HomeDirectory>,
    /// Set while the gateway is in hold: why.
    #[serde(default)]
    pub hold: Option<String>,
    /// When the hold began; `EPOCH`: there is none, or an older build wrote it.
    #[serde(default)]
    pub hold_since: Timestamp,
    /// Ids of backings and workspaces that were disowned: seen, not ours any more, left alone.
    #[serde(default)]
    pub disowned: Vec<String>,
}

/// Everything but events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// By id.
    pub records: Vec<Record>,
    /// By id.
    pub workspaces: Vec<Workspace>,
    /// By id.
    pub tombstones: Vec<Tombstone>,
    /// `None`: a new store.
    pub meta: Option<Meta>,
}
