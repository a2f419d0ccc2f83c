//! Cursors: how far each sink has come, written under its lease's token.
//!
//! The fence is on the row itself (OB-3): a claim stamps the row with its token,
//! and a save under another token changes nothing, however late it arrives. A
//! cursor never moves back (OB-2).

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgQueryResult;

use super::database::Database;
use super::error::DatabaseError;
use super::lease::{Lease, interval, seconds_left};
use super::schema::Schema;
use crate::{Position, Txid};

/// The longest error text that is kept, in characters.
const MAX_ERROR_CHARS: usize = 2_000;

/// A sink's cursor as its present holder found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The last position that is done with.
    pub position: Position,
    /// Whether the position is from another cluster, of which this database is a
    /// copy: it means nothing here.
    pub foreign: bool,
    /// Failed deliveries in a row of what comes next.
    pub attempts: u32,
    /// How long to wait before the next delivery.
    pub retry_in: Option<Duration>,
    /// The last failure's kind, as it was saved.
    pub last_error_kind: Option<String>,
    /// The last failure, as it was saved.
    pub last_error: Option<String>,
}

/// What became of a write under a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a fenced write has changed nothing"]
pub enum Fence<T = ()> {
    /// It was written.
    Held(T),
    /// Nothing was changed: somebody newer owns the cursor, or it is not where the
    /// writer believes it to be. It has to be claimed again.
    Fenced,
}

/// A failed delivery, to be remembered across holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// How far the cursor may move all the same: a part may have been delivered.
    pub up_to: Option<Position>,
    /// Failed deliveries in a row, this one counted.
    pub attempts: u32,
    /// How long to wait before the next one.
    pub retry_in: Duration,
    /// A word for the kind of failure.
    pub kind: &'a str,
    /// A sentence without payload or secrets. A long one is cut.
    pub error: &'a str,
}

/// The consumer's name of a sink's cursor.
pub(super) fn consumer(sink: &str) -> String {
    format!("sink:{sink}")
}

impl Database {
    /// Takes a sink's cursor over for a lease, and creates it at `start` if there
    /// is none. From then on no earlier holder can write it.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn claim_cursor(
        &self,
        sink: &str,
        lease: &Lease,
        start: Position,
    ) -> Result<Fence<Cursor>, DatabaseError> {
        let sql = self.schema().sql(
            "insert into {schema}.outbox_cursors as kept (stream, consumer, txid, seq, token)
             values ('outbox', $1, $2, $3, $4)
             on conflict (stream, consumer) do update set token = excluded.token
             where kept.token <= excluded.token
             returning txid, seq,
                 system_identifier <> (pg_control_system()).system_identifier,
                 attempts, extract(epoch from next_retry_at - {schema}.compute_now())::float8,
                 last_error_kind, last_error",
        );
        type Row = (
            Txid,
            i64,
            bool,
            i32,
            Option<f64>,
            Option<String>,
            Option<String>,
        );
        let query = sqlx::query_as(sql)
            .bind(consumer(sink))
            .bind(start.txid)
            .bind(start.seq)
            .bind(lease.token);
        let mut checkout = self.checkout().await?;
        let row: Option<Row> = self
            .within(query.fetch_optional(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("claim a cursor"))?;
        checkout.release();
        let Some((txid, seq, foreign, attempts, wait, last_error_kind, last_error)) = row else {
            return Ok(Fence::Fenced);
        };
        Ok(Fence::Held(Cursor {
            position: Position { txid, seq },
            foreign,
            attempts: u32::try_from(attempts).unwrap_or(0),
            retry_in: wait.and_then(seconds_left),
            last_error_kind,
            last_error,
        }))
    }

    /// Moves a sink's cursor to `position` and forgets its failures.
    ///
    /// It is fenced under another token, but also if the cursor is beyond `position`
    /// already (it never moves back), or if `position` is not below the server's
    /// horizon: then what was read belongs to another history than the server's, as
    /// after a crash that lost commits. Who claims the cursor again knows where it is.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn save_cursor(
        &self,
        sink: &str,
        lease: &Lease,
        position: Position,
    ) -> Result<Fence, DatabaseError> {
        let mut checkout = self.checkout().await?;
        let saved = self
            .within(save(&mut checkout, self.schema(), sink, lease, position))
            .await
            .map_err(|error| error.while_doing("save a cursor"))?;
        checkout.release();
        Ok(saved)
    }

    /// Remembers a failed delivery in a sink's cursor, which moves only as far as the
    /// failure says. What fences [`Database::save_cursor`] fences this as well.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn save_failure(
        &self,
        sink: &str,
        lease: &Lease,
        failure: Failure<'_>,
    ) -> Result<Fence, DatabaseError> {
        let sql = self.schema().sql(
            "update {schema}.outbox_cursors
             set attempts = $3, next_retry_at = {schema}.compute_now() + $4,
                 last_error_kind = $5, last_error = $6, updated_at = {schema}.compute_now(),
                 txid = coalesce($7, txid), seq = coalesce($8, seq)
             where stream = 'outbox' and consumer = $1 and token = $2
                 and ($7 is null or ((txid, seq) <= ($7, $8)
                     and $7 < pg_snapshot_xmin(pg_current_snapshot())))",
        );
        let query = sqlx::query(sql)
            .bind(consumer(sink))
            .bind(lease.token)
            .bind(i32::try_from(failure.attempts).unwrap_or(i32::MAX))
            .bind(interval(failure.retry_in))
            .bind(storable(failure.kind))
            .bind(storable(failure.error))
            .bind(failure.up_to.map(|position| position.txid))
            .bind(failure.up_to.map(|position| position.seq));
        let mut checkout = self.checkout().await?;
        let done = self
            .within(query.execute(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("save a failure"))?;
        checkout.release();
        Ok(held(&done))
    }
}

async fn save(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
    lease: &Lease,
    position: Position,
) -> Result<Fence, DatabaseError> {
    // If the row is locked by a claim, the update waits for it and then looks at
    // the token again: that is what "read committed" promises. A position beyond
    // the horizon was read from a history that this server has lost.
    let sql = schema.sql(
        "update {schema}.outbox_cursors
         set txid = $3, seq = $4, attempts = 0, next_retry_at = null,
             last_error_kind = null, last_error = null, updated_at = {schema}.compute_now()
         where stream = 'outbox' and consumer = $1 and token = $2
             and (txid, seq) <= ($3, $4) and $3 < pg_snapshot_xmin(pg_current_snapshot())",
    );
    let done = sqlx::query(sql)
        .bind(consumer(sink))
        .bind(lease.token)
        .bind(position.txid)
        .bind(position.seq)
        .execute(&mut *connection)
        .await?;
    Ok(held(&done))
}

/// A write that met its conditions changed one row.
fn held(done: &PgQueryResult) -> Fence {
    match done.rows_affected() {
        0 => Fence::Fenced,
        _ => Fence::Held(()),
    }
}

/// Text without NUL, which no Postgres text can hold, and of a bounded length.
fn storable(text: &str) -> String {
    let kept = text.chars().filter(|character| *character != '\0');
    kept.take(MAX_ERROR_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_text_is_cut_and_has_no_nul() {
        assert_eq!(storable("a\0b"), "ab");
        assert_eq!(storable(&"é".repeat(3_000)).chars().count(), 2_000);
    }
}
