//! `sinks status`: where each sink stands, those that never ran and those that are
//! configured nowhere included.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::Args;
use outbox::{ConnectSettings, CursorStatus, Database, MAX_COUNTED_LAG};
use serde::Serialize;

use super::exit::Failure;
use super::source::Source;
use super::{database, logs, table};

/// Show where each sink stands
#[derive(Args, Debug)]
pub(super) struct ShowStatus {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The JSON as a whole.
#[derive(Debug, Serialize)]
struct Report {
    sinks: Vec<Row>,
}

/// A sink as the table and the JSON show it.
#[derive(Debug, Serialize)]
struct Row {
    sink: String,
    state: State,
    /// `txid.seq`: everything up to here is done with.
    position: Option<String>,
    /// Events that are readable and not done with; counting stops at `MAX_COUNTED_LAG`.
    lag_events: Option<u64>,
    lag_events_is_minimum: bool,
    /// The age of the first of them.
    lag_seconds: Option<f64>,
    holder: Option<String>,
    attempts: u32,
    retry_in_seconds: Option<f64>,
    last_error_kind: Option<String>,
    last_error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Configured, and no worker has opened it yet.
    NeverRun,
    /// A cursor whose sink is configured nowhere that we can see.
    NotConfigured,
    /// Its deliveries fail; it waits between them.
    BackingOff,
    /// No worker has it.
    Free,
    /// Held, with events before it.
    Delivering,
    /// Held, with nothing to do.
    UpToDate,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NeverRun => "never run",
            Self::NotConfigured => "not configured",
            Self::BackingOff => "backing off",
            Self::Free => "free",
            Self::Delivering => "delivering",
            Self::UpToDate => "up to date",
        }
    }
}

impl ShowStatus {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let config = source.database_config()?;
        logs::start(&config.log);
        let settings = ConnectSettings {
            application_name: "sinks status".to_owned(),
            ..config.database
        };
        database::require_current(&settings).await?;
        let cursors = Database::lazy(&settings).cursors().await?;
        let rows = rows(&config.sinks, cursors);
        if self.json {
            let report = serde_json::to_string_pretty(&Report { sinks: rows });
            writeln!(out, "{}", report.map_err(anyhow::Error::new)?)?;
        } else {
            let head = [
                "SINK",
                "STATE",
                "POSITION",
                "LAG",
                "AGE",
                "HOLDER",
                "ATTEMPTS",
                "RETRY IN",
                "LAST ERROR",
            ];
            let cells: Vec<_> = rows.iter().map(cells).collect();
            table::write(out, head, &cells)?;
        }
        Ok(())
    }
}

/// One row for every sink that is configured or has a cursor, by name.
fn rows(configured: &[String], cursors: Vec<CursorStatus>) -> Vec<Row> {
    let mut rows = BTreeMap::new();
    for name in configured {
        rows.insert(name.clone(), never_run(name));
    }
    for cursor in cursors {
        let known = configured.contains(&cursor.sink);
        rows.insert(cursor.sink.clone(), row(cursor, known));
    }
    rows.into_values().collect()
}

fn never_run(name: &str) -> Row {
    Row {
        sink: name.to_owned(),
        state: State::NeverRun,
        position: None,
        lag_events: None,
        lag_events_is_minimum: false,
        lag_seconds: None,
        holder: None,
        attempts: 0,
        retry_in_seconds: None,
        last_error_kind: None,
        last_error: None,
    }
}

fn row(cursor: CursorStatus, configured: bool) -> Row {
    let state = if !configured {
        State::NotConfigured
    } else if cursor.attempts > 0 {
        State::BackingOff
    } else if cursor.holder.is_none() {
        State::Free
    } else if cursor.lag > 0 {
        State::Delivering
    } else {
        State::UpToDate
    };
    Row {
        sink: cursor.sink,
        state,
        position: Some(cursor.position.to_string()),
        lag_events: Some(cursor.lag),
        lag_events_is_minimum: cursor.lag >= MAX_COUNTED_LAG,
        lag_seconds: cursor.lag_age.map(|age| age.as_secs_f64()),
        holder: cursor.holder,
        attempts: cursor.attempts,
        retry_in_seconds: cursor.retry_in.map(|wait| wait.as_secs_f64()),
        last_error_kind: cursor.last_error_kind,
        last_error: cursor.last_error,
    }
}

fn cells(row: &Row) -> [String; 9] {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let lag = row
        .lag_events
        .map(|events| match row.lag_events_is_minimum {
            true => format!("{events}+"),
            false => events.to_string(),
        });
    let error = match (&row.last_error_kind, &row.last_error) {
        (Some(kind), Some(error)) => format!("{kind}: {}", one_line(error)),
        (_, error) => text(error),
    };
    [
        row.sink.clone(),
        row.state.as_str().to_owned(),
        text(&row.position),
        text(&lag),
        text(&row.lag_seconds.map(span)),
        text(&row.holder),
        row.attempts.to_string(),
        text(&row.retry_in_seconds.map(span)),
        error,
    ]
}

/// An error may come with line ends or worse: a table has neither.
fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

/// A length of time in whole seconds, for people.
fn span(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).map_or(0, |span| span.as_secs());
    humantime::format_duration(Duration::from_secs(whole)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Position;

    fn cursor(sink: &str) -> CursorStatus {
        CursorStatus {
            sink: sink.to_owned(),
            position: Position::new(7, 9),
            holder: Some("w".to_owned()),
            attempts: 0,
            retry_in: None,
            last_error_kind: None,
            last_error: None,
            lag: 0,
            lag_age: None,
        }
    }

    #[test]
    fn every_sink_with_a_table_or_a_cursor_has_a_row() {
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
    fn the_state_tells_what_matters_most() {
        let lagging = CursorStatus {
            lag: MAX_COUNTED_LAG,
            lag_age: Some(Duration::from_millis(90_500)),
            ..cursor("a")
        };
        let free = CursorStatus {
            holder: None,
            ..lagging.clone()
        };
        let failing = CursorStatus {
            attempts: 3,
            retry_in: Some(Duration::from_secs(4)),
            last_error_kind: Some("unavailable".to_owned()),
            last_error: Some("connect\nto it".to_owned()),
            ..free.clone()
        };
        for (cursor, expected) in [
            (
                lagging,
                ["delivering", "10000+", "1m 30s", "w", "0", "-", "-"],
            ),
            (free, ["free", "10000+", "1m 30s", "-", "0", "-", "-"]),
            (
                failing,
                [
                    "backing off",
                    "10000+",
                    "1m 30s",
                    "-",
                    "3",
                    "4s",
                    "unavailable: connect to it",
                ],
            ),
        ] {
            let [_, state, position, rest @ ..] = cells(&row(cursor, true));
            assert_eq!(position, "7.9");
            assert_eq!([&[state], rest.as_slice()].concat(), expected);
        }
    }
}
