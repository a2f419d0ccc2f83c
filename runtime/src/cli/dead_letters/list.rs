//! `sinks dead-letters list`.

use std::io::Write;

use clap::Args;
use outbox::DeadLetterRow;
use serde::Serialize;

use super::select::Select;
use super::show::Shown;
use crate::cli::exit::Failure;
use crate::cli::source::Source;
use crate::cli::{database, known, table};

/// List what waits to be replayed or discarded, the oldest first
#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    select: Select,
    /// List also what was replayed or discarded
    #[arg(long)]
    all: bool,
    /// List at most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The JSON as a whole.
#[derive(Debug, Serialize)]
struct Report {
    dead_letters: Vec<Shown>,
    /// Whether there are more than were asked for.
    more: bool,
}

impl List {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks dead-letters").await?;
        let filter = self.select.filter();
        known::require(&filter.sinks, &config.sinks, &database).await?;
        let limit = self.limit.saturating_add(1);
        let mut found = database.dead_letters(&filter, self.all, limit).await?;
        let most = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = found.len() > most;
        found.truncate(most);
        if self.json {
            let dead_letters = found.into_iter().map(Shown::from).collect();
            return table::json(out, &Report { dead_letters, more });
        }
        let head = [
            "ID", "SINK", "STATE", "SINCE", "POSITION", "TYPE", "EVENT", "ATTEMPTS", "CODE",
            "ERROR",
        ];
        let rows: Vec<_> = found.into_iter().map(cells).collect();
        table::write(out, head, &rows)?;
        if more {
            writeln!(out, "and more: --limit shows them")?;
        }
        Ok(())
    }
}

fn cells(row: DeadLetterRow) -> [String; 10] {
    [
        row.id.to_string(),
        row.sink,
        row.state.as_str().to_owned(),
        row.state_changed_at,
        row.position.to_string(),
        text(&row.topic),
        text(&row.event_id),
        row.attempts.to_string(),
        text(&row.code),
        text(&row.error),
    ]
}

fn text(text: &str) -> String {
    match text {
        "" => "-".to_owned(),
        text => table::one_line(text),
    }
}
