//! The SQLite store under the suite of all stores.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use async_trait::async_trait;
use sandkeep_store::conformance::Place;
use sandkeep_store::{EventBounds, SqliteOptions, SqliteStore, Store};

struct OnDisk(tempfile::TempDir);

#[async_trait]
impl Place for OnDisk {
    async fn open(&self, bounds: EventBounds) -> Arc<dyn Store> {
        let options = SqliteOptions { bounds, ..SqliteOptions::default() };
        let path = self.0.path().join("store.db");
        Arc::new(SqliteStore::open_with(path, options).await.expect("the store opens"))
    }
}

sandkeep_store::store_conformance!(OnDisk(tempfile::tempdir().expect("a directory")));
