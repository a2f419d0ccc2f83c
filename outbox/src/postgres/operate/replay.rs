//! Replaying dead letters and discarding them. Both only mark rows: the sink's own loop
//! delivers what is to be replayed, apart from its cursor.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sqlx::{Connection, PgConnection, Row};

use super::audit::record;
use super::dead_letters::{DeadLetterFilter, bind, matching};
use super::moment::Moment;
use super::newer::Newer;
use crate::Filter;
use crate::postgres::database::Database;
use crate::postgres::error::DatabaseError;
use crate::postgres::schema::Schema;

/// Dead letters that were ordered to be replayed, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaying {
    /// The order's id; none in a dry run, or if there was nothing to do.
    pub operation: Option<i64>,
    /// How many, by sink.
    pub sinks: BTreeMap<String, u64>,
    /// Whether events of the same subjects have overtaken them.
    pub newer: Newer,
}

/// Dead letters that were discarded, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discarded {
    /// The order's id; none in a dry run, or if there was nothing to do.
    pub operation: Option<i64>,
    /// How many, by sink.
    pub sinks: BTreeMap<String, u64>,
}

/// Dead letters that an order is for.
struct Marked {
    operation: Option<i64>,
    ids: Vec<i64>,
    sinks: BTreeMap<String, u64>,
}

/// One that was discarded is taken back only by its id. Locked in order, so that two
/// orders do not wait for each other.
const TO_REPLAY: &str = concat!(
    "select id, sink from {schema}.outbox_dead_letters where ",
    matching!(),
    " and (state = 'dead' or state = 'discarded' and cardinality($4) > 0)
     order by id for update"
);

const TO_DISCARD: &str = concat!(
    "select id, sink from {schema}.outbox_dead_letters where ",
    matching!(),
    " and state in ('dead', 'replaying') order by id for update"
);

impl Database {
    /// Orders that dead letters are delivered again. What is being replayed already is
    /// left as it is. A dry run only says which. `taken` are the sinks' filters, where
    /// they are known: what a sink doesn't take has overtaken nothing.
    ///
    /// # Errors
    /// [`DatabaseError`]. Nothing is ordered then.
    pub async fn replay_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        taken: &BTreeMap<String, Filter>,
        by: &str,
        dry_run: bool,
    ) -> Result<Replaying, DatabaseError> {
        let order = Order {
            command: "replay",
            select: TO_REPLAY,
            state: "replaying",
        };
        let marked = self.mark_dead_letters(&order, filter, by, dry_run).await?;
        // It is ordered by now: a look that fails only leaves the question open.
        let newer = self.newer_events(&marked.ids, taken).await;
        Ok(Replaying {
            operation: marked.operation,
            sinks: marked.sinks,
            newer: newer.unwrap_or(Newer {
                overtaken: 0,
                unsure: true,
            }),
        })
    }

    /// Gives dead letters up, also those that are to be replayed. Their rows stay. A dry
    /// run only says which.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn discard_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        by: &str,
        dry_run: bool,
    ) -> Result<Discarded, DatabaseError> {
        let order = Order {
            command: "discard",
            select: TO_DISCARD,
            state: "discarded",
        };
        let marked = self.mark_dead_letters(&order, filter, by, dry_run).await?;
        Ok(Discarded {
            operation: marked.operation,
            sinks: marked.sinks,
        })
    }

    async fn mark_dead_letters(
        &self,
        order: &Order,
        filter: &DeadLetterFilter,
        by: &str,
        dry_run: bool,
    ) -> Result<Marked, DatabaseError> {
        let mut checkout = self.checkout().await?;
        let marked = self
            .within(order.give(&mut checkout, self.schema(), filter, by, dry_run))
            .await
            .map_err(|error| error.while_doing("mark dead letters"))?;
        checkout.release();
        Ok(marked)
    }
}

struct Order {
    command: &'static str,
    /// Which of the filter's dead letters it is for, as a statement that locks them.
    select: &'static str,
    /// What becomes of them.
    state: &'static str,
}

impl Order {
    async fn give(
        &self,
        connection: &mut PgConnection,
        schema: &Schema,
        filter: &DeadLetterFilter,
        by: &str,
        dry_run: bool,
    ) -> Result<Marked, sqlx::Error> {
        let mut transaction = connection.begin().await?;
        let rows = bind(sqlx::query(schema.sql(self.select)), filter)
            .fetch_all(&mut *transaction)
            .await?;
        let mut marked = Marked {
            operation: None,
            ids: Vec::with_capacity(rows.len()),
            sinks: BTreeMap::new(),
        };
        for row in &rows {
            marked.ids.push(row.try_get("id")?);
            *marked.sinks.entry(row.try_get("sink")?).or_default() += 1;
        }
        if dry_run || rows.is_empty() {
            transaction.rollback().await?;
            return Ok(marked);
        }
        let sql = schema.sql(
            "update {schema}.outbox_dead_letters
             set state = $2, state_changed_at = {schema}.compute_now() where id = any ($1)",
        );
        sqlx::query(sql)
            .bind(&marked.ids)
            .bind(self.state)
            .execute(&mut *transaction)
            .await?;
        let sink = match marked.sinks.keys().collect::<Vec<_>>().as_slice() {
            [sink] => Some(sink.as_str()),
            _ => None,
        };
        let what = (self.command, sink);
        let details = details(filter, &marked);
        marked.operation = Some(record(&mut transaction, schema, what, by, &details).await?);
        transaction.commit().await?;
        Ok(marked)
    }
}

/// What the record keeps of an order: what it met, and by which choice.
fn details(filter: &DeadLetterFilter, marked: &Marked) -> Value {
    let types: Vec<_> = filter.types.iter().map(ToString::to_string).collect();
    let choice = [
        ("sinks", json!(filter.sinks)),
        ("codes", json!(filter.codes)),
        ("types", json!(types)),
        ("ids", json!(filter.ids)),
        ("before", json!(filter.before.map(Moment::told))),
    ];
    let said = choice
        .into_iter()
        .filter(|(_, value)| !value.is_null() && *value != json!([]))
        .map(|(name, value)| (name.to_owned(), value));
    json!({
        "dead_letters": marked.ids.len(),
        "sinks": marked.sinks,
        "filter": said.collect::<Map<_, _>>(),
    })
}
