//! How a program that is measured and the one that measures it talk: by lines.
//!
//! The program prints `ready` and waits for `go`, if it has something to prepare; when its last
//! acknowledgement is there it prints `done <nanoseconds>`, counted from `go`, or from its start
//! if it had nothing to prepare. It stays until its standard input ends or says `quit`, so that
//! the kernel can be asked what it has cost.

use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;

use anyhow::{Result, bail};

/// Says that everything is prepared, and waits for the word.
///
/// # Errors
/// If the other side has gone, or says something else.
pub fn ready() -> Result<()> {
    say("ready")?;
    match heard()?.as_str() {
        "go" => Ok(()),
        other => bail!("`{other}` is not go"),
    }
}

/// Says that everything is acknowledged, and waits until it may end.
///
/// # Errors
/// If the other side has gone, or says something else.
pub fn done(elapsed: Duration) -> Result<()> {
    say(&format!("done {}", elapsed.as_nanos()))?;
    match heard()?.as_str() {
        "" | "quit" => Ok(()),
        other => bail!("`{other}` is not quit"),
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// The next line; empty at the end of the input.
fn heard() -> Result<String> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
