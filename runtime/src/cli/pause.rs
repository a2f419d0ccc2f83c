//! `sinks pause` and `sinks resume`: a sink stands still until somebody lets it go on.

use std::io::Write;

use clap::Args;
use outbox::{Pause, Paused, Resumed};

use super::by::By;
use super::exit::Failure;
use super::source::Source;
use super::{database, known, obeyed, table};

/// Let a sink stand still until `sinks resume`
#[derive(Args, Debug)]
pub(super) struct PauseSink {
    /// The sink
    name: String,
    /// Why, for whoever looks at it later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    by: By,
}

/// Let a paused sink go on, or one that backs off try again at once
#[derive(Args, Debug)]
pub(super) struct ResumeSink {
    /// The sink
    name: String,
    #[command(flatten)]
    by: By,
}

impl PauseSink {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks pause").await?;
        let (name, reason) = (&self.name, self.reason.as_deref());
        match database.pause(name, reason, &self.by.name()).await {
            Ok(Paused::Ordered(operation)) => {
                writeln!(out, "paused {name}")?;
                let told = obeyed::told(&database, name, operation).await?;
                writeln!(out, "{told}")?;
            }
            Ok(Paused::Already(pause)) => {
                writeln!(out, "{name} is paused already: {}", described(&pause))?;
            }
            Err(error) => return Err(known::explain(error, &config.sinks, &database).await),
        }
        Ok(())
    }
}

impl ResumeSink {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks resume").await?;
        let name = &self.name;
        match database.resume(name, &self.by.name()).await {
            Ok(Resumed::Ordered { operation, pause }) => {
                match pause {
                    Some(pause) => writeln!(out, "resumed {name}, {}", described(&pause))?,
                    None => writeln!(out, "{name} was not paused: it tries again at once")?,
                }
                let told = obeyed::told(&database, name, operation).await?;
                writeln!(out, "{told}")?;
            }
            Ok(Resumed::Nothing) => {
                writeln!(out, "{name} is neither paused nor backing off")?;
            }
            Err(error) => return Err(known::explain(error, &config.sinks, &database).await),
        }
        Ok(())
    }
}

/// A pause in words: `paused by jo@desk 5m ago: rebuild`.
pub(super) fn described(pause: &Pause) -> String {
    let (by, age) = (&pause.by, table::span(pause.age));
    match &pause.reason {
        Some(reason) => format!("paused by {by} {age} ago: {}", table::one_line(reason)),
        None => format!("paused by {by} {age} ago"),
    }
}
