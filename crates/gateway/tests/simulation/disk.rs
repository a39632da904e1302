//! The disk under one gateway process: the store in memory, with commits counted among the effects
//! that can be disturbed, and out of reach once the process is dead.

use std::future::pending;

use async_trait::async_trait;
use sandkeep_core::SandboxId;
use sandkeep_driver::simulated::{Disturbance, World};
use sandkeep_store::{Change, Contents, Event, MemoryStore, Priority, Store, StoreError};

use crate::life::Life;

#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) store: MemoryStore,
    pub(crate) world: World,
    pub(crate) life: Life,
}

impl Disk {
    async fn commit_now(&self, priority: Priority, changes: Vec<Change>) -> Result<(), StoreError> {
        let fate = self.world.count_effect(&format!("commit of {}", names_of(&changes)));
        match fate {
            None => self.store.commit(priority, changes).await,
            Some(Disturbance::CrashBefore) => self.die("before a commit").await,
            Some(Disturbance::Error) => Err(unavailable("the disk failed by order")),
            Some(Disturbance::CrashAfter | Disturbance::LateAnswer(_)) => {
                self.store.commit(priority, changes).await?;
                self.die("after a commit").await
            }
            Some(Disturbance::DoneButTimedOut) => {
                self.store.commit(priority, changes).await?;
                Err(unavailable("the disk did not answer"))
            }
            Some(Disturbance::Twice) => {
                self.store.commit(priority, changes.clone()).await?;
                // A disk that is told twice refuses the second time: the revision has moved on.
                self.store.commit(priority, changes).await
            }
        }
    }

    async fn die<T>(&self, why: &str) -> T {
        self.world.order_crash(why);
        pending().await
    }
}

fn unavailable(message: &str) -> StoreError {
    StoreError::Unavailable { message: message.to_owned() }
}

fn names_of(changes: &[Change]) -> String {
    let name = |change: &Change| match change {
        Change::PutRecord(record) => format!("record {}", record.id),
        Change::BuryRecord { id, .. } => format!("burial {id}"),
        Change::PutWorkspace(workspace) => format!("workspace {}", workspace.name),
        Change::BuryWorkspace { tombstone, .. } => format!("workspace burial {}", tombstone.name),
        Change::DropTombstone { .. } => "tombstone dropped".to_owned(),
        Change::AppendEvent(event) => format!("event {}", event.reason),
        Change::PutMeta(_) => "meta".to_owned(),
    };
    changes.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[async_trait]
impl Store for Disk {
    async fn load(&self) -> Result<Contents, StoreError> {
        self.life.during(self.store.load()).await
    }

    async fn commit(&self, priority: Priority, changes: Vec<Change>) -> Result<(), StoreError> {
        self.life.during(self.commit_now(priority, changes)).await
    }

    async fn events(
        &self,
        sandbox: Option<&SandboxId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.life.during(self.store.events(sandbox, after, limit)).await
    }
}
