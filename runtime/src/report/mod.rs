//! What the database says of all sinks, as `sinks status --json` and `/status` tell it.

mod row;

use std::collections::BTreeMap;

use outbox::{CursorStatus, Database, DatabaseError, MAX_COUNTED_LAG, Operation, RetentionHold};
use serde::Serialize;
use serde_json::value::RawValue;

pub(crate) use row::{DeadLetters, Row, State, Suspected};

/// How many of the last operations are shown.
pub(crate) const OPERATIONS: u32 = 20;

/// The JSON as a whole.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    sinks: Vec<Row>,
    retention: Option<Hold>,
    operations: Vec<Order>,
}

/// The cursor that is the furthest back.
#[derive(Debug, Serialize)]
pub(crate) struct Hold {
    /// `sink:NAME` for a sink.
    consumer: String,
    position: String,
    /// Events that are not deleted because of it; counting stops at `MAX_COUNTED_LAG`.
    events: u64,
    events_is_minimum: bool,
    /// The age of the first of them.
    seconds: Option<f64>,
    /// Whether nothing is deleted at all, since positions of another cluster are about.
    strange: bool,
}

/// What an operator ordered.
#[derive(Debug, Serialize)]
pub(crate) struct Order {
    id: i64,
    at: String,
    command: String,
    sink: Option<String>,
    by: String,
    details: Box<RawValue>,
}

impl Report {
    /// Asks the database about the sinks that are configured or have a cursor.
    pub(crate) async fn of(
        database: &Database,
        configured: &[String],
    ) -> Result<Self, DatabaseError> {
        let sinks = rows(configured, database.cursors().await?);
        let retention = database.retention_hold().await?;
        let operations = database.operations(OPERATIONS).await?;
        Ok(Self {
            sinks,
            retention: retention.map(Hold::from),
            operations: operations.into_iter().map(order).collect(),
        })
    }
}

impl From<RetentionHold> for Hold {
    fn from(hold: RetentionHold) -> Self {
        Self {
            consumer: hold.consumer,
            position: hold.position.to_string(),
            events: hold.rows,
            events_is_minimum: hold.rows >= MAX_COUNTED_LAG,
            seconds: hold.age.map(|age| age.as_secs_f64()),
            strange: hold.strange,
        }
    }
}

fn order(operation: Operation) -> Order {
    // Postgres wrote it, so it is JSON; if it were not, it would be shown as a text.
    let details = RawValue::from_string(operation.details.clone())
        .or_else(|_| serde_json::value::to_raw_value(&operation.details))
        .expect("a text is JSON once it is quoted");
    Order {
        id: operation.id,
        at: operation.at,
        command: operation.command,
        sink: operation.sink,
        by: operation.by,
        details,
    }
}

/// One row for every sink that is configured or has a cursor, by name.
pub(crate) fn rows(configured: &[String], cursors: Vec<CursorStatus>) -> Vec<Row> {
    let mut rows = BTreeMap::new();
    for name in configured {
        rows.insert(name.clone(), Row::never_run(name));
    }
    for cursor in cursors {
        let known = configured.contains(&cursor.sink);
        rows.insert(cursor.sink.clone(), Row::of(cursor, known));
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sink_with_a_table_or_a_cursor_has_a_row() {
        let cursor = |sink: &str| CursorStatus {
            sink: sink.to_owned(),
            holder: Some("w".to_owned()),
            ..CursorStatus::default()
        };
        let names = ["b".to_owned(), "c".to_owned()];
        let rows = rows(&names, vec![cursor("a"), cursor("c")]);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.sink.as_str(), row.state))
            .collect();
        let expected = [
            ("a", State::NotConfigured),
            ("b", State::NeverRun),
            ("c", State::UpToDate),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_particulars_of_an_order_are_json_within_json() {
        let operation = Operation {
            id: 3,
            at: "2026-09-24T10:15:02.114Z".to_owned(),
            command: "seek".to_owned(),
            sink: None,
            by: "jo".to_owned(),
            details: r#"{"rows": 12345678901234567890}"#.to_owned(),
        };
        let json = serde_json::to_string(&order(operation)).unwrap();
        assert!(
            json.ends_with(r#""details":{"rows": 12345678901234567890}}"#),
            "{json}"
        );
    }
}
