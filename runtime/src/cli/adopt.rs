//! `sinks adopt`: goes on with what a dump from another cluster brought.

use std::io::{self, Write};

use clap::Args;
use outbox::{Adopted, ConnectSettings, DatabaseErrorKind, OperateError};

use super::by::By;
use super::exit::{Failure, Status};
use super::source::Source;
use super::{database, logs, table};

/// After a restore from a dump: give events and cursors positions of this cluster
#[derive(Args, Debug)]
pub(super) struct Adopt {
    /// Change nothing: say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    by: By,
}

impl Adopt {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let config = source.database_config()?;
        logs::start(&config.log);
        let settings = ConnectSettings {
            application_name: "sinks adopt".to_owned(),
            ..config.database
        };
        database::require_current(&settings).await?;
        let adopted = outbox::adopt(&settings, &self.by.name(), self.dry_run).await;
        match adopted.map_err(advised)? {
            Some(adopted) => describe(out, &adopted, self.dry_run)?,
            None => writeln!(
                out,
                "nothing to adopt: all events and cursors have positions of this cluster"
            )?,
        }
        Ok(())
    }
}

/// It rewrites the outbox, to which none of the granted roles has a right.
fn advised(error: OperateError) -> Failure {
    match error {
        OperateError::Database(error) if error.kind() == DatabaseErrorKind::Denied => {
            let message = format!("{error}; for this, connect as the owner of the tables");
            Failure::new(Status::Database, message)
        }
        OperateError::Database(_)
        | OperateError::NoCursor(_)
        | OperateError::BeyondHorizon { .. }
        | OperateError::Held(_) => error.into(),
    }
}

fn describe(out: &mut impl Write, adopted: &Adopted, dry_run: bool) -> io::Result<()> {
    let done = if dry_run { "would get" } else { "got" };
    writeln!(
        out,
        "{} events {done} positions of this cluster, in their old order",
        adopted.rows
    )?;
    let rows: Vec<_> = adopted
        .cursors
        .iter()
        .map(|cursor| {
            let name = &cursor.consumer;
            [
                name.strip_prefix("sink:").unwrap_or(name).to_owned(),
                cursor.from.to_string(),
                cursor.to.to_string(),
                cursor.waiting.to_string(),
            ]
        })
        .collect();
    table::write(out, ["SINK", "WAS AT", "IS AT", "STILL TO COME"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::{AdoptedCursor, Position};

    #[test]
    fn an_adoption_shows_each_sinks_place() {
        let adopted = Adopted {
            operation: None,
            rows: 6,
            base: Position::new(9, 15),
            cursors: vec![AdoptedCursor {
                consumer: "sink:a".to_owned(),
                from: Position::new(800, 3),
                to: Position::new(9, 17),
                waiting: 4,
            }],
        };
        let mut out = Vec::new();
        describe(&mut out, &adopted, true).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let expected = "6 events would get positions of this cluster, in their old order\n\
                        SINK  WAS AT  IS AT  STILL TO COME\n\
                        a     800.3   9.17   4\n";
        assert_eq!(shown, expected);
    }
}
