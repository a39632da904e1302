//! Keeps the timeline bounded: counts events in memory and removes the oldest in batches.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::bounds::EventBounds;

/// How many events are stored, of whom.
#[derive(Debug)]
pub(super) struct Timeline {
    bounds: EventBounds,
    total: usize,
    /// By sandbox id; `None` is the gateway itself.
    counts: HashMap<Option<String>, usize>,
    /// Dropped because the disk was full, not yet told by a stored event.
    pub(super) dropped: u64,
}

impl Timeline {
    pub(super) fn load(connection: &Connection, bounds: EventBounds) -> rusqlite::Result<Self> {
        let mut timeline = Self { bounds, total: 0, counts: HashMap::new(), dropped: 0 };
        timeline.count(connection)?;
        Ok(timeline)
    }

    /// Counts what a commit has made durable.
    pub(super) fn note(&mut self, appended: &[Option<String>]) {
        self.total += appended.len();
        for sandbox in appended {
            *self.counts.entry(sandbox.clone()).or_default() += 1;
        }
    }

    /// Removes the oldest events of whoever has a tenth more than the bound. Costs nothing while
    /// nobody has.
    pub(super) fn trim(&mut self, connection: &mut Connection) -> rusqlite::Result<()> {
        let too_many = EventBounds::trim_above(self.bounds.per_sandbox);
        let over_all = self.total > EventBounds::trim_above(self.bounds.total);
        let talkative: Vec<Option<String>> = self
            .counts
            .iter()
            .filter(|(_, count)| **count > too_many)
            .map(|(sandbox, _)| sandbox.clone())
            .collect();
        if talkative.is_empty() && !over_all {
            return Ok(());
        }
        let transaction = connection.transaction()?;
        for sandbox in talkative {
            // `IS` compares NULL too.
            let last: Option<i64> = transaction
                .query_row(
                    "SELECT sequence FROM event WHERE sandbox IS ?1
                     ORDER BY sequence DESC LIMIT 1 OFFSET ?2",
                    params![sandbox, integer(self.bounds.per_sandbox)],
                    |row| row.get(0),
                )
                .optional()?;
            transaction.execute(
                "DELETE FROM event WHERE sandbox IS ?1 AND sequence <= ?2",
                params![sandbox, last],
            )?;
        }
        if over_all {
            let last: Option<i64> = transaction
                .query_row(
                    "SELECT sequence FROM event ORDER BY sequence DESC LIMIT 1 OFFSET ?1",
                    params![integer(self.bounds.total)],
                    |row| row.get(0),
                )
                .optional()?;
            transaction.execute("DELETE FROM event WHERE sequence <= ?1", params![last])?;
        }
        transaction.commit()?;
        self.count(connection)
    }

    fn count(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut query =
            connection.prepare("SELECT sandbox, COUNT(*) FROM event GROUP BY sandbox")?;
        let rows = query.query_map([], |row| {
            let count: u32 = row.get(1)?;
            Ok((row.get(0)?, count as usize))
        })?;
        self.counts = rows.collect::<rusqlite::Result<_>>()?;
        self.total = self.counts.values().sum();
        Ok(())
    }
}

fn integer(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
