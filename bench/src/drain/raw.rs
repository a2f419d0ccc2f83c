//! Every single figure, as a line of JSON: `target/bench/<section>.ndjson`.

use std::fs::File;
use std::io::Write;

use anyhow::{Context, Result};
use serde_json::json;

use super::contender::Contender;
use super::figures::Figures;

/// The file.
#[derive(Debug)]
pub(super) struct Raw {
    file: File,
}

impl Raw {
    /// An empty file for this section.
    pub(super) fn create(section: &str) -> Result<Self> {
        let folder = std::path::Path::new("target/bench");
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{section}.ndjson"));
        let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self { file })
    }

    /// Adds a run.
    pub(super) fn note(
        &mut self,
        round: u32,
        size: &str,
        contender: Contender,
        figures: &Figures,
    ) -> Result<()> {
        let line = json!({
            "round": round,
            "size": size,
            "contender": contender.name(),
            "events": figures.events,
            "elapsed_s": figures.elapsed.as_secs_f64(),
            "cpu_s": figures.cpu.as_secs_f64(),
            "backends_cpu_s": figures.backends.as_secs_f64(),
            "peak_rss_bytes": figures.peak_rss,
            "duplicates": figures.duplicates,
        });
        Ok(writeln!(self.file, "{line}")?)
    }
}
