//! `sinks init`: writes the documented reference configuration.

use std::fs::File;
use std::io::{self, Write};

use clap::Args;

use super::exit::{Failure, Status};
use super::source::Source;
use crate::config::reference_for;

/// Write a commented sinks.toml
#[derive(Args, Debug)]
pub(super) struct Init {
    /// Overwrite a file that exists
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(super) fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let path = &source.path;
        let text = reference_for(&source.registry);
        let opened = if self.force {
            File::create(path)
        } else {
            File::create_new(path)
        };
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        let shown = path.display();
        match written {
            Ok(()) => writeln!(out, "wrote {shown}: edit it, then run `sinks check`")?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let message = format!("{shown} exists already: --force overwrites it");
                return Err(Failure::new(Status::Configuration, message));
            }
            Err(error) => {
                return Err(Failure::from(error).while_doing(format_args!("write {shown}")));
            }
        }
        Ok(())
    }
}
