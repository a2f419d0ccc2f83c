//! `sinks run`: delivers until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::Args;
use outbox::{ConnectSettings, Database};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::exit::{Failure, Status};
use super::signals::Signals;
use super::source::Source;
use super::{database, logs};
use crate::board::{Board, Limits};
use crate::config::Config;
use crate::http::{Http, ListenError, Pages};
use crate::settings::Role;
use crate::worker::{self, supervised};

/// Deliver events until SIGTERM or SIGINT
///
/// With the role `http`, which it has by default, it answers on the address of [http] listen:
/// /metrics for Prometheus, /healthz, /readyz, and /status as JSON.
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
    let working = Box::pin(work(config, stop.clone()));
    Box::pin(signals.guard(&stop, working)).await
}

async fn work(config: Config, stop: CancellationToken) -> Result<(), Failure> {
    let settings = ConnectSettings {
        application_name: "sinks run".to_owned(),
        ..config.database
    };
    let roles = config.worker.roles;
    let http = match roles.http {
        true => Some(Http::listen(config.http).await?),
        false => None,
    };
    let connected = async {
        database::require_current(&settings).await?;
        Ok::<_, Failure>(Database::connect(&settings).await?)
    };
    let database = tokio::select! {
        connected = connected => connected?,
        () = stop.cancelled() => return Ok(()),
    };
    let board = Arc::new(Board::new(Limits {
        database_call: longest_call(&settings),
        head_interval: config.worker.poll_max_interval,
    }));
    let (mut names, mut sinks) = (Vec::new(), Vec::new());
    for sink in config.sinks {
        names.push(sink.settings.name.clone());
        if roles.sinks {
            board.announce(&sink.settings.name, sink.kind);
        }
        sinks.push((sink.settings, sink.connector));
    }
    let holder = config.worker.holder.clone();
    let version = env!("CARGO_PKG_VERSION");
    info!(version, holder, sinks = names.join(","), "started");
    let pages = |board| {
        let (database, holder, stop) = (for_pages(&settings), holder.clone(), stop.clone());
        Pages::new(board, database, holder, names, stop).router()
    };
    // Ends with this function: nobody who asks delays a stop.
    let _answering = http.map(|http| answer(http, pages(Arc::clone(&board))));
    let store = Arc::new(database.clone());
    worker::run(store, config.worker, sinks, board, stop.clone()).await;
    info!(holder, "stopped");
    Ok(())
}

/// What the pages ask has connections of its own: however often somebody looks, and whatever
/// becomes of a question, no delivery waits for it.
fn for_pages(settings: &ConnectSettings) -> Database {
    let patience = Duration::from_secs(2);
    Database::lazy(&ConnectSettings {
        application_name: "sinks http".to_owned(),
        max_connections: 2,
        connect_timeout: patience,
        statement_timeout: patience,
        ..settings.clone()
    })
}

/// Answers HTTP until the handle is dropped.
fn answer(http: Http, router: Router) -> AbortOnDropHandle<()> {
    let (http, router) = (Arc::new(http), Arc::new(router));
    let answering = supervised("http".to_owned(), move || {
        let (http, router) = (Arc::clone(&http), Arc::clone(&router));
        async move { http.serve(&router).await }
    });
    #[expect(clippy::disallowed_methods, reason = "aborted with its handle")]
    let task = tokio::spawn(answering);
    AbortOnDropHandle::new(task)
}

/// The longest that one call of the store takes by its own deadlines: it waits for a
/// connection, opens one, and makes a few statements.
fn longest_call(settings: &ConnectSettings) -> Duration {
    settings.connect_timeout * 2 + settings.statement_timeout * 3
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        Self::new(Status::Configuration, error.to_string())
    }
}
