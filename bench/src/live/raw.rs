//! Every figure of every round, for whoever wants to look closer.

use std::fs::File;
use std::io::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// A file with a line for each figure: `target/bench/<name>.ndjson`.
#[derive(Debug)]
pub(super) struct Raw(File);

impl Raw {
    /// Makes an empty one.
    ///
    /// # Errors
    /// If it can't be made.
    pub(super) fn create(name: &str) -> Result<Self> {
        let folder = std::path::Path::new("target/bench");
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{name}.ndjson"));
        let file = File::create(&path);
        file.map(Self)
            .with_context(|| format!("make {}", path.display()))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If it can't be written.
    pub(super) fn note(&mut self, line: &Value) -> Result<()> {
        Ok(writeln!(self.0, "{line}")?)
    }
}
