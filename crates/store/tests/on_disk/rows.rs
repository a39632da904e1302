//! Rows that make no sense, and bytes that were changed under the store: told by name or read as
//! they are; never a panic, and never another row touched.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use sandkeep_core::verb::{self, Asked, DeleteOptions};
use sandkeep_core::{GatewayId, Live, Record, Timestamp, attempt, check, decide, explain, project};
use sandkeep_store::conformance::{event, record, tombstone, workspace};
use sandkeep_store::{Change, Meta, Priority, SqliteStore, Store, StoreError};
use serde_json::Value;

use super::store_with;

/// Bodies that are no value of any kind.
fn nonsense() -> Vec<Sql> {
    let texts = ["", "{", "[]", "{}", "null", "{\u{0}}", "\"\\ud800\"", "{\"id\":1e999}"];
    let mut all: Vec<Sql> = texts.map(|text| Sql::Text(text.to_owned())).into();
    all.push(Sql::Integer(7));
    all.push(Sql::Blob(vec![0xff, 0xfe, 0x00]));
    all.push(Sql::Text("[".repeat(100_000)));
    all.push(Sql::Text("x".repeat(4 << 20)));
    all
}

/// A store with two records and one of everything else.
async fn one_of_everything(path: &Path) {
    store_with(path, 2).await;
    let store = SqliteStore::open(path).await.unwrap();
    let meta = Meta {
        gateway: GatewayId::from_random([1; 8]),
        machine: "machine".to_owned(),
        directory: None,
        hold: None,
        hold_since: Timestamp::EPOCH,
        disowned: Vec::new(),
    };
    let gone = record(9);
    let with_record = vec![Change::PutRecord(Box::new(gone.clone()))];
    store.commit(Priority::Normal, with_record).await.unwrap();
    let bury = Change::BuryRecord { id: gone.id.clone(), revision: 1, tombstone: tombstone(&gone) };
    let rest = vec![
        Change::PutWorkspace(Box::new(workspace(1))),
        Change::PutMeta(meta),
        Change::AppendEvent(event(None, "of the gateway")),
        bury,
    ];
    store.commit(Priority::Normal, rest).await.unwrap();
}

/// Everything that a gateway reads of it.
async fn read(path: &Path) -> Result<Vec<Record>, StoreError> {
    let store = SqliteStore::open(path).await?;
    let records = store.load().await?.records;
    store.events(None, 0, 1000).await?;
    Ok(records)
}

#[tokio::test]
async fn a_row_of_nonsense_is_damage_in_every_table() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    one_of_everything(&path).await;
    for table in ["record", "workspace", "tombstone", "event", "meta"] {
        let rows = |body: &Sql| {
            let connection = Connection::open(&path).unwrap();
            let first = format!("SELECT body, rowid FROM {table} ORDER BY rowid LIMIT 1");
            let (before, row): (Sql, i64) =
                connection.query_row(&first, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            let update = format!("UPDATE {table} SET body = ?1 WHERE rowid = ?2");
            assert_eq!(connection.execute(&update, (body, row)).unwrap(), 1);
            before
        };
        for body in nonsense() {
            let before = rows(&body);
            let error = read(&path).await.expect_err(table);
            assert!(matches!(error, StoreError::Damaged { .. }), "{table}: {error:?}");
            assert!(error.to_string().len() < 2000, "{table}: the whole body is in the message");
            rows(&before);
            assert_eq!(read(&path).await.expect("as it was").len(), 2, "{table}");
        }
    }
}

/// Every place in a JSON value, as the way to it.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    if let Value::Object(fields) = value {
        for (key, below) in fields {
            places(below, &format!("{here}/{key}"), all);
        }
    }
}

/// All that the core does with a record.
fn use_it(record: &Record) {
    for now in [0, 1_000_000, u64::MAX].map(Timestamp::from_millis) {
        for looked in [false, true] {
            let live = Live { looked, ..Live::default() };
            let decision = decide(record, &live, now);
            let _shown = (project(record, &live, now), explain(record, &live, now));
            let _sound = check::check(record);
            let asked = Asked { by: "uid:0".to_owned(), at: now };
            drop((verb::start(record, &asked), verb::stop(record, &asked)));
            drop((verb::restart(record, &asked), record.asleep()));
            drop(verb::delete(record, DeleteOptions::default(), &asked));
            if let Some(action) = decision.action {
                drop(attempt::without_effect(&record.attempt, &record.id, &action, now));
            }
        }
    }
}

/// Every field of a record in turn is something else. It is damage, or a record with which
/// everything can be done.
#[tokio::test]
async fn a_record_with_any_field_changed_is_damage_or_can_be_lived_with() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    store_with(&path, 1).await;
    let whole = serde_json::to_value(read(&path).await.unwrap().remove(0)).unwrap();
    let mut all = Vec::new();
    places(&whole, "", &mut all);
    let others = [
        "null",
        "-1",
        "18446744073709551615",
        "1e300",
        "true",
        "\"\"",
        "\"\\u0000\\u001b[31m\"",
        "{}",
    ];
    let (mut damaged, mut lived_with) = (0, 0);
    for place in &all {
        for other in others {
            let mut changed = whole.clone();
            *changed.pointer_mut(place).unwrap() = serde_json::from_str(other).unwrap();
            // As the store reads it; that a body which cannot be read is told is shown above.
            match serde_json::from_str::<Record>(&changed.to_string()) {
                Ok(record) => {
                    use_it(&record);
                    lived_with += 1;
                }
                Err(_) => damaged += 1,
            }
        }
    }
    assert!(damaged > 300 && lived_with > 50, "{damaged} {lived_with}");
}

/// Numbers from a seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

#[tokio::test]
async fn bytes_changed_anywhere_in_the_file_are_no_panic() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    one_of_everything(&path).await;
    let whole = fs::read(&path).unwrap();
    // What SQLite uses of it; behind that lies room that was allocated ahead.
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut random = Random(20_261_201);
    let (mut refused, mut read_on) = (0, 0);
    for round in 0..150 {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("store.db");
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            let at = if round % 3 == 0 { random.below(200) } else { random.below(used) };
            bytes[at] ^= 1 << random.below(8);
        }
        fs::write(&path, &bytes).unwrap();
        match read(&path).await {
            Ok(_) => read_on += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains("has ended"), "round {round}: {error}");
            }
        }
    }
    assert!(refused > 20 && read_on > 20, "{refused} {read_on}");
}
