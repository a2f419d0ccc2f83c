//! `sinks dead-letters replay` and `discard`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use outbox::{Database, Newer};
use serde::Serialize;

use super::select::Select;
use crate::cli::by::By;
use crate::cli::exit::Failure;
use crate::cli::source::Source;
use crate::cli::{database, known, table};

/// What both commands have.
#[derive(Args, Debug)]
struct Order {
    #[command(flatten)]
    select: Select,
    /// All there are
    #[arg(long)]
    all: bool,
    /// Order nothing: say what it would be about
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    by: By,
}

/// Let the sinks deliver them again, apart from what is live
#[derive(Args, Debug)]
pub(super) struct Replay {
    #[command(flatten)]
    order: Order,
}

/// Give them up; their rows stay, and only their ids bring them back
#[derive(Args, Debug)]
pub(super) struct Discard {
    #[command(flatten)]
    order: Order,
}

/// What was ordered, or would be.
#[derive(Debug, Serialize)]
struct Report {
    dry_run: bool,
    /// How many dead letters it is about, and of which sinks.
    dead_letters: u64,
    sinks: BTreeMap<String, u64>,
    /// Of how many it is known that a later event of the same subject was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    overtaken: Option<u64>,
    /// Whether there may be more of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    overtaken_is_minimum: Option<bool>,
    /// The sinks of these of which it is known that no worker holds them: they deliver
    /// nothing for now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_running: Vec<String>,
}

impl Replay {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let filter = self.order.select.deliberate(self.order.all)?;
        let (config, database) = database::open(source, "sinks dead-letters").await?;
        known::require(&filter.sinks, &config.sinks, &database).await?;
        let (by, dry_run) = (self.order.by.name(), self.order.dry_run);
        let found = database
            .replay_dead_letters(&filter, &config.filters, &by, dry_run)
            .await?;
        let Newer { overtaken, unsure } = found.newer;
        let report = Report {
            dry_run,
            dead_letters: found.sinks.values().sum(),
            not_running: not_running(&database, found.sinks.keys()).await,
            sinks: found.sinks,
            overtaken: Some(overtaken),
            overtaken_is_minimum: Some(unsure),
        };
        self.order
            .tell(out, ["replayed", "to be replayed"], &report)
    }
}

impl Discard {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let filter = self.order.select.deliberate(self.order.all)?;
        let (config, database) = database::open(source, "sinks dead-letters").await?;
        known::require(&filter.sinks, &config.sinks, &database).await?;
        let (by, dry_run) = (self.order.by.name(), self.order.dry_run);
        let found = database.discard_dead_letters(&filter, &by, dry_run).await?;
        let report = Report {
            dry_run,
            dead_letters: found.sinks.values().sum(),
            sinks: found.sinks,
            overtaken: None,
            overtaken_is_minimum: None,
            not_running: Vec::new(),
        };
        self.order.tell(out, ["discarded", "discarded"], &report)
    }
}

/// The order is given by now: a sink that can't be looked at is left out.
async fn not_running(database: &Database, sinks: impl Iterator<Item = &String>) -> Vec<String> {
    let mut idle = Vec::new();
    for sink in sinks {
        if let Ok(seen) = database.obedience(sink).await
            && seen.is_none_or(|seen| seen.holder.is_none())
        {
            idle.push(sink.clone());
        }
    }
    idle
}

impl Order {
    /// Prints the report; `words` are for what would be done and for what was ordered.
    fn tell(&self, out: &mut impl Write, words: [&str; 2], report: &Report) -> Result<(), Failure> {
        if self.json {
            return table::json(out, report);
        }
        Ok(describe(out, words, report)?)
    }
}

fn describe(out: &mut impl Write, [would, was]: [&str; 2], report: &Report) -> io::Result<()> {
    if report.dead_letters == 0 {
        return writeln!(out, "no dead letter meets this");
    }
    let sinks: Vec<_> = report
        .sinks
        .iter()
        .map(|(sink, number)| format!("{number} of {sink}"))
        .collect();
    let (number, sinks) = (report.dead_letters, sinks.join(", "));
    if report.dry_run {
        writeln!(
            out,
            "{number} would be {would}: {sinks}; nothing was changed"
        )?;
    } else {
        writeln!(out, "{number} {was}: {sinks}")?;
    }
    let (overtaken, unsure) = (report.overtaken, report.overtaken_is_minimum);
    match (overtaken.unwrap_or(0), unsure.unwrap_or(false)) {
        (0, false) => {}
        (0, true) => writeln!(
            out,
            "warning: newer events of the same keys may have been delivered already: they are \
             too many to look at, or deleted"
        )?,
        (number, unsure) => writeln!(
            out,
            "warning: newer events of the same key were already delivered, for {}{number} of \
             these: their receivers see an older one after a newer one",
            if unsure { "at least " } else { "" },
        )?,
    }
    for sink in &report.not_running {
        writeln!(
            out,
            "no worker holds {sink}: the next one that takes it delivers them"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(overtaken: u64, unsure: bool) -> Report {
        Report {
            dry_run: false,
            dead_letters: 3,
            sinks: BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]),
            overtaken: Some(overtaken),
            overtaken_is_minimum: Some(unsure),
            not_running: vec!["b".to_owned()],
        }
    }

    fn described(report: &Report) -> String {
        let mut out = Vec::new();
        describe(&mut out, ["replayed", "to be replayed"], report).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_order_says_what_it_is_about_and_who_carries_it_out() {
        let shown = described(&report(0, false));
        let expected = "3 to be replayed: 2 of a, 1 of b\n\
                        no worker holds b: the next one that takes it delivers them\n";
        assert_eq!(shown, expected);
        let planned = Report {
            dry_run: true,
            not_running: Vec::new(),
            ..report(0, false)
        };
        let expected = "3 would be replayed: 2 of a, 1 of b; nothing was changed\n";
        assert_eq!(described(&planned), expected);
        let none = Report {
            dead_letters: 0,
            ..planned
        };
        assert_eq!(described(&none), "no dead letter meets this\n");
    }

    #[test]
    fn newer_events_that_were_delivered_are_a_warning() {
        for (report, expected) in [
            (
                report(2, false),
                "same key were already delivered, for 2 of these",
            ),
            (
                report(2, true),
                "same key were already delivered, for at least 2 of these",
            ),
            (report(0, true), "same keys may have been delivered already"),
        ] {
            let shown = described(&report);
            assert!(shown.contains("warning: newer events of the "), "{shown}");
            assert!(shown.contains(expected), "{shown}");
        }
    }
}
