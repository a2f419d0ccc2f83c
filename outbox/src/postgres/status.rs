//! What people want to know of the cursors: who holds them, how far behind they are, and
//! what stands in their way. Counting stops early, so that asking is cheap however long
//! the backlog is.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::cursor::{position, suspect};
use super::database::Database;
use super::error::DatabaseError;
use super::lease::{SINK_LEASE, seconds_left};
use super::prune::{strange_cursor, strange_event};
use super::settlement::Suspect;
use crate::{Position, Txid};

/// Counting a backlog, or dead letters, stops here.
pub const MAX_COUNTED_LAG: u64 = 10_000;

/// A sink's cursor, its holder and its lag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorStatus {
    /// The sink's name.
    pub sink: String,
    /// The last position that is done with.
    pub position: Position,
    /// Who holds the sink's lease at present.
    pub holder: Option<String>,
    /// Failed deliveries in a row.
    pub attempts: u32,
    /// How long until the next delivery, if it is backing off.
    pub retry_in: Option<Duration>,
    /// The last failure's kind.
    pub last_error_kind: Option<String>,
    /// The last failure.
    pub last_error: Option<String>,
    /// How many rows are readable and not done with, whether or not the sink's
    /// filter takes them: [`MAX_COUNTED_LAG`] means as many or more.
    pub lag: u64,
    /// The age of the first of them, if its time is known.
    pub lag_age: Option<Duration>,
    /// Why it is paused, if it is.
    pub pause: Option<Pause>,
    /// The event that holds it up, if one was refused alone.
    pub suspect: Option<Suspect>,
    /// Since when it does.
    pub suspect_age: Option<Duration>,
    /// Where an operator wants it to go on, as long as its owner has not obeyed.
    pub seek: Option<Position>,
    /// Its dead letters.
    pub dead_letters: DeadLetterCounts,
}

/// A sink that delivers nothing because somebody, or the fuse, wanted it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// For how long.
    pub age: Duration,
    /// Who paused it: `sinks` is the fuse.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// How many dead letters a sink has in each state: [`MAX_COUNTED_LAG`] means as many or
/// more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterCounts {
    /// They wait for an operator.
    pub dead: u64,
    /// They wait for the sink to deliver them again.
    pub replaying: u64,
    /// They were delivered again.
    pub replayed: u64,
    /// They were given up.
    pub discarded: u64,
}

/// The cursor behind which nothing is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionHold {
    /// Whose it is: `sink:NAME` for a sink.
    pub consumer: String,
    /// Where it is.
    pub position: Position,
    /// How many readable rows it keeps: [`MAX_COUNTED_LAG`] means as many or more.
    pub rows: u64,
    /// The age of the first of them, if its time is known.
    pub age: Option<Duration>,
    /// Whether positions of another cluster are about. Then nothing is deleted at all.
    pub strange: bool,
}

/// The readable rows after a cursor `kept`: how many, and the age of the first. A time of
/// 'infinity' has no age, and interval arithmetic would fail.
macro_rules! behind {
    () => {
        "cross join lateral (
             select count(*) as lag from (
                 select from {schema}.outbox
                 where (txid, seq) > (kept.txid, kept.seq) and txid >= kept.txid
                     and txid < pg_snapshot_xmin(pg_current_snapshot())
                 limit $1
             ) as counted
         ) as behind
         left join lateral (
             select case when isfinite(created_at)
                 then extract(epoch from {schema}.compute_now() - created_at)::float8
             end as lag_age
             from {schema}.outbox
             where (txid, seq) > (kept.txid, kept.seq) and txid >= kept.txid
                 and txid < pg_snapshot_xmin(pg_current_snapshot())
             order by txid, seq limit 1
         ) as first on true "
    };
}

/// How many dead letters a cursor's sink has in a state.
macro_rules! dead_letters_in {
    ($state:literal) => {
        concat!(
            "(select count(*) from (
                 select from {schema}.outbox_dead_letters
                 where sink = substr(kept.consumer, 6) and state = '",
            $state,
            "' limit $1
             ) as counted) as ",
            $state
        )
    };
}

