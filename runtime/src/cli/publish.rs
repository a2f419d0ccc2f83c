//! `sinks publish`: events from standard input, one JSON object a line.
//!
//! A batch of lines is one transaction: it is published as a whole or not at all.

use std::io::Write;

use clap::Args;
use outbox::{ConnectSettings, NewEvent, PublishError, Publisher};
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};

use super::exit::{Failure, Status};
use super::logs;
use super::source::Source;

/// No valid event is longer, however much of it is escaped.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// Publish events from standard input, one JSON object a line
#[derive(Args, Debug)]
#[command(after_help = "\
Each line is an object with type, tenantId, subject and data:
  {\"type\":\"order.paid\",\"tenantId\":\"t1\",\"subject\":\"order/7\",\"data\":{\"total\":1.10}}
A batch that holds a wrong line is not published, nor is anything after it.")]
pub(super) struct Publish {
    /// How many lines make one transaction
    #[arg(long, value_name = "LINES", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
}

/// A line of the input. `data` is kept as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line<'a> {
    #[serde(rename = "type")]
    event_type: String,
    tenant_id: String,
    subject: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// An event with the number of its line.
type Numbered = (u64, NewEvent);

impl Publish {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let config = source.database_config()?;
        logs::start(&config.log);
        let settings = ConnectSettings {
            application_name: "sinks publish".to_owned(),
            ..config.database
        };
        let mut connection = settings.open().await?;
        let publisher = Publisher::in_schema(&settings.schema);
        let mut lines = Lines::of(BufReader::new(tokio::io::stdin()));
        let mut published = 0;
        let result = loop {
            let batch = match lines.batch(self.batch).await {
                Ok(batch) if batch.is_empty() => break Ok(()),
                Ok(batch) => batch,
                Err(failure) => break Err(failure),
            };
            match publish(&mut connection, &publisher, &batch).await {
                Ok(()) => published += batch.len(),
                Err(failure) => break Err(failure),
            }
        };
        writeln!(out, "published {published}")?;
        result
    }
}

async fn publish(
    connection: &mut PgConnection,
    publisher: &Publisher,
    batch: &[Numbered],
) -> Result<(), Failure> {
    let events: Vec<_> = batch.iter().map(|(_, event)| event.clone()).collect();
    let mut transaction = connection.begin().await.map_err(database)?;
    match publisher.publish_many(&mut transaction, &events).await {
        Ok(_) => transaction.commit().await.map_err(database),
        Err(PublishError::Database(error)) => Err(database(error)),
        Err(refusal @ PublishError::InvalidInput { .. }) => {
            transaction.rollback().await.map_err(database)?;
            Err(find_line(connection, publisher, batch, &refusal).await?)
        }
    }
}

/// One by one, in a transaction that is not committed: which line was refused?
async fn find_line(
    connection: &mut PgConnection,
    publisher: &Publisher,
    batch: &[Numbered],
    refusal: &PublishError,
) -> Result<Failure, Failure> {
    let mut transaction = connection.begin().await.map_err(database)?;
    for (number, event) in batch {
        match publisher.publish(&mut transaction, event.clone()).await {
            Ok(_) => {}
            Err(PublishError::Database(error)) => return Err(database(error)),
            Err(refusal @ PublishError::InvalidInput { .. }) => {
                return Ok(refused(*number, &refusal));
            }
        }
    }
    let first = batch.first().map_or(0, |(number, _)| *number);
    Ok(refused(first, refusal))
}

fn refused(line: u64, what: impl std::fmt::Display) -> Failure {
    let message = format!("line {line}: {what}; this batch and what follows it is not published");
    Failure::new(Status::Configuration, message)
}

fn database(error: sqlx::Error) -> Failure {
    Failure::from(outbox::DatabaseError::from(error)).while_doing("publish events")
}

/// The lines of the input, counted from 1.
struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    const fn of(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// The next lines that are not blank; none at the end.
    async fn batch(&mut self, size: u32) -> Result<Vec<Numbered>, Failure> {
        let mut batch = Vec::new();
        let mut line = Vec::new();
        while u64::from(size) > batch.len() as u64 {
            line.clear();
            let mut limited = (&mut self.input).take(MAX_LINE_BYTES);
            if limited.read_until(b'\n', &mut line).await? == 0 {
                break;
            }
            self.number += 1;
            if line.len() as u64 == MAX_LINE_BYTES {
                return Err(refused(self.number, "INVALID_INPUT: longer than 1 MiB"));
            }
            if !line.trim_ascii().is_empty() {
                batch.push((self.number, event(self.number, &line)?));
            }
        }
        Ok(batch)
    }
}

fn event(number: u64, line: &[u8]) -> Result<NewEvent, Failure> {
    let line: Line<'_> = serde_json::from_slice(line)
        .map_err(|error| refused(number, format_args!("INVALID_INPUT: {}", reason(&error))))?;
    let event = NewEvent::new(line.event_type, line.tenant_id, line.subject);
    Ok(match line.data {
        Some(data) => event.raw_data(data.get()),
        None => event,
    })
}

/// What serde has against a line, without the values it may quote.
fn reason(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let column = error.column();
    match error.classify() {
        Category::Data => {
            let text = error.to_string();
            let known = ["missing field `", "unknown field `", "duplicate field `"];
            if known.iter().any(|prefix| text.starts_with(prefix)) {
                // serde counts the lines of this one line.
                let end = text.find(" at line ").unwrap_or(text.len());
                text.get(..end).unwrap_or(&text).to_owned()
            } else {
                format!("type, tenantId and subject must be text (column {column})")
            }
        }
        Category::Syntax | Category::Eof | Category::Io => {
            format!("not a JSON object (column {column})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn batch(input: &str) -> Result<Vec<Numbered>, Failure> {
        Lines::of(input.as_bytes()).batch(100).await
    }

    const GOOD: &str = r#"{"type":"a.b","tenantId":"t","subject":"s","data":{"n":1.10}}"#;

    #[tokio::test]
    async fn blank_lines_are_skipped_and_counted() {
        let events = batch(&format!("{GOOD}\n\n  \n{GOOD}")).await.unwrap();
        let numbers: Vec<_> = events.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 4]);
    }

    #[tokio::test]
    async fn a_wrong_line_is_named_and_not_quoted() {
        for (line, expected) in [
            ("hush", "line 2: INVALID_INPUT: not a JSON object"),
            (
                "[]",
                "line 2: INVALID_INPUT: type, tenantId and subject must be text",
            ),
            (
                r#"{"type":"hush"}"#,
                "line 2: INVALID_INPUT: missing field `tenantId`",
            ),
            (
                r#"{"type":1,"tenantId":"hush"}"#,
                "line 2: INVALID_INPUT: type, tenantId",
            ),
            (
                r#"{"topic":"hush"}"#,
                "line 2: INVALID_INPUT: unknown field `topic`",
            ),
            (
                "{\"type\":\"hush\u{1}\"}",
                "line 2: INVALID_INPUT: not a JSON object",
            ),
        ] {
            let error = batch(&format!("{GOOD}\n{line}\n"))
                .await
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let error = batch(&"x".repeat(3 << 20)).await.unwrap_err().to_string();
        assert!(error.contains("longer than 1 MiB"), "{error}");
    }
}
