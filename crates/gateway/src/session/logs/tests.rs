//! Logs as sessions bring them and clients read them, over real files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use sandkeep_core::SandboxId;
use sandkeep_frames::Decoder;
use sandkeep_frames::log_entry::{FD_GAP, write_output};
use sandkeep_frames::message::{LogAck, LogData, LogOffer};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;

use super::{LogError, LogQuery, LogStore, LogStream, Prospects};
use crate::clock::SystemClock;
use crate::session::link::Link;
use crate::session::outbox::Batch;

/// Longer than anything here takes on a busy machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Logs {
    store: Arc<LogStore>,
    link: Arc<Link>,
    id: SandboxId,
}

/// The bytes of one entry.
pub(super) fn entry(text: &str) -> Bytes {
    let mut entries = Vec::new();
    write_output(&mut entries, 1, 1000, text.as_bytes());
    entries.into()
}

pub(super) fn offer(source: &str, to: usize) -> LogOffer {
    LogOffer { source: source.to_owned(), from: 0, to: to as u64, complete: false }
}

async fn text_of(mut entries: LogStream) -> Result<String, LogError> {
    let mut text = String::new();
    while let Some(entry) = entries.next().await {
        let entry = entry?;
        match entry.fd {
            FD_GAP => text.push_str("<gap>"),
            _ => text.push_str(std::str::from_utf8(&entry.bytes).unwrap()),
        }
    }
    Ok(text)
}

/// A sandbox that was asked for its first run.
fn sandbox(settled: bool, down: bool) -> watch::Sender<Prospects> {
    watch::channel(Prospects { run: 1, settled, down }).0
}

impl Logs {
    fn at(home: &Path) -> Self {
        let store = LogStore::new(home.join("logs"), Arc::new(SystemClock::new()));
        Self { store, link: Link::new(1), id: SandboxId::from_random(*b"sandbox1") }
    }

    fn put(&self, source: &str, offset: usize, entries: &Bytes, complete: bool) -> usize {
        let data = LogData {
            source: source.to_owned(),
            offset: offset as u64,
            entries: entries.clone(),
            complete,
        };
        self.store.append(&self.id, data, &self.link);
        offset.wrapping_add(entries.len())
    }

    async fn offered(&self, nonce: u64, offers: &[LogOffer]) -> Vec<(String, usize)> {
        let have = self.store.offered(&self.id, nonce, offers).await;
        have.into_iter().map(|ack| (ack.source, usize::try_from(ack.offset).unwrap())).collect()
    }

