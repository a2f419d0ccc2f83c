//! Logs go to standard error: standard output is for results.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{Environment, Log, LogFormat};

/// Starts logging as configured. A second call changes nothing.
pub(super) fn start(log: &Log) {
    // The drivers tell as INFO what the server notices, and each of many connections in an
    // outage: that is for whoever names them in a directive of their own.
    let directives = format!("sqlx=warn,async_nats=warn,{}", log.filter);
    let filter = EnvFilter::try_new(directives).expect("the configuration was checked");
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let started = match log.format {
        LogFormat::Text => builder.with_ansi(is_colourful()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // The only failure is that logging was started already, by the program around us.
    drop(started);
}

/// Colour is for terminals, and for people who did not decline it.
fn is_colourful() -> bool {
    let declined = Environment::process()
        .get("NO_COLOR")
        .is_ok_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !declined
}
