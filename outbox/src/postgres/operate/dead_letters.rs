//! The dead letters as operators see them: which there are, and one in full.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use super::moment::Moment;
use crate::postgres::database::Database;
use crate::postgres::error::DatabaseError;
use crate::{Position, Txid, TypePattern};

/// What may become of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadLetterState {
    /// It waits for an operator.
    Dead,
    /// It was ordered to be delivered again, which the sink's own loop does.
    Replaying,
    /// It was delivered again.
    Replayed,
    /// An operator decided that nobody needs it.
    Discarded,
}

impl DeadLetterState {
    /// The word in the table and in results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Replaying => "replaying",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "replaying" => Self::Replaying,
            "replayed" => Self::Replayed,
            "discarded" => Self::Discarded,
            // The table allows no other word.
            _ => Self::Dead,
        }
    }
}

/// Which dead letters are meant. What is empty or absent leaves nothing out.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    /// Of these sinks.
    pub sinks: Vec<String>,
    /// Refused with these codes.
    pub codes: Vec<String>,
    /// Of these types of event.
    pub types: Vec<TypePattern>,
    /// Set aside before this moment.
    pub before: Option<Moment>,
    /// With these ids.
    pub ids: Vec<i64>,
}

impl DeadLetterFilter {
    /// Whether every dead letter is meant.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.sinks.is_empty()
            && self.codes.is_empty()
            && self.types.is_empty()
            && self.before.is_none()
            && self.ids.is_empty()
    }
}

/// The filter's condition; [`bind`] binds its six parameters.
macro_rules! matching {
    () => {
        "(cardinality($1::text[]) = 0 or sink = any ($1))
         and (cardinality($2::text[]) = 0 or code = any ($2))
         and (cardinality($3::text[]) = 0 or topic like any ($3))
         and (cardinality($4::int8[]) = 0 or id = any ($4))
         and ($5::interval is null or dead_lettered_at < timestamptz 'epoch' + $5)
         and ($6::interval is null or dead_lettered_at < {schema}.compute_now() - $6)"
    };
}
pub(super) use matching;

type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// Binds the parameters 1 to 6.
pub(super) fn bind<'q>(query: Bound<'q>, filter: &DeadLetterFilter) -> Bound<'q> {
    let types: Vec<_> = filter.types.iter().map(TypePattern::to_like).collect();
    let (at, ago) = filter.before.map_or((None, None), Moment::parts);
    query
        .bind(filter.sinks.clone())
        .bind(filter.codes.clone())
        .bind(types)
        .bind(filter.ids.clone())
        .bind(at)
        .bind(ago)
}

/// A dead letter. Times are RFC 3339 in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterRow {
    /// Its number.
    pub id: i64,
    /// The sink whose destination would not take it.
    pub sink: String,
    /// The event's place in the outbox, where it may be gone by now.
    pub position: Position,
    /// The event's id.
    pub event_id: String,
    /// The event's type.
    pub topic: String,
    /// Why, for programs.
    pub code: String,
    /// Why, for people.
    pub error: String,
    /// How often it was refused.
    pub attempts: i32,
    /// When it was refused first.
    pub first_failed_at: String,
    /// When it was set aside.
    pub dead_lettered_at: String,
    /// What became of it.
    pub state: DeadLetterState,
    /// Since when.
    pub state_changed_at: String,
    /// How often it was delivered again.
    pub replays: i32,
    /// The payload's text, if it was asked for.
    pub payload: Option<String>,
    /// Why that text is not what was published, if it is not: it can't be sent.
    pub damage: Option<String>,
}

macro_rules! columns {
    ($payload:literal) => {
        concat!(
            "select id, sink, txid, seq, event_id, topic, code, error, attempts, state, replays,
                 damage,
                 to_char(first_failed_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as failed,
                 to_char(dead_lettered_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as died,
                 to_char(state_changed_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as changed, ",
            $payload,
            " from {schema}.outbox_dead_letters "
        )
    };
}

impl Database {
    /// Dead letters in the order of their ids, at most `limit`, without their payloads.
    /// With `settled` also those that were replayed or discarded.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        settled: bool,
        limit: u32,
    ) -> Result<Vec<DeadLetterRow>, DatabaseError> {
        let sql = self.schema().sql(concat!(
            columns!("null::text as payload"),
            "where ",
            matching!(),
            " and ($7 or state in ('dead', 'replaying')) order by id limit $8"
        ));
        let query = bind(sqlx::query(sql), filter)
            .bind(settled)
            .bind(i64::from(limit));
        self.rows(query).await
    }

    /// One dead letter with its payload.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn dead_letter(&self, id: i64) -> Result<Option<DeadLetterRow>, DatabaseError> {
        let sql = self
            .schema()
            .sql(concat!(columns!("payload"), "where id = $1"));
        Ok(self.rows(sqlx::query(sql).bind(id)).await?.pop())
    }

    /// The sinks that have dead letters, also those without a cursor, by name.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn sinks_with_dead_letters(&self) -> Result<Vec<String>, DatabaseError> {
        let sql = self
            .schema()
            .sql("select distinct sink from {schema}.outbox_dead_letters order by sink");
        let mut checkout = self.checkout().await?;
        let sinks = self
            .within(sqlx::query_scalar(sql).fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("list sinks with dead letters"))?;
        checkout.release();
        Ok(sinks)
    }

    async fn rows(&self, query: Bound<'_>) -> Result<Vec<DeadLetterRow>, DatabaseError> {
        let mut checkout = self.checkout().await?;
        let rows = self
            .within(query.fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("list dead letters"))?;
        checkout.release();
        let rows: Result<_, sqlx::Error> = rows.iter().map(read).collect();
        Ok(rows?)
    }
}

fn read(row: &PgRow) -> Result<DeadLetterRow, sqlx::Error> {
    Ok(DeadLetterRow {
        id: row.try_get("id")?,
        sink: row.try_get("sink")?,
        position: Position {
            txid: row.try_get::<Txid, _>("txid")?,
            seq: row.try_get("seq")?,
        },
        event_id: row.try_get("event_id")?,
        topic: row.try_get("topic")?,
        code: row.try_get("code")?,
        error: row.try_get("error")?,
        attempts: row.try_get("attempts")?,
        first_failed_at: row.try_get("failed")?,
        dead_lettered_at: row.try_get("died")?,
        state: DeadLetterState::of(row.try_get("state")?),
        state_changed_at: row.try_get("changed")?,
        replays: row.try_get("replays")?,
        payload: row.try_get("payload")?,
        damage: row.try_get("damage")?,
    })
}