    /// Waits until this source is acknowledged up to `offset`.
    async fn acked(&self, source: &str, offset: usize) {
        let wait = async {
            let mut decoder = Decoder::new();
            loop {
                let mut batch = Batch::default();
                self.link.to_write(&mut batch).await;
                for frame in &batch.frames {
                    frame.pieces().iter().for_each(|piece| decoder.feed(piece));
                }
                while let Some(frame) = decoder.next_frame() {
                    let ack: LogAck = frame.decode().unwrap();
                    if ack.source == source && ack.offset == offset as u64 {
                        return;
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("never acknowledged");
    }

    async fn read(&self, query: LogQuery) -> Result<String, LogError> {
        text_of(self.store.read(&self.id, query).await?).await
    }

    /// Follows until the end.
    async fn follow(
        &self,
        source: Option<&str>,
        sandbox: &watch::Sender<Prospects>,
    ) -> Result<String, LogError> {
        let coming = WatchStream::new(sandbox.subscribe()).boxed();
        let query = LogQuery { source: source.map(str::to_owned), ..LogQuery::default() };
        let following = async { text_of(self.store.follow(&self.id, query, coming).await?).await };
        tokio::time::timeout(PATIENCE, following).await.expect("the follower never ended")
    }

    async fn all(&self, source: &str) -> String {
        let source = Some(source.to_owned());
        self.read(LogQuery { source, ..LogQuery::default() }).await.unwrap()
    }

    fn files(&self, home: &Path) -> Vec<(String, u64)> {
        let listed = std::fs::read_dir(home.join("logs").join(self.id.as_str())).unwrap();
        let mut files: Vec<_> = listed
            .map(|file| {
                let file = file.unwrap();
                let bytes = file.metadata().unwrap().len();
                (file.file_name().into_string().unwrap(), bytes)
            })
            .filter(|(name, _)| !name.starts_with("boot."))
            .collect();
        files.sort();
        files
    }
}

#[tokio::test]
async fn what_is_acknowledged_is_read_again_by_the_next_process() {
    let home = tempfile::tempdir().unwrap();
    let end = {
        let logs = Logs::at(home.path());
        assert!(logs.offered(1, &[]).await.is_empty());
        let end = logs.put("main-1", 0, &entry("hello\n"), false);
        let end = logs.put("main-1", end, &entry("world\n"), false);
        logs.acked("main-1", end).await;
        end
    };
    let logs = Logs::at(home.path());
    assert_eq!(logs.all("main-1").await, "hello\nworld\n");
    let have = logs.offered(1, &[offer("main-1", end + 20)]).await;
    assert_eq!(have, [("main-1".to_owned(), end)]);
    // Sent again from the beginning: what is here is not written twice.
    let again: Bytes = [entry("hello\n"), entry("world\n"), entry("more\n")].concat().into();
    let end = logs.put("main-1", 0, &again, true);
    logs.acked("main-1", end).await;
    assert_eq!(logs.all("main-1").await, "hello\nworld\nmore\n");
}

#[tokio::test]
async fn the_newest_run_is_meant_where_none_is_named() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    assert_eq!(logs.read(LogQuery::default()).await.unwrap(), "");
    logs.put("main-9", 0, &entry("nine"), false);
    logs.put("exec-1", 0, &entry("exec"), false);
    let end = logs.put("main-10", 0, &entry("ten"), false);
    logs.acked("main-10", end).await;
    assert_eq!(logs.read(LogQuery::default()).await.unwrap(), "ten");
    assert_eq!(logs.store.sources(&logs.id).await.unwrap(), ["exec-1", "main-10", "main-9"]);
    let other = LogQuery { source: Some("exec-2".to_owned()), ..LogQuery::default() };
    assert!(matches!(logs.read(other).await, Err(LogError::NotFound(name)) if name == "exec-2"));
}

#[tokio::test]
async fn a_follower_waits_for_the_first_byte_and_ends_with_the_log() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let sandbox = sandbox(false, false);
    let writing = async {
        let mut end = 0;
        for number in 0..50 {
            end = logs.put("main-1", end, &entry(&format!("line {number}\n")), number == 49);
            tokio::task::yield_now().await;
        }
        sandbox.send_modify(|now| now.settled = true);
    };
    let (text, ()) = tokio::join!(logs.follow(None, &sandbox), writing);
    let expect: String = (0..50).map(|number| format!("line {number}\n")).collect();
    assert_eq!(text.unwrap(), expect);
}

#[tokio::test]
async fn following_what_has_ended_ends_at_once() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let end = logs.put("main-1", 0, &entry("all"), true);
    logs.acked("main-1", end).await;
    assert_eq!(logs.follow(None, &sandbox(true, false)).await.unwrap(), "all");
    // Nobody was there to say that it has ended.
    let end = logs.put("main-2", 0, &entry("cut off"), false);
    let text = logs.follow(Some("main-2"), &sandbox(true, true)).await.unwrap();
    assert_eq!((text.as_str(), end), ("cut off", entry("cut off").len()));
}

#[tokio::test]
async fn a_follower_goes_on_over_the_next_execution_of_the_run() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let end = logs.put("main-1", 0, &entry("first "), true);
    logs.acked("main-1", end).await;
    let sandbox = sandbox(false, true);
    let going_on = async {
        // Up again, and another life of PID 1 that knows nothing of the first.
        sandbox.send_modify(|now| now.down = false);
        logs.offered(2, &[]).await;
        let end = logs.put("main-1", 0, &entry("second"), true);
        logs.acked("main-1", end).await;
        sandbox.send_modify(|now| now.settled = true);
    };
    let (text, ()) = tokio::join!(logs.follow(None, &sandbox), going_on);
    assert_eq!(text.unwrap(), "first second");
}

#[tokio::test]
async fn a_follower_of_a_command_that_left_somebody_behind_waits_for_it_or_the_end_of_the_sandbox()
{
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let end = logs.put("main-1", 0, &entry("now "), false);
    logs.acked("main-1", end).await;
    let sandbox = sandbox(true, false);
    let going_on = async {
        let end = logs.put("main-1", end, &entry("later"), false);
        logs.acked("main-1", end).await;
        sandbox.send_modify(|now| now.down = true);
    };
    let (text, ()) = tokio::join!(logs.follow(None, &sandbox), going_on);
    assert_eq!(text.unwrap(), "now later");
}

