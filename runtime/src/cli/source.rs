//! Where the configuration comes from: the file named on the command line.

use std::io;
use std::path::{Path, PathBuf};

use super::exit::{Failure, Status};
use crate::config::{Config, DatabaseConfig, Environment, Registry};

/// The configuration file and what is needed to read it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) registry: Registry,
}

impl Source {
    /// All of it.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let (file, text) = (self.path.display().to_string(), text(&self.path)?);
        let environment = Environment::process();
        Ok(Config::parse(&file, &text, &self.registry, &environment)?)
    }

    /// The part that a command needs which delivers nothing.
    pub(super) fn database_config(&self) -> Result<DatabaseConfig, Failure> {
        let (file, text) = (self.path.display().to_string(), text(&self.path)?);
        let environment = Environment::process();
        Ok(DatabaseConfig::parse(
            &file,
            &text,
            &self.registry,
            &environment,
        )?)
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let shown = path.display();
        let message = if error.kind() == io::ErrorKind::NotFound {
            format!("there is no {shown}: `sinks init` writes one, --config names another")
        } else {
            format!("read {shown}: {error}")
        };
        Failure::new(Status::Configuration, message)
    })
}
