//! Every figure of every round, for whoever wants to look closer.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// Adds a line to `bench/<section>.ndjson` in the folder that this program was built into.
///
/// # Errors
/// If it can't be written.
pub(super) fn append(section: &str, line: &Value) -> Result<()> {
    let program = std::env::current_exe().context("find out where this program is")?;
    // <target>/<profile>/<program>
    let target = program
        .ancestors()
        .nth(2)
        .context("a target has a folder")?;
    let folder = target.join("bench");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{section}.ndjson"));
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("open {}", path.display()))?;
    writeln!(file, "{line}")?;
    Ok(())
}
