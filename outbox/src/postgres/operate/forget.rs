//! Forgetting a sink: its cursor goes, and with it what it holds back from retention.
//!
//! Its dead letters stay, and so does its lease's row: tokens never repeat.

use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::audit::record;
use super::{Answer, OperateError};
use crate::postgres::cursor::consumer;
use crate::postgres::database::Database;
use crate::postgres::lease::sink_lease;
use crate::postgres::schema::Schema;
use crate::{Position, Txid};

/// A sink that was forgotten, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The order's id; none in a dry run.
    pub operation: Option<i64>,
    /// Where its cursor was.
    pub position: Position,
}

impl Database {
    /// Removes a sink's cursor. A worker that has the sink in its configuration makes it a
    /// new one, where its `start` says. A dry run only says where the cursor is.
    ///
    /// # Errors
    /// [`OperateError`]; also while a worker holds the sink's lease.
    pub async fn forget(
        &self,
        sink: &str,
        by: &str,
        dry_run: bool,
    ) -> Result<Forgotten, OperateError> {
        let mut checkout = self.checkout().await?;
        let forgotten = self
            .within(forget(&mut checkout, self.schema(), sink, by, dry_run))
            .await
            .map_err(|error| error.while_doing("forget a sink"))?;
        checkout.release();
        forgotten
    }
}

async fn forget(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
    by: &str,
    dry_run: bool,
) -> Answer<Forgotten> {
    let mut transaction = connection.begin().await?;
    let found = look(&mut transaction, schema, sink).await?;
    let mut forgotten = match found {
        Ok(forgotten) if !dry_run => forgotten,
        unchanged => {
            transaction.rollback().await?;
            return Ok(unchanged);
        }
    };
    let sql =
        schema.sql("delete from {schema}.outbox_cursors where stream = 'outbox' and consumer = $1");
    sqlx::query(sql)
        .bind(consumer(sink))
        .execute(&mut *transaction)
        .await?;
    let details = json!({ "position": forgotten.position.to_string() });
    let what = ("forget", Some(sink));
    forgotten.operation = Some(record(&mut transaction, schema, what, by, &details).await?);
    transaction.commit().await?;
    Ok(Ok(forgotten))
}

/// The cursor, if nobody holds the sink. The cursor is locked first: a worker that takes
/// the lease after we have looked waits for us before it claims the cursor.
async fn look(connection: &mut PgConnection, schema: &Schema, sink: &str) -> Answer<Forgotten> {
    let sql = schema.sql(
        "select txid, seq from {schema}.outbox_cursors
         where stream = 'outbox' and consumer = $1 for update",
    );
    let row: Option<(Txid, i64)> = sqlx::query_as(sql)
        .bind(consumer(sink))
        .fetch_optional(&mut *connection)
        .await?;
    let Some((txid, seq)) = row else {
        return Ok(Err(OperateError::NoCursor(sink.to_owned())));
    };
    let sql = schema.sql(
        "select holder from {schema}.leases
         where name = $1 and holder is not null and expires_at > {schema}.compute_now()",
    );
    let holder: Option<String> = sqlx::query_scalar(sql)
        .bind(sink_lease(sink))
        .fetch_optional(connection)
        .await?;
    Ok(match holder {
        Some(holder) => Err(OperateError::Held(format!("{sink} (by {holder})"))),
        None => Ok(Forgotten {
            operation: None,
            position: Position { txid, seq },
        }),
    })
}
