//! The programs that are measured, from the folder that this one was built into.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// The binary `sinks`.
///
/// # Errors
/// If it was not built.
pub fn sinks() -> Result<PathBuf> {
    beside_us("sinks")
}

/// The programs to compare with.
///
/// # Errors
/// If they were not built.
pub fn floor() -> Result<PathBuf> {
    beside_us("floor")
}

/// The plainest live loop.
///
/// # Errors
/// If it was not built.
pub fn live_floor() -> Result<PathBuf> {
    beside_us("live_floor")
}

fn beside_us(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("find out where this program is")?;
    let path = this.with_file_name(name);
    let path_shown = path.display();
    ensure!(
        path.exists(),
        "there is no {path_shown}: run `make bench`, which builds it"
    );
    Ok(path)
}
