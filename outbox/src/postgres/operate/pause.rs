//! Pausing a sink and resuming it.
//!
//! A paused sink keeps its position, and holds retention back like any other. The fuse
//! pauses sinks as well; whoever resumes them afterwards is an operator.

use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::OperateError;
use super::audit::record;
use crate::postgres::cursor::consumer;
use crate::postgres::database::Database;
use crate::postgres::schema::Schema;
use crate::postgres::status::{Pause, pause as pause_of};

/// What became of a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paused {
    /// It was ordered, under this id.
    Ordered(i64),
    /// The sink was paused already, which was left as it is.
    Already(Pause),
}

/// What became of a resumption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// It was ordered.
    Ordered {
        /// The order's id.
        operation: i64,
        /// What was ended by it. Without a pause it was the wait between two attempts.
        pause: Option<Pause>,
    },
    /// The sink was neither paused nor waiting to try again.
    Nothing,
}

impl Database {
    /// Orders that a sink delivers nothing from here on. What is being delivered at this
    /// moment is finished first.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn pause(
        &self,
        sink: &str,
        reason: Option<&str>,
        by: &str,
    ) -> Result<Paused, OperateError> {
        let mut checkout = self.checkout().await?;
        let paused = self
            .within(pause(&mut checkout, self.schema(), (sink, reason), by))
            .await
            .map_err(|error| error.while_doing("pause a sink"))?;
        checkout.release();
        paused.ok_or_else(|| OperateError::NoCursor(sink.to_owned()))
    }

    /// Orders that a sink goes on, and at once: it waits no longer for its next attempt.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn resume(&self, sink: &str, by: &str) -> Result<Resumed, OperateError> {
        let mut checkout = self.checkout().await?;
        let resumed = self
            .within(resume(&mut checkout, self.schema(), sink, by))
            .await
            .map_err(|error| error.while_doing("resume a sink"))?;
        checkout.release();
        resumed.ok_or_else(|| OperateError::NoCursor(sink.to_owned()))
    }
}

/// What a cursor row says of pauses; the row is locked.
type Kept = (Option<f64>, Option<String>, Option<String>, bool);

async fn look(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
) -> Result<Option<(Option<Pause>, bool)>, sqlx::Error> {
    let sql = schema.sql(
        "select extract(epoch from {schema}.compute_now() - paused_at)::float8,
             paused_by, pause_reason, attempts > 0 or next_retry_at is not null
         from {schema}.outbox_cursors
         where stream = 'outbox' and consumer = $1 for update",
    );
    let row: Option<Kept> = sqlx::query_as(sql)
        .bind(consumer(sink))
        .fetch_optional(connection)
        .await?;
    Ok(row.map(|(age, by, reason, waits)| (pause_of(age, by, reason), waits)))
}

async fn pause(
    connection: &mut PgConnection,
    schema: &Schema,
    (sink, reason): (&str, Option<&str>),
    by: &str,
) -> Result<Option<Paused>, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let unchanged = match look(&mut transaction, schema, sink).await? {
        Some((None, _)) => {
            let sql = schema.sql(
                "update {schema}.outbox_cursors
                 set paused_at = {schema}.compute_now(), paused_by = $2, pause_reason = $3
                 where stream = 'outbox' and consumer = $1",
            );
            sqlx::query(sql)
                .bind(consumer(sink))
                .bind(by)
                .bind(reason)
                .execute(&mut *transaction)
                .await?;
            let (what, details) = (("pause", Some(sink)), json!({ "reason": reason }));
            let operation = record(&mut transaction, schema, what, by, &details).await?;
            transaction.commit().await?;
            return Ok(Some(Paused::Ordered(operation)));
        }
        Some((Some(pause), _)) => Some(Paused::Already(pause)),
        None => None,
    };
    transaction.rollback().await?;
    Ok(unchanged)
}

async fn resume(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
    by: &str,
) -> Result<Option<Resumed>, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let Some((pause, waits)) = look(&mut transaction, schema, sink).await? else {
        transaction.rollback().await?;
        return Ok(None);
    };
    if pause.is_none() && !waits {
        transaction.rollback().await?;
        return Ok(Some(Resumed::Nothing));
    }
    let sql = schema.sql(
        "update {schema}.outbox_cursors
         set paused_at = null, paused_by = null, pause_reason = null,
             resumed_at = {schema}.compute_now(), attempts = 0, next_retry_at = null
         where stream = 'outbox' and consumer = $1",
    );
    sqlx::query(sql)
        .bind(consumer(sink))
        .execute(&mut *transaction)
        .await?;
    let was = pause.as_ref();
    let details = json!({
        "was_paused": was.is_some(),
        "reason": was.and_then(|pause| pause.reason.as_deref()),
    });
    let what = ("resume", Some(sink));
    let operation = record(&mut transaction, schema, what, by, &details).await?;
    transaction.commit().await?;
    Ok(Some(Resumed::Ordered { operation, pause }))
}
