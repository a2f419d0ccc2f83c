//! `sinks status`: where each sink stands, those that never ran and those that are
//! configured nowhere included, and what holds retention back.

mod row;

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use outbox::{CursorStatus, MAX_COUNTED_LAG, Operation, RetentionHold};
use serde::Serialize;
use serde_json::value::RawValue;

use super::exit::Failure;
use super::source::Source;
use super::{database, prune, table};
use row::Row;

/// How many of the last operations are shown.
const OPERATIONS: u32 = 20;

/// Show where each sink stands
#[derive(Args, Debug)]
pub(super) struct ShowStatus {
    /// Show what operators ordered last instead: pauses, seeks and so on
    #[arg(long)]
    operations: bool,
    /// Print one JSON object with everything instead of a table
    #[arg(long)]
    json: bool,
}

/// The JSON as a whole.
#[derive(Debug, Serialize)]
struct Report {
    sinks: Vec<Row>,
    retention: Option<Hold>,
    operations: Vec<Order>,
}

/// The cursor that is the furthest back.
#[derive(Debug, Serialize)]
struct Hold {
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
struct Order {
    id: i64,
    at: String,
    command: String,
    sink: Option<String>,
    by: String,
    details: Box<RawValue>,
}

impl ShowStatus {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks status").await?;
        if self.operations && !self.json {
            let operations = database.operations(OPERATIONS).await?;
            let rows: Vec<_> = operations.into_iter().map(operation).collect();
            let head = ["AT", "COMMAND", "SINK", "BY", "DETAILS"];
            return Ok(table::write(out, head, &rows)?);
        }
        let rows = rows(&config.sinks, database.cursors().await?);
        let hold = database.retention_hold().await?;
        if self.json {
            let operations = database.operations(OPERATIONS).await?;
            let report = Report {
                sinks: rows,
                retention: hold.map(Hold::from),
                operations: operations
                    .into_iter()
                    .map(order)
                    .collect::<Result<_, _>>()?,
            };
            return table::json(out, &report);
        }
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        table::write(out, Row::HEAD, &cells)?;
        // Without a cursor there is nothing to keep, or nobody has begun.
        if hold
            .as_ref()
            .is_some_and(|hold| hold.rows > 0 || hold.strange)
        {
            prune::describe(out, hold.as_ref())?;
        }
        Ok(())
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

fn order(operation: Operation) -> Result<Order, Failure> {
    let details = RawValue::from_string(operation.details).map_err(anyhow::Error::new)?;
    Ok(Order {
        id: operation.id,
        at: operation.at,
        command: operation.command,
        sink: operation.sink,
        by: operation.by,
        details,
    })
}

fn operation(operation: Operation) -> [String; 5] {
    [
        operation.at,
        operation.command,
        operation.sink.unwrap_or_else(|| "-".to_owned()),
        table::one_line(&operation.by),
        table::one_line(&operation.details),
    ]
}

/// One row for every sink that is configured or has a cursor, by name.
fn rows(configured: &[String], cursors: Vec<CursorStatus>) -> Vec<Row> {
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
    use super::row::State;
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
        let json = serde_json::to_string(&order(operation).unwrap()).unwrap();
        assert!(
            json.ends_with(r#""details":{"rows": 12345678901234567890}}"#),
            "{json}"
        );
    }
}
