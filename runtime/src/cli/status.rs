//! `sinks status`: where each sink stands, those that never ran and those that are
//! configured nowhere included, and what holds retention back.

mod cells;

use std::io::Write;

use clap::Args;
use outbox::Operation;

use super::exit::Failure;
use super::source::Source;
use super::{database, prune, table};
use crate::report::{self, OPERATIONS, Report, Row};

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

impl ShowStatus {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks status").await?;
        if self.operations && !self.json {
            let operations = database.operations(OPERATIONS).await?;
            let rows: Vec<_> = operations.into_iter().map(operation).collect();
            let head = ["AT", "COMMAND", "SINK", "BY", "DETAILS"];
            return Ok(table::write(out, head, &rows)?);
        }
        if self.json {
            return table::json(out, &Report::of(&database, &config.sinks).await?);
        }
        let rows = report::rows(&config.sinks, database.cursors().await?);
        let hold = database.retention_hold().await?;
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

fn operation(operation: Operation) -> [String; 5] {
    [
        operation.at,
        operation.command,
        operation.sink.unwrap_or_else(|| "-".to_owned()),
        table::one_line(&operation.by),
        table::one_line(&operation.details),
    ]
}
