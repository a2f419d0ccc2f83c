//! The record of what operators ordered, and whether it was obeyed.
//!
//! Ids appear in the order of commits, although they are drawn before: the function that
//! adds a row locks the table against other writers until its transaction ends. It runs
//! with its owner's rights, so that an operator can add to the record and not change it.

use sqlx::PgConnection;

use crate::postgres::cursor::consumer;
use crate::postgres::database::Database;
use crate::postgres::error::DatabaseError;
use crate::postgres::lease::sink_lease;
use crate::postgres::schema::Schema;

/// One thing that an operator ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Grows with every order.
    pub id: i64,
    /// When, as RFC 3339 in UTC.
    pub at: String,
    /// The command: `pause`, `resume`, `seek`, `forget`, `adopt`, `replay` or `discard`.
    pub command: String,
    /// The sink, if it was one.
    pub sink: Option<String>,
    /// Who ordered it, as they called themselves.
    pub by: String,
    /// The particulars, as a JSON object.
    pub details: String,
}

/// Who is to obey an order to a sink, and which order was obeyed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obedience {
    /// The worker that holds the sink's lease at present.
    pub holder: Option<String>,
    /// The last order that its cursor's owner took note of.
    pub operation: i64,
    /// Whether a seek is still to be carried out.
    pub seeking: bool,
}

/// Adds a row to the record and returns its id.
///
/// The last thing a transaction does: others wait for its end from here on.
pub(super) async fn record(
    connection: &mut PgConnection,
    schema: &Schema,
    (command, sink): (&str, Option<&str>),
    by: &str,
    details: &serde_json::Value,
) -> Result<i64, sqlx::Error> {
    let sql = schema.sql("select {schema}.outbox_record($1, $2, $3, $4)");
    sqlx::query_scalar(sql)
        .bind(command)
        .bind(sink)
        .bind(by)
        .bind(details.to_string())
        .fetch_one(connection)
        .await
}

impl Database {
    /// What operators ordered last, the newest first, at most `limit`.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn operations(&self, limit: u32) -> Result<Vec<Operation>, DatabaseError> {
        let sql = self.schema().sql(
            "select id, to_char(at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),
                 command, sink, by_whom, details::text
             from {schema}.outbox_operations order by id desc limit $1",
        );
        type Row = (i64, String, String, Option<String>, String, String);
        let query = sqlx::query_as(sql).bind(i64::from(limit));
        let mut checkout = self.checkout().await?;
        let rows: Vec<Row> = self
            .within(query.fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("list operations"))?;
        checkout.release();
        let operations = rows.into_iter().map(|row| {
            let (id, at, command, sink, by, details) = row;
            Operation {
                id,
                at,
                command,
                sink,
                by,
                details,
            }
        });
        Ok(operations.collect())
    }

    /// Whether a sink's cursor has an owner, and which order that one obeyed last.
    /// `None` without a cursor.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn obedience(&self, sink: &str) -> Result<Option<Obedience>, DatabaseError> {
        let sql = self.schema().sql(
            "select lease.holder, kept.obeyed, kept.seek_txid is not null
             from {schema}.outbox_cursors as kept
             left join {schema}.leases as lease
                 on lease.name = $2 and lease.expires_at > {schema}.compute_now()
             where kept.stream = 'outbox' and kept.consumer = $1",
        );
        let query = sqlx::query_as(sql)
            .bind(consumer(sink))
            .bind(sink_lease(sink));
        let mut checkout = self.checkout().await?;
        let row: Option<(Option<String>, i64, bool)> = self
            .within(query.fetch_optional(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("look at a cursor"))?;
        checkout.release();
        Ok(row.map(|(holder, operation, seeking)| Obedience {
            holder,
            operation,
            seeking,
        }))
    }
}