#[tokio::test]
async fn a_follower_waits_for_the_log_of_the_run_that_was_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let end = logs.put("main-1", 0, &entry("one"), true);
    logs.acked("main-1", end).await;
    let sandbox = sandbox(false, false);
    sandbox.send_modify(|now| now.run = 2);
    let going_on = async {
        let end = logs.put("main-2", 0, &entry("two"), true);
        logs.acked("main-2", end).await;
        sandbox.send_modify(|now| now.settled = true);
    };
    let (text, ()) = tokio::join!(logs.follow(None, &sandbox), going_on);
    assert_eq!(text.unwrap(), "two");
    // A run that never came to write anything: the last that did is shown.
    sandbox.send_modify(|now| *now = Prospects { run: 3, settled: true, down: true });
    assert_eq!(logs.follow(None, &sandbox).await.unwrap(), "two");
}

#[tokio::test]
async fn following_without_any_log_ends_with_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let sandbox = sandbox(false, false);
    let (text, ()) = tokio::join!(logs.follow(None, &sandbox), async {
        sandbox.send_modify(|now| *now = Prospects { settled: true, down: true, ..*now });
    });
    assert_eq!(text.unwrap(), "");
    assert!(logs.follow(Some("exec-1"), &sandbox).await.is_err());
}

#[tokio::test]
async fn a_follower_ends_when_the_log_can_get_no_more() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    logs.offered(1, &[]).await;
    logs.put("exec-1", 0, &entry("exec"), false);
    let end = logs.put("main-1", 0, &entry("one"), false);
    logs.acked("main-1", end).await;
    let up = sandbox(false, false);
    let later = async {
        // A later run of the main command, by another PID 1 that knows nothing of the exec.
        logs.offered(2, &[]).await;
        logs.put("main-2", 0, &entry("two"), false);
    };
    let (main, exec) = (logs.follow(Some("main-1"), &up), logs.follow(Some("exec-1"), &up));
    let (main, exec, ()) = tokio::join!(main, exec, later);
    assert_eq!((main.unwrap().as_str(), exec.unwrap().as_str()), ("one", "exec"));
    let (text, ()) = tokio::join!(logs.follow(Some("main-2"), &up), logs.store.forget(&logs.id));
    let text = text.unwrap_or_default();
    assert!(text == "two" || text.is_empty());
    assert!(!home.path().join("logs").join(logs.id.as_str()).exists());
}

#[tokio::test]
async fn a_log_that_begins_anew_goes_on_after_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    logs.offered(1, &[]).await;
    let end = logs.put("main-1", 0, &entry("first life\n"), false);
    logs.acked("main-1", end).await;
    // Another PID 1 whose spool was lost, and which runs the same run again.
    let have = logs.offered(2, &[offer("main-1", 5)]).await;
    assert_eq!(have, [("main-1".to_owned(), 0)]);
    let end = logs.put("main-1", 0, &entry("second\n"), true);
    logs.acked("main-1", end).await;
    assert_eq!(logs.all("main-1").await, "first life\nsecond\n");
    // And a third that does not even offer it.
    logs.offered(3, &[]).await;
    let end = logs.put("main-1", 0, &entry("third\n"), false);
    logs.acked("main-1", end).await;
    assert_eq!(logs.all("main-1").await, "first life\nsecond\nthird\n");
    drop(logs);
    let logs = Logs::at(home.path());
    assert_eq!(logs.all("main-1").await, "first life\nsecond\nthird\n");
    assert_eq!(logs.offered(3, &[offer("main-1", end)]).await, [("main-1".to_owned(), end)]);
}

#[tokio::test]
async fn holes_show_as_gaps_and_noise_becomes_one() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let end = logs.put("main-1", 0, &entry("a"), false);
    let end = logs.put("main-1", end + 1000, &entry("b"), false);
    let half: Bytes = [entry("c"), Bytes::from_static(&[0xff; 99])].concat().into();
    let end = logs.put("main-1", end, &half, false);
    let end = logs.put("main-1", end, &entry("d"), false);
    logs.put("main-1", usize::MAX, &entry("e"), false);
    logs.put("../../etc/passwd", 0, &entry("f"), false);
    let end = logs.put("main-1", end, &entry("g"), true);
    logs.acked("main-1", end).await;
    assert_eq!(logs.all("main-1").await, "a<gap>bc<gap>dg");
}

#[tokio::test]
async fn a_log_that_was_called_complete_too_early_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let end = logs.put("main-1", 0, &entry("first\n"), true);
    logs.acked("main-1", end).await;
    assert_eq!(logs.files(home.path()).len(), 2);
    let end = logs.put("main-1", end, &entry("again\n"), false);
    logs.acked("main-1", end).await;
    assert_eq!(logs.all("main-1").await, "first\nagain\n");
    assert_eq!(logs.files(home.path()).len(), 1);
}

