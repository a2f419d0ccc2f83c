//! `sinks config`: about the configuration file itself, whatever is in it.

use std::io::Write;

use clap::{Args, Subcommand};

use super::exit::Failure;
use super::source::Source;
use crate::config::schema;

/// Describe the configuration file
#[derive(Args, Debug)]
pub(super) struct ConfigFile {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the JSON Schema of the file, for editors: this program's kinds of sinks included
    Schema,
}

impl ConfigFile {
    pub(super) fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        match self.command {
            Command::Schema => {
                let schema = schema(&source.registry);
                serde_json::to_writer_pretty(&mut *out, &schema).map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }
}
