//! What must outlive the gateway: records, workspaces, tombstones, the timeline.
//!
//! Records are held in memory by the gateway; the store is read whole once at start and then only
//! written. Every write is a batch of [`Change`]s that holds as a whole or not at all, and is
//! durable when [`Store::commit`] returns.
//!
//! Deliberately absent: decisions, drivers, the network.

mod bounds;
mod change;
mod error;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod memory;
mod sqlite;

pub use bounds::EventBounds;
pub use change::{Change, Contents, Event, HomeDirectory, Meta, Priority, Tombstone};
pub use error::StoreError;
#[cfg(feature = "conformance")]
pub use memory::MemoryStore;
pub use sqlite::{Reserve, SqliteOptions, SqliteStore};

use async_trait::async_trait;

/// A durable store. One writer process at a time; [`StoreError::Locked`] names the other.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Everything but events, as one consistent view.
    async fn load(&self) -> Result<Contents, StoreError>;

    /// Makes `changes` durable, all or none. Records and workspaces are compared by revision: the
    /// stored one must have the revision that the given one carries, and gets the next one;
    /// revision 0 inserts, which is refused for an id that has a tombstone. Answered after the
    /// data is on disk. Dropping the future does not undo.
    async fn commit(&self, priority: Priority, changes: Vec<Change>) -> Result<(), StoreError>;

    /// Events with a sequence above `after`, oldest first, at most `limit`; of one sandbox (by id)
    /// or of all.
    async fn events(
        &self,
        sandbox: Option<&sandkeep_core::SandboxId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError>;
}
