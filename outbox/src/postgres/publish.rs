//! Publishing events in the caller's own transaction.
//!
//! An event is committed with the change that it tells of, or not at all. One
//! statement publishes any number of events, in their order. The server makes
//! the id and the time, so that both come from one clock.

use std::borrow::Cow;

use serde::Serialize;
use sqlx::PgConnection;
use sqlx::postgres::PgDatabaseError;

use super::rules;
use super::schema::Schema;
use crate::{Position, Txid};

/// An event to publish. The rules, checked before anything is written:
/// `event_type` is `area.name` of at most 128 characters, `tenant_id` has 1 to
/// 128 and `subject` 1 to 512 characters, and the payload at most 64 KiB.
#[derive(Clone, PartialEq, Eq)]
pub struct NewEvent {
    pub(crate) event_type: String,
    pub(crate) tenant_id: String,
    pub(crate) subject: String,
    pub(crate) data: String,
}

impl NewEvent {
    /// An event without data (`null`).
    #[must_use]
    pub fn new(
        event_type: impl Into<String>,
        tenant_id: impl Into<String>,
        subject: impl Into<String>,
    ) -> Self {
        Self {
            event_type: event_type.into(),
            tenant_id: tenant_id.into(),
            subject: subject.into(),
            data: "null".to_owned(),
        }
    }

    /// The same event with a value as its data.
    ///
    /// # Errors
    /// [`PublishError::InvalidInput`] if the value can't be written as JSON.
    pub fn data(self, value: &impl Serialize) -> Result<Self, PublishError> {
        match serde_json::to_string(value) {
            Ok(json) => Ok(self.raw_data(json)),
            Err(_) => Err(PublishError::invalid(
                "data",
                "must be a value that JSON can express",
            )),
        }
    }

    /// The same event with JSON text as its data. The digits of its numbers stay
    /// as they are written. Judged when it is published.
    #[must_use]
    pub fn raw_data(mut self, json: impl Into<String>) -> Self {
        self.data = json.into();
        self
    }
}

/// Prints no data and no subject: they are other people's.
impl std::fmt::Debug for NewEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEvent")
            .field("event_type", &self.event_type)
            .finish_non_exhaustive()
    }
}

/// What became of a published event, once its transaction commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The event's id: `evt_` and 26 characters that sort by time.
    pub id: String,
    /// Its place in the outbox.
    pub position: Position,
}

/// Why an event was not published. The transaction can't be committed after a
/// refusal by the server.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The event breaks a rule.
    #[error("INVALID_INPUT: {field} {rule}")]
    InvalidInput {
        /// The event's field, as the payload spells it.
        field: Cow<'static, str>,
        /// The rule that it breaks.
        rule: Cow<'static, str>,
    },
    /// The database failed, or has no outbox in this schema.
    #[error("publish events")]
    Database(#[source] sqlx::Error),
}

impl PublishError {
    pub(crate) const fn invalid(field: &'static str, rule: &'static str) -> Self {
        Self::InvalidInput {
            field: Cow::Borrowed(field),
            rule: Cow::Borrowed(rule),
        }
    }
}

impl From<sqlx::Error> for PublishError {
    fn from(error: sqlx::Error) -> Self {
        let refusal = error
            .as_database_error()
            .and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
            .filter(|error| error.code() == "22023")
            .and_then(|error| Some((error.column()?.to_owned(), error.detail()?.to_owned())));
        match refusal {
            Some((field, rule)) => Self::InvalidInput {
                field: field.into(),
                rule: rule.into(),
            },
            None => Self::Database(error),
        }
    }
}

/// Publishes into the outbox of one schema.
///
/// For the schema `public` the functions [`publish`] and [`publish_many`] do.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    schema: Schema,
}

impl Publisher {
    /// Publishes into this schema's outbox.
    #[must_use]
    pub fn in_schema(schema: &Schema) -> Self {
        Self {
            schema: schema.clone(),
        }
    }

    /// Publishes one event in the connection's transaction.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn publish(
        &self,
        connection: &mut PgConnection,
        event: NewEvent,
    ) -> Result<Published, PublishError> {
        let mut published = self.publish_many(connection, &[event]).await?;
        Ok(published.pop().expect("one event makes one row"))
    }

    /// Publishes events in their order, all or none, with one statement.
    ///
    /// # Errors
    /// See [`PublishError`]. Nothing is sent if one of them breaks a rule.
    pub async fn publish_many(
        &self,
        connection: &mut PgConnection,
        events: &[NewEvent],
    ) -> Result<Vec<Published>, PublishError> {
        events.iter().try_for_each(rules::check)?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let sql = self.schema.sql(
            "select appended.id, appended.txid, appended.seq
             from unnest($1::text[], $2::text[], $3::text[], $4::text[])
                 with ordinality as event (type, tenant_id, subject, data, n)
             cross join lateral {schema}.outbox_append(
                 event.type, event.tenant_id, event.subject, event.data
             ) as appended
             order by event.n",
        );
        let column = |field: fn(&NewEvent) -> &str| events.iter().map(field).collect::<Vec<_>>();
        let rows: Vec<(String, Txid, i64)> = sqlx::query_as(sql)
            .bind(column(|event| &event.event_type))
            .bind(column(|event| &event.tenant_id))
            .bind(column(|event| &event.subject))
            .bind(column(|event| &event.data))
            .fetch_all(connection)
            .await?;
        let published = rows.into_iter().map(|(id, txid, seq)| Published {
            id,
            position: Position { txid, seq },
        });
        Ok(published.collect())
    }
}

/// Publishes one event into the outbox of schema `public`, in the connection's
/// transaction. See the crate's example.
///
/// # Errors
/// See [`PublishError`].
pub async fn publish(
    connection: &mut PgConnection,
    event: NewEvent,
) -> Result<Published, PublishError> {
    Publisher::default().publish(connection, event).await
}

/// Publishes events in their order into the outbox of schema `public`, all or
/// none, with one statement.
///
/// # Errors
/// See [`PublishError`].
pub async fn publish_many(
    connection: &mut PgConnection,
    events: &[NewEvent],
) -> Result<Vec<Published>, PublishError> {
    Publisher::default().publish_many(connection, events).await
}
