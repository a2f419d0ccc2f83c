//! An open loop: each transaction begins when it is due, whether those before it were quick or
//! not, so that whoever is slow can't slow down the events that would show it.
//!
//! Sixteen connections take turns. Each has keys of its own, so that within a key the numbers
//! rise in the order of the commits.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use outbox_tests::servers::Database;
use sqlx::{Executor, PgConnection};
use tokio::time::{Instant, sleep_until};

use super::journal::{Journal, PROBE};

/// Events in a transaction, as in the backlogs: one statement and one commit, so that publishing
/// leaves as much of the machine as can be to those who are measured.
pub(super) const EVENTS_A_TRANSACTION: u32 = 10;
const LANES: u32 = 16;
const KEYS_A_LANE: u32 = 64;

/// 300 bytes of payload, with the number in `data.n`.
const PUBLISH: &str = "
insert into outbox (topic, payload)
select 'node.connected', jsonb_build_object(
    'id', 'evt_' || lpad(n::text, 26, '0'), 'type', 'node.connected', 'tenantId', 'ten_1',
    'subject', 'node/' || $3::text || '-' || n % $4,
    'time', '2026-09-24T10:15:02.114Z',
    'data', jsonb_build_object('n', n, 'pad', $5::text)
)
from generate_series($1::bigint, $2::bigint - 1) as n";
/// So that it has them.
pub(super) const PAD: &str =
    "3f0a5e1c9b7d2846ac31f59e07d8b264c1e93a7f5b02d6481fae7c35b9d04e62a87c15f3d9";

/// Those who publish. Numbers go on from one flow to the next.
#[derive(Debug)]
pub(super) struct Publisher {
    lanes: Vec<PgConnection>,
    next: u32,
}

impl Publisher {
    /// Connects.
    pub(super) async fn connect(database: &Database) -> Self {
        let mut lanes = Vec::new();
        for _ in 0..LANES {
            lanes.push(database.connect().await);
        }
        Self {
            lanes,
            next: PROBE + 1,
        }
    }

    /// Empties the outbox and begins to count anew. Nobody may be reading.
    ///
    /// # Errors
    /// If the database refuses it.
    pub(super) async fn begin_anew(&mut self) -> Result<()> {
        self.next = PROBE + 1;
        let lane = self.lanes.first_mut().context("there are lanes")?;
        lane.execute("truncate outbox").await?;
        Ok(())
    }

    /// Publishes the one event that shows who is awake.
    ///
    /// # Errors
    /// If the database refuses it.
    pub(super) async fn probe(&mut self, journal: &Journal) -> Result<()> {
        let lane = self.lanes.first_mut().context("there are lanes")?;
        publish(lane, PROBE..PROBE + 1, 0, journal).await
    }

    /// Publishes `rate` events a second for so long, and returns their numbers once the last
    /// commit is acknowledged.
    ///
    /// # Errors
    /// If the database refuses one.
    pub(super) async fn flow(
        &mut self,
        rate: u32,
        lasting: Duration,
        journal: &Journal,
    ) -> Result<Range<u32>> {
        let apart = Duration::from_secs(1) * EVENTS_A_TRANSACTION / rate;
        let transactions = u32::try_from(lasting.as_nanos() / apart.as_nanos())?;
        let (first, start) = (self.next, Instant::now());
        let count = self.lanes.len();
        let lanes = (0..).zip(&mut self.lanes).map(|(lane, connection)| {
            // Its turns.
            let turns = (lane..transactions).step_by(count);
            async move {
                for turn in turns {
                    sleep_until(start + apart * turn).await;
                    let from = first + turn * EVENTS_A_TRANSACTION;
                    let numbers = from..from + EVENTS_A_TRANSACTION;
                    publish(connection, numbers, lane, journal).await?;
                }
                anyhow::Ok(())
            }
        });
        try_join_all(lanes).await?;
        self.next = first + transactions * EVENTS_A_TRANSACTION;
        Ok(first..self.next)
    }
}

async fn publish(
    connection: &mut PgConnection,
    numbers: Range<u32>,
    lane: u32,
    journal: &Journal,
) -> Result<()> {
    let query = sqlx::query(PUBLISH)
        .bind(i64::from(numbers.start))
        .bind(i64::from(numbers.end))
        .bind(lane.to_string())
        .bind(i64::from(KEYS_A_LANE))
        .bind(PAD);
    connection.execute(query).await.context("publish events")?;
    journal.commit(numbers);
    Ok(())
}

/// The number of an event in its payload's text, as Postgres writes it.
#[must_use]
pub(super) fn number_in(payload: &[u8]) -> Option<u32> {
    const BEFORE: &[u8] = b"\"n\": ";
    let at = payload
        .windows(BEFORE.len())
        .position(|window| window == BEFORE)?;
    let digits = payload.get(at + BEFORE.len()..)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_the_text() {
        let payload = br#"{"id": "evt_7", "data": {"n": 512, "pad": "3f"}, "type": "a.b"}"#;
        assert_eq!(number_in(payload), Some(512));
        assert_eq!(number_in(br#"{"data": {}}"#), None);
        assert_eq!(number_in(b"\"n\": 5"), None, "cut off");
    }
}
