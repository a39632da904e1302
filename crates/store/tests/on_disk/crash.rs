//! The process dies at any moment: nothing that was acknowledged is lost.
//!
//! The writer is this test binary, run again for one test alone and killed from outside.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use sandkeep_store::{Priority, SqliteStore, Store, StoreError};

use super::made;

/// Directory that the re-run test writes to for ever; without it, it writes a little and ends.
const ENDLESS_IN: &str = "SANDKEEP_TEST_WRITE_ENDLESSLY_IN";

/// Writers side by side, so that groups form and the kill hits in the middle of one.
const WRITERS: u64 = 8;

#[tokio::test]
async fn each_commit_is_there_once_it_is_acknowledged() {
    let endless = std::env::var_os(ENDLESS_IN).map(PathBuf::from);
    let own = tempfile::tempdir().unwrap();
    let path = endless.as_deref().unwrap_or_else(|| own.path()).join("store.db");
    let rounds = if endless.is_some() { u64::MAX } else { 20 };
    let tells = endless.is_some();
    let store = Arc::new(SqliteStore::open(&path).await.unwrap());
    let writers = (0..WRITERS).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for round in 0..rounds {
                let number = round * WRITERS + writer;
                store.commit(Priority::Normal, made(number)).await.unwrap();
                if tells {
                    // One write call a line: a kill cannot leave half a number.
                    let line = format!("acknowledged {number}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(store.load().await.unwrap().records.len() as u64, WRITERS * rounds);
}

/// A process that writes until it is killed. Kills it when dropped, too.
struct EndlessWriter(Child);

impl EndlessWriter {
    fn start(directory: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::each_commit_is_there_once_it_is_acknowledged", "--nocapture"])
            .env(ENDLESS_IN, directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Kills it after `count` acknowledgements; gives all that were made, also those just before
    /// the kill.
    fn kill_after(&mut self, count: usize) -> Vec<u64> {
        let mut acknowledged = Vec::new();
        let out = BufReader::new(self.0.stdout.take().unwrap());
        for line in out.lines() {
            let line = line.unwrap();
            // The harness may put its own words before the first one.
            let Some((_, number)) = line.split_once("acknowledged ") else { continue };
            acknowledged.push(number.parse().unwrap());
            if acknowledged.len() == count {
                self.0.kill().unwrap();
            }
        }
        acknowledged
    }
}

impl Drop for EndlessWriter {
    fn drop(&mut self) {
        // It is dead already unless the test failed.
        let _dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_acknowledged() {
    for (round, count) in [1, 3, 100, 700].into_iter().enumerate() {
        let home = tempfile::tempdir().unwrap();
        let mut writer = EndlessWriter::start(home.path());
        let acknowledged = writer.kill_after(count);
        drop(writer);
        assert!(acknowledged.len() >= count, "round {round}");
        let store = SqliteStore::open(home.path().join("store.db")).await.unwrap();
        let names: Vec<String> =
            store.load().await.unwrap().records.iter().map(|r| r.name.to_string()).collect();
        for number in &acknowledged {
            assert!(names.contains(&format!("box-{number}")), "round {round}: {number} is lost");
        }
        // At most what was on its way beside.
        assert!(names.len() as u64 <= acknowledged.len() as u64 + WRITERS, "round {round}");
        let events = store.events(None, 0, 100_000).await.unwrap();
        assert_eq!(events.len(), names.len(), "record and event hold together");
    }
}

#[tokio::test]
async fn a_store_in_use_names_the_process_that_has_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    let mut writer = EndlessWriter::start(home.path());
    let mut out = BufReader::new(writer.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("acknowledged") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the writer writes");
    }
    // Keeps its pipe from filling up while the test looks at the lock.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    match SqliteStore::open(&path).await {
        Err(StoreError::Locked { holder }) => {
            assert_eq!(holder, format!("process {}", writer.0.id()));
        }
        other => panic!("{other:?}"),
    }
    writer.0.kill().unwrap();
    writer.0.wait().unwrap();
    SqliteStore::open(&path).await.expect("the kernel gave the lock up");
}