const CURSORS: &str = concat!(
    "select kept.*, substr(kept.consumer, 6) as sink, lease.holder, lag, lag_age,
         extract(epoch from kept.next_retry_at - {schema}.compute_now())::float8 as wait,
         extract(epoch from {schema}.compute_now() - kept.paused_at)::float8 as pause_age,
         extract(epoch from {schema}.compute_now() - kept.suspect_since)::float8 as suspect_age,
         letters.*
     from {schema}.outbox_cursors as kept
     left join {schema}.leases as lease
         on lease.name = $2 || substr(kept.consumer, 6)
         and lease.expires_at > {schema}.compute_now()
     cross join lateral (
         select ",
    dead_letters_in!("dead"),
    ", ",
    dead_letters_in!("replaying"),
    ", ",
    dead_letters_in!("replayed"),
    ", ",
    dead_letters_in!("discarded"),
    ") as letters ",
    behind!(),
    "where kept.stream = 'outbox' and kept.consumer like 'sink:%'
     order by kept.consumer"
);

/// Like retention, it takes a seek that was ordered for a cursor.
const HOLD: &str = concat!(
    "select kept.consumer, kept.txid, kept.seq, lag, lag_age, ",
    strange_cursor!(),
    " or ",
    strange_event!(),
    " from (
         select consumer, txid, seq from {schema}.outbox_cursors where stream = 'outbox'
         union all
         select consumer, seek_txid, seek_seq from {schema}.outbox_cursors
         where stream = 'outbox' and seek_txid is not null
         order by txid, seq, consumer limit 1
     ) as kept ",
    behind!(),
);

impl Database {
    /// The cursors of all sinks, by name.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn cursors(&self) -> Result<Vec<CursorStatus>, DatabaseError> {
        let query = sqlx::query(self.schema().sql(CURSORS))
            .bind(i64::try_from(MAX_COUNTED_LAG).unwrap_or(i64::MAX))
            .bind(SINK_LEASE);
        let mut checkout = self.checkout().await?;
        let rows = self
            .within(query.fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("list cursors"))?;
        checkout.release();
        let cursors: Result<_, sqlx::Error> = rows.iter().map(status).collect();
        Ok(cursors?)
    }

    /// The cursor behind which nothing is deleted: that of the consumer which is the
    /// furthest back. `None` without any cursor; then nothing is deleted at all.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn retention_hold(&self) -> Result<Option<RetentionHold>, DatabaseError> {
        type Row = (String, Txid, i64, i64, Option<f64>, bool);
        let query = sqlx::query_as(self.schema().sql(HOLD))
            .bind(i64::try_from(MAX_COUNTED_LAG).unwrap_or(i64::MAX));
        let mut checkout = self.checkout().await?;
        let row: Option<Row> = self
            .within(query.fetch_optional(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("look for what holds retention back"))?;
        checkout.release();
        Ok(row.map(
            |(consumer, txid, seq, lag, lag_age, strange)| RetentionHold {
                consumer,
                position: Position { txid, seq },
                rows: number(lag),
                age: age(lag_age),
                strange,
            },
        ))
    }
}

fn status(row: &PgRow) -> Result<CursorStatus, sqlx::Error> {
    let wait: Option<f64> = row.try_get("wait")?;
    Ok(CursorStatus {
        sink: row.try_get("sink")?,
        position: Position {
            txid: row.try_get("txid")?,
            seq: row.try_get("seq")?,
        },
        holder: row.try_get("holder")?,
        attempts: u32::try_from(row.try_get::<i32, _>("attempts")?).unwrap_or(0),
        retry_in: wait.and_then(seconds_left),
        last_error_kind: row.try_get("last_error_kind")?,
        last_error: row.try_get("last_error")?,
        lag: number(row.try_get("lag")?),
        lag_age: age(row.try_get("lag_age")?),
        pause: pause(
            row.try_get("pause_age")?,
            row.try_get("paused_by")?,
            row.try_get("pause_reason")?,
        ),
        suspect: suspect(row)?,
        suspect_age: age(row.try_get("suspect_age")?),
        seek: position(row, "seek_txid", "seek_seq")?,
        dead_letters: DeadLetterCounts {
            dead: number(row.try_get("dead")?),
            replaying: number(row.try_get("replaying")?),
            replayed: number(row.try_get("replayed")?),
            discarded: number(row.try_get("discarded")?),
        },
    })
}

/// The columns of a pause, if there is one.
pub(super) fn pause(
    seconds: Option<f64>,
    by: Option<String>,
    reason: Option<String>,
) -> Option<Pause> {
    Some(Pause {
        age: age(seconds)?,
        by: by.unwrap_or_default(),
        reason,
    })
}

/// An age; one that a clock of another cluster makes negative is none at all.
fn age(seconds: Option<f64>) -> Option<Duration> {
    seconds.map(|seconds| seconds_left(seconds).unwrap_or_default())
}

fn number(counted: i64) -> u64 {
    u64::try_from(counted).unwrap_or(0)
}
