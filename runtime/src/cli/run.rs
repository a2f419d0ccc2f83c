//! `sinks run`: delivers until it is told to stop.

use std::sync::Arc;

use clap::Args;
use outbox::{ConnectSettings, Database};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::exit::Failure;
use super::signals::Signals;
use super::source::Source;
use super::{database, logs};
use crate::settings::Role;
use crate::worker;

/// Deliver events until SIGTERM or SIGINT
#[derive(Args, Debug)]
pub(super) struct Run {
    /// Do only this, whatever [worker] roles says; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<Role>,
}

/// Runs the worker with everything the configuration names.
pub(super) async fn run(source: &Source, command: Run) -> Result<(), Failure> {
    let mut config = source.config()?;
    if !command.roles.is_empty() {
        config.worker.roles = command.roles.into_iter().collect();
    }
    logs::start(&config.log);
    // Before anything slow, so that a stop during the start is a stop as well.
    let signals = Signals::install()?;
    let stop = CancellationToken::new();
    let settings = ConnectSettings {
        application_name: "sinks run".to_owned(),
        ..config.database
    };
    let connected = async {
        database::require_current(&settings).await?;
        Ok::<_, Failure>(Database::connect(&settings).await?)
    };
    let worker = config.worker;
    let holder = worker.holder.clone();
    let names: Vec<_> = config
        .sinks
        .iter()
        .map(|sink| sink.settings.name.clone())
        .collect();
    let sinks = config
        .sinks
        .into_iter()
        .map(|sink| (sink.settings, sink.connector))
        .collect();
    let working = async {
        let database = tokio::select! {
            connected = connected => connected?,
            () = stop.cancelled() => return Ok(()),
        };
        let version = env!("CARGO_PKG_VERSION");
        info!(version, holder, sinks = names.join(","), "started");
        worker::run(Arc::new(database), worker, sinks, stop.clone()).await;
        info!(holder, "stopped");
        Ok(())
    };
    Box::pin(signals.guard(&stop, working)).await
}
