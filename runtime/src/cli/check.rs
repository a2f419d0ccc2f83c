//! `sinks check`: judges the configuration and, on demand, everything it leads to.

use std::io::Write;

use clap::Args;
use outbox::ConnectSettings;
use outbox_sinks::PROBE_TIMEOUT;
use tokio::task::JoinSet;

use super::exit::{Failure, Status};
use super::source::Source;
use super::{database, logs, table};
use crate::config::{Config, ConfiguredSink};

/// Judge the configuration; with --online also the database and the destinations
#[derive(Args, Debug)]
pub(super) struct Check {
    /// Connect to the database and to every destination; changes nothing there
    #[arg(long)]
    online: bool,
}

/// One line of the result.
struct Finding {
    what: String,
    /// What is wrong and what to do about it, and how the process shall end for it.
    wrong: Option<(Status, String)>,
}

impl Finding {
    fn cells(&self) -> [String; 3] {
        let (result, wrong) = match &self.wrong {
            None => ("ok", ""),
            Some((_, wrong)) => ("failed", wrong.as_str()),
        };
        [self.what.clone(), result.to_owned(), wrong.to_owned()]
    }
}

impl Check {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let config = source.config()?;
        logs::start(&config.log);
        if !self.online {
            let rows: Vec<_> = config.sinks.iter().map(described).collect();
            writeln!(out, "{} is fine", source.path.display())?;
            table::write(out, ["SINK", "DESTINATION", "EVENTS"], &rows)?;
            return Ok(());
        }
        let findings = findings(config).await?;
        let rows: Vec<_> = findings.iter().map(Finding::cells).collect();
        table::write(out, ["CHECK", "RESULT", "WHAT IS WRONG"], &rows)?;
        let wrong = findings.iter().filter_map(|finding| finding.wrong.as_ref());
        let statuses: Vec<_> = wrong.map(|(status, _)| *status).collect();
        match statuses.iter().min() {
            None => Ok(()),
            Some(status) => {
                let message = format!("{} of {} checks failed", statuses.len(), rows.len());
                Err(Failure::new(*status, message))
            }
        }
    }
}

fn described(sink: &ConfiguredSink) -> [String; 3] {
    let types: Vec<_> = sink
        .settings
        .filter
        .types
        .iter()
        .map(ToString::to_string)
        .collect();
    let events = if types.is_empty() {
        "all".to_owned()
    } else {
        types.join(", ")
    };
    [sink.settings.name.clone(), sink.kind.to_owned(), events]
}

async fn findings(config: Config) -> Result<Vec<Finding>, Failure> {
    let mut probes = JoinSet::new();
    for sink in config.sinks {
        probes.spawn(probe(sink));
    }
    let mut findings = tables(&config.database).await;
    let mut destinations = Vec::new();
    while let Some(probed) = probes.join_next().await {
        destinations.push(probed.map_err(anyhow::Error::new)?);
    }
    destinations.sort_by(|a, b| a.what.cmp(&b.what));
    findings.append(&mut destinations);
    Ok(findings)
}

/// The database and its tables: without the former nothing is known of the latter.
async fn tables(settings: &ConnectSettings) -> Vec<Finding> {
    let finding = |what: &str, failure: Option<Failure>| Finding {
        what: what.to_owned(),
        wrong: failure.map(|failure| (failure.status(), failure.to_string())),
    };
    match database::require_current(settings).await {
        Ok(()) => vec![finding("database", None), finding("tables", None)],
        Err(failure) if failure.status() == Status::Schema => {
            vec![finding("database", None), finding("tables", Some(failure))]
        }
        Err(failure) => vec![finding("database", Some(failure))],
    }
}

async fn probe(sink: ConfiguredSink) -> Finding {
    let what = format!("sink {} ({})", sink.settings.name, sink.kind);
    let wrong = match tokio::time::timeout(PROBE_TIMEOUT, sink.connector.probe()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            let wrong = format!("{}: {}", error.kind(), error.chain());
            Some(match error.advice() {
                Some(advice) => format!("{wrong}; {advice}"),
                None => wrong,
            })
        }
        Err(_) => Some(format!(
            "no answer within {}s: check the address, and firewalls on the way",
            PROBE_TIMEOUT.as_secs()
        )),
    };
    Finding {
        what,
        wrong: wrong.map(|wrong| (Status::Destination, wrong)),
    }
}
