//! Deleting what is done with.
//!
//! A row goes once every cursor of the outbox has passed it and it is old enough. Age
//! alone never decides: `created_at` is when a row was written, and the transaction may
//! have committed a moment ago. Where positions can't be trusted nothing goes: with no
//! cursor at all, with one from another cluster or above the horizon, or with events
//! that came with a dump.

use std::time::Duration;

use super::database::Database;
use super::error::DatabaseError;
use super::lease::interval;
use super::settlement::Pruned;
use crate::{Position, Txid};

/// How many rows one statement looks at.
const ROWS: i64 = 5_000;

/// How many rows are looked at to count what can be deleted: those of a whole pass.
const COUNTED_ROWS: i64 = 100_000;

/// Whether a cursor is from another cluster or above the horizon.
macro_rules! strange_cursor {
    () => {
        "exists (
             select from {schema}.outbox_cursors
             where stream = 'outbox' and (
                 system_identifier <> (pg_control_system()).system_identifier
                 or txid >= pg_snapshot_xmin(pg_current_snapshot())
             )
         )"
    };
}
pub(super) use strange_cursor;

/// Whether there are events that came with a dump, and that nobody can read.
macro_rules! strange_event {
    () => {
        "exists (
             select from {schema}.outbox where txid >= pg_snapshot_xmax(pg_current_snapshot())
         )"
    };
}
pub(super) use strange_event;

/// The next rows that every cursor has passed, and whether they are old enough.
macro_rules! walked {
    () => {
        concat!(
            "with passed as (
             select txid, seq from {schema}.outbox_cursors where stream = 'outbox'
             union all
             select seek_txid, seek_seq from {schema}.outbox_cursors
             where stream = 'outbox' and seek_txid is not null
             order by txid, seq limit 1
         ), walked as materialized (
             select event.place, event.txid, event.seq,
                 not isfinite(event.created_at)
                     or event.created_at < {schema}.compute_now() - $3 as old
             from passed
             cross join lateral (
                 select ctid as place, txid, seq, created_at from {schema}.outbox
                 where (txid, seq) > ($1, $2) and txid >= $1
                     and (txid, seq) <= (passed.txid, passed.seq) and txid <= passed.txid
                 order by txid, seq limit $4
             ) as event
             where not ",
            strange_cursor!(),
            " and not ",
            strange_event!(),
            ")"
        )
    };
}

/// Deletes by the place in the table that the walk has just seen: whatever the planner
/// believes of the table, no join can make it look at other rows.
const PRUNE: &str = concat!(
    walked!(),
    ", deleted as (
         delete from {schema}.outbox
         where ctid = any (array(select place from walked where old))
         returning txid
     )
     select (select count(*) from deleted), (select count(*) from walked), last.txid, last.seq
     from (values (1)) as always
     left join lateral (
         select txid, seq from walked order by txid desc, seq desc limit 1
     ) as last on true"
);

const COUNT: &str = concat!(
    walked!(),
    " select count(*) filter (where old), count(*) from walked"
);

/// What a pass would delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prunable {
    /// How many rows.
    pub rows: u64,
    /// Whether there may be more.
    pub more: bool,
}

impl Database {
    /// Deletes what every cursor has passed and what is older than `min_age`, among the
    /// next 5,000 rows after `after`.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn prune(&self, min_age: Duration, after: Position) -> Result<Pruned, DatabaseError> {
        let query = sqlx::query_as(self.schema().sql(PRUNE))
            .bind(after.txid)
            .bind(after.seq)
            .bind(interval(min_age))
            .bind(ROWS);
        let mut checkout = self.checkout().await?;
        let (deleted, walked, txid, seq): (i64, i64, Option<Txid>, Option<i64>) = self
            .within(query.fetch_one(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("delete events that are done with"))?;
        checkout.release();
        let last = txid.zip(seq).map(|(txid, seq)| Position { txid, seq });
        Ok(Pruned {
            rows: u64::try_from(deleted).unwrap_or(0),
            next: last.filter(|_| walked == ROWS && deleted > 0),
        })
    }

    /// Counts what [`Database::prune`] would delete from the beginning on, as far as one
    /// pass goes.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn prunable(&self, min_age: Duration) -> Result<Prunable, DatabaseError> {
        let query = sqlx::query_as(self.schema().sql(COUNT))
            .bind(Position::BEGINNING.txid)
            .bind(Position::BEGINNING.seq)
            .bind(interval(min_age))
            .bind(COUNTED_ROWS);
        let mut checkout = self.checkout().await?;
        let (old, walked): (i64, i64) = self
            .within(query.fetch_one(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("count events that are done with"))?;
        checkout.release();
        Ok(Prunable {
            rows: u64::try_from(old).unwrap_or(0),
            more: walked == COUNTED_ROWS,
        })
    }
}
