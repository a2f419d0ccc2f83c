//! `sinks forget`: a sink that is gone for good holds nothing back any more.

use std::io::Write;

use clap::Args;

use super::by::By;
use super::exit::Failure;
use super::source::Source;
use super::{database, known};

/// Remove the cursor of a sink that is gone for good
#[derive(Args, Debug)]
pub(super) struct ForgetSink {
    /// The sink
    name: String,
    /// Remove nothing: say what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    by: By,
}

impl ForgetSink {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks forget").await?;
        let name = &self.name;
        let forgotten = database.forget(name, &self.by.name(), self.dry_run).await;
        let position = match forgotten {
            Ok(forgotten) => forgotten.position,
            Err(error) => return Err(known::explain(error, &config.sinks, &database).await),
        };
        if self.dry_run {
            writeln!(
                out,
                "{name} would be forgotten; its cursor is at {position}"
            )?;
        } else {
            writeln!(out, "forgot {name}; its cursor was at {position}")?;
        }
        if config.sinks.contains(name) {
            writeln!(
                out,
                "it is in this configuration: a worker that takes it begins where its `start` says"
            )?;
        }
        Ok(())
    }
}
