//! The real worker, as `sinks run` has it, with one sink: the output file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use outbox::{ConnectSettings, Database};
use outbox_sinks::file::{File, FileSettings};
use outbox_sinks::{Connector, SinkKind};
use tokio_util::sync::CancellationToken;

use super::DevError;
use super::counted::Counted;
use crate::settings::{
    BatchOverrides, PoisonSettings, RetentionSettings, RetrySettings, Roles, SinkSettings, Start,
    WorkerSettings,
};

/// The sink's name.
const SINK: &str = "dev";
/// Longer than any run.
const ALL_TIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Migrates the database and connects to it.
pub(super) async fn database(url: &str) -> Result<Database, DevError> {
    let mut settings = ConnectSettings::new(url.to_owned());
    "sinks dev".clone_into(&mut settings.application_name);
    outbox::migrate(&settings)
        .await
        .map_err(DevError::database("migrate"))?;
    Database::connect(&settings)
        .await
        .map_err(DevError::database("connect"))
}

/// How many events could not be delivered.
pub(super) async fn dead_letters(database: &Database) -> Result<u64, DevError> {
    let count = database.recent_dead_letters(SINK, ALL_TIME, &[]).await;
    count
        .map(u64::from)
        .map_err(DevError::database("count the dead letters"))
}

/// Delivers to `output` until `stop` is cancelled; `delivered` counts the events.
pub(super) async fn run(
    database: Database,
    output: &Path,
    delivered: Arc<AtomicU64>,
    stop: CancellationToken,
) {
    let file = File::connector(SINK, FileSettings::new(output))
        .expect("a native file with a path has no problems");
    let sink = SinkSettings {
        name: SINK.to_owned(),
        filter: outbox::Filter::default(),
        start: Start::Beginning,
        batch: BatchOverrides::default(),
        retry: RetrySettings::default(),
        delivery_timeout: Duration::from_secs(30),
        poison: PoisonSettings::default(),
    };
    let sink: (SinkSettings, Box<dyn Connector>) = (sink, Box::new(Counted::new(file, delivered)));
    let (database, board) = (Arc::new(database), Arc::default());
    crate::worker::run(database, worker_settings(), vec![sink], board, stop).await;
}

fn worker_settings() -> WorkerSettings {
    WorkerSettings {
        holder: format!("dev-{}", std::process::id()),
        lease_ttl: Duration::from_secs(30),
        shutdown_timeout: Duration::from_secs(10),
        poll_max_interval: Duration::from_millis(250),
        cursor_save_interval: Duration::from_millis(200),
        cursor_idle_save: Duration::from_secs(30),
        // It needs no port: `dev` shows what happens by itself.
        roles: Roles {
            http: false,
            ..Roles::ALL
        },
        retention: RetentionSettings::default(),
    }
}
