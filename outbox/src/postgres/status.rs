//! What people want to know of the cursors: who holds them and how far behind
//! they are. Counting stops early, so that asking is cheap however long the
//! backlog is.

use std::time::Duration;

use super::database::Database;
use super::error::DatabaseError;
use super::lease::seconds_left;
use crate::{Position, Txid};

/// Counting a backlog stops here.
pub const MAX_COUNTED_LAG: u64 = 10_000;

/// A sink's cursor, its holder and its lag.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl Database {
    /// The cursors of all sinks, by name.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn cursors(&self) -> Result<Vec<CursorStatus>, DatabaseError> {
        // A time of 'infinity' has no age, and interval arithmetic would fail.
        let sql = self.schema().sql(
            "select substr(kept.consumer, 6), kept.txid, kept.seq, kept.attempts,
                 extract(epoch from kept.next_retry_at - {schema}.compute_now())::float8,
                 kept.last_error_kind, kept.last_error, lease.holder, behind.rows,
                 case when isfinite(first.created_at)
                     then extract(epoch from {schema}.compute_now() - first.created_at)::float8
                 end
             from {schema}.outbox_cursors as kept
             left join {schema}.leases as lease
                 on lease.name = 'singleton:outbox-dispatch:' || substr(kept.consumer, 6)
                 and lease.expires_at > {schema}.compute_now()
             cross join lateral (
                 select count(*) as rows from (
                     select from {schema}.outbox
                     where (txid, seq) > (kept.txid, kept.seq) and txid >= kept.txid
                         and txid < pg_snapshot_xmin(pg_current_snapshot())
                     limit $1
                 ) as counted
             ) as behind
             left join lateral (
                 select created_at from {schema}.outbox
                 where (txid, seq) > (kept.txid, kept.seq) and txid >= kept.txid
                     and txid < pg_snapshot_xmin(pg_current_snapshot())
                 order by txid, seq limit 1
             ) as first on true
             where kept.stream = 'outbox' and kept.consumer like 'sink:%'
             order by kept.consumer",
        );
        let limit = i64::try_from(MAX_COUNTED_LAG).unwrap_or(i64::MAX);
        let mut checkout = self.checkout().await?;
        let rows: Vec<Row> = self
            .within(sqlx::query_as(sql).bind(limit).fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("list cursors"))?;
        checkout.release();
        Ok(rows.into_iter().map(status).collect())
    }
}

type Row = (
    String,
    Txid,
    i64,
    i32,
    Option<f64>,
    Option<String>,
    Option<String>,
    Option<String>,
    i64,
    Option<f64>,
);

fn status(row: Row) -> CursorStatus {
    let (sink, txid, seq, attempts, wait, last_error_kind, last_error, holder, lag, age) = row;
    CursorStatus {
        sink,
        position: Position { txid, seq },
        holder,
        attempts: u32::try_from(attempts).unwrap_or(0),
        retry_in: wait.and_then(seconds_left),
        last_error_kind,
        last_error,
        lag: u64::try_from(lag).unwrap_or(0),
        lag_age: age.map(|seconds| seconds_left(seconds).unwrap_or_default()),
    }
}
