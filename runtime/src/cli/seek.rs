//! `sinks seek`: a sink goes on from another position.

use std::io::{self, Write};

use clap::Args;
use outbox::{MAX_COUNTED_LAG, SeekTarget, Sought};

use super::by::By;
use super::exit::Failure;
use super::moment::target;
use super::source::Source;
use super::{database, known, obeyed};

/// Let a sink go on from another position: back to deliver again, forth to skip
#[derive(Args, Debug)]
pub(super) struct SeekSink {
    /// The sink
    name: String,
    /// beginning, head, a position (88213.51120), a time (2026-09-24T10:15:02Z) or an age (2h)
    #[arg(long, value_name = "WHERE", value_parser = target)]
    to: SeekTarget,
    /// Order nothing: say what it would mean
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    by: By,
}

impl SeekSink {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks seek").await?;
        let by = self.by.name();
        let sought = database.seek(&self.name, self.to, &by, self.dry_run).await;
        let sought = match sought {
            Ok(sought) => sought,
            Err(error) => return Err(known::explain(error, &config.sinks, &database).await),
        };
        describe(out, &self.name, &sought)?;
        match sought.operation {
            Some(operation) => {
                let told = obeyed::told(&database, &self.name, operation).await?;
                writeln!(out, "{told}")?;
            }
            None => writeln!(out, "nothing was changed: this was a dry run")?,
        }
        Ok(())
    }
}

fn describe(out: &mut impl Write, name: &str, sought: &Sought) -> io::Result<()> {
    let Sought { from, to, .. } = sought;
    let rows = match sought.rows {
        MAX_COUNTED_LAG.. => format!("{MAX_COUNTED_LAG} events or more"),
        1 => "1 event".to_owned(),
        rows => format!("{rows} events"),
    };
    let meaning = if to < from {
        format!("back over {rows}, which will be delivered again as far as its filter takes them")
    } else {
        format!("forth over {rows}, which will never be delivered by it")
    };
    if to == from {
        writeln!(out, "{name} is at {from} already")?;
    } else {
        writeln!(out, "{name}: from {from} to {to}, {meaning}")?;
    }
    if sought.pruned {
        writeln!(
            out,
            "warning: the outbox holds nothing from there on or before any more: what followed may \
             have been deleted in part, and does not come again"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Position;

    fn described(from: i64, to: i64, rows: u64, pruned: bool) -> String {
        let mut out = Vec::new();
        let sought = Sought {
            operation: None,
            from: Position::new(7, from),
            to: Position::new(7, to),
            rows,
            pruned,
        };
        describe(&mut out, "a", &sought).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_seek_says_what_becomes_of_the_events_between() {
        let back = described(9, 2, 7, false);
        assert!(
            back.starts_with(
                "a: from 7.9 to 7.2, back over 7 events, which will be delivered again"
            ),
            "{back}"
        );
        assert_eq!(back.lines().count(), 1);
        let forth = described(2, 9, 1, false);
        assert!(
            forth.contains("forth over 1 event, which will never be delivered"),
            "{forth}"
        );
        let many = described(9, 2, MAX_COUNTED_LAG, true);
        assert!(
            many.contains("10000 events or more") && many.contains("warning: "),
            "{many}"
        );
        assert_eq!(described(9, 9, 0, false), "a is at 7.9 already\n");
    }
}