#[tokio::test]
async fn a_name_that_is_used_again_is_another_log() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    logs.offered(1, &[]).await;
    let end = logs.put("e1", 0, &entry("one\n"), true);
    logs.acked("e1", end).await;
    // In the same session …
    let end = logs.put("e1", 0, &entry("two\n"), true);
    logs.acked("e1", end).await;
    // … and in the next, by the same PID 1, which has forgotten the first two.
    logs.offered(1, &[]).await;
    let end = logs.put("e1", 0, &entry("three\n"), true);
    logs.acked("e1", end).await;
    assert_eq!(logs.all("e1").await, "one\ntwo\nthree\n");
    // What goes on where it was is the same log, offered or not.
    logs.offered(1, &[]).await;
    let end = logs.put("e1", end, &entry("more\n"), true);
    logs.acked("e1", end).await;
    assert_eq!(logs.all("e1").await, "one\ntwo\nthree\nmore\n");
}

#[tokio::test]
async fn a_session_without_output_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    logs.offered(1, &[]).await;
    logs.offered(2, &[offer("main-1", 0)]).await;
    logs.store.forget(&logs.id).await;
    assert!(!home.path().join("logs").exists());
}

#[tokio::test]
async fn a_torn_end_is_cut_off_by_the_next_process() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    logs.offered(1, &[]).await;
    let end = logs.put("main-1", 0, &entry("whole\n"), false);
    logs.acked("main-1", end).await;
    let (name, _) = logs.files(home.path()).remove(0);
    let path = home.path().join("logs").join(logs.id.as_str()).join(name);
    let torn = [std::fs::read(&path).unwrap(), entry("torn").split_to(15).to_vec()].concat();
    std::fs::write(&path, torn).unwrap();
    assert_eq!(logs.all("main-1").await, "whole\n");
    let logs = Logs::at(home.path());
    assert_eq!(logs.offered(1, &[offer("main-1", 500)]).await, [("main-1".to_owned(), end)]);
    let end = logs.put("main-1", end, &entry("again\n"), false);
    logs.acked("main-1", end).await;
    assert_eq!(logs.all("main-1").await, "whole\nagain\n");
}

#[tokio::test]
async fn a_source_keeps_its_newest_bytes_and_a_sandbox_its_newest_sources() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    let line = format!("{}\n", "x".repeat(60 * 1024));
    let mut chunk = Vec::new();
    for _ in 0..4 {
        write_output(&mut chunk, 1, 1000, line.as_bytes());
    }
    let chunk = Bytes::from(chunk);
    let mib = 1024 * 1024;
    let execs = ["exec-1", "exec-2", "exec-3", "exec-4"].map(|source| (source, 15 * mib));
    for (source, bytes) in execs.into_iter().chain([("main-1", 31 * mib)]) {
        let mut end = 0;
        while end < bytes {
            end = logs.put(source, end, &chunk, false);
            if end % (chunk.len() * 8) == 0 {
                logs.acked(source, end).await;
            }
        }
        end = logs.put(source, end, &chunk, true);
        logs.acked(source, end).await;
    }
    let files = logs.files(home.path());
    let of = |source: &'static str| files.iter().filter(move |(name, _)| name.starts_with(source));
    let bytes: u64 = of("main-1").map(|(_, bytes)| bytes).sum();
    assert!((8 << 20..=17 << 20).contains(&bytes), "{bytes}");
    let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    assert!(total <= 64 << 20, "{total}");
    assert_eq!(of("exec-1").count(), 0);
    let kept = logs.all("main-1").await;
    assert!(kept.starts_with("<gap>x") && kept.ends_with("x\n"));
    let tail = LogQuery { tail_lines: Some(3), ..LogQuery::default() };
    assert_eq!(logs.read(tail).await.unwrap(), line.repeat(3));
}

#[tokio::test]
async fn a_disk_that_takes_nothing_leaves_gaps_and_holds_up_nobody() {
    let home = tempfile::tempdir().unwrap();
    let logs = Logs::at(home.path());
    // A file where the directory should be: nothing can be written.
    std::fs::write(home.path().join("logs"), "").unwrap();
    logs.offered(1, &[]).await;
    let end = logs.put("main-1", 0, &entry("lost\n"), false);
    // The answer comes after what was put before it.
    let (_, left) = (logs.offered(1, &[offer("main-1", end)]).await, end);
    std::fs::remove_file(home.path().join("logs")).unwrap();
    let end = logs.put("main-1", left, &entry("kept\n"), true);
    logs.acked("main-1", end).await;
    assert_eq!(logs.all("main-1").await, "<gap>kept\n");
}
