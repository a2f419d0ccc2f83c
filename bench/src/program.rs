//! The programs that are measured: optimised as they are shipped, whatever this one is. Linking
//! takes minutes then, and who only watches need not be quick.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// The binary `sinks`.
///
/// # Errors
/// If it was not built.
pub fn sinks() -> Result<PathBuf> {
    optimised("sinks")
}

/// The programs to compare with.
///
/// # Errors
/// If they were not built.
pub fn floor() -> Result<PathBuf> {
    optimised("floor")
}

fn optimised(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("find out where this program is")?;
    // <target>/<profile>/bench
    let target = this
        .ancestors()
        .nth(2)
        .context("a program lies in a profile's folder")?;
    let path = target.join("release").join(name);
    let path_shown = path.display();
    ensure!(
        path.exists(),
        "there is no {path_shown}: run `make bench`, which builds it"
    );
    Ok(path)
}
