//! A worker that runs beside the test.

use std::sync::Arc;
use std::time::Duration;

use outbox::Filter;
use outbox_runtime::board::Board;
use outbox_runtime::settings::{
    BatchOverrides, PoisonSettings, RetentionSettings, RetrySettings, Roles, SinkSettings, Start,
    WorkerSettings,
};
use outbox_runtime::worker;
use outbox_sinks::Connector;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::MemoryStore;

/// The interval of a worker that is not told another one.
const SAVE_INTERVAL: Duration = Duration::from_millis(200);

/// A worker with one sink, running in the background.
pub(crate) struct Worker {
    pub(crate) board: Arc<Board>,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

pub(crate) fn settings() -> SinkSettings {
    SinkSettings {
        name: "test".to_owned(),
        filter: Filter::default(),
        start: Start::Beginning,
        batch: BatchOverrides {
            max_events: Some(3),
            ..BatchOverrides::default()
        },
        retry: RetrySettings::default(),
        delivery_timeout: Duration::from_secs(60),
        poison: PoisonSettings::default(),
    }
}

impl Worker {
    pub(crate) fn start(
        store: &Arc<MemoryStore>,
        to: &(impl Connector + Clone),
        holder: &str,
    ) -> Self {
        Self::start_with(store, to, holder, settings())
    }

    pub(crate) fn start_with(
        store: &Arc<MemoryStore>,
        to: &(impl Connector + Clone),
        holder: &str,
        sink: SinkSettings,
    ) -> Self {
        Self::start_all(store, to, holder, vec![sink], SAVE_INTERVAL)
    }

    /// That saves its cursor so long after a delivery.
    pub(crate) fn start_saving(
        store: &Arc<MemoryStore>,
        to: &(impl Connector + Clone),
        holder: &str,
        save_interval: Duration,
    ) -> Self {
        Self::start_all(store, to, holder, vec![settings()], save_interval)
    }

    /// With a sink for each of these names.
    pub(crate) fn start_many(
        store: &Arc<MemoryStore>,
        to: &(impl Connector + Clone),
        holder: &str,
        names: &[&str],
    ) -> Self {
        let sink = |name: &&str| SinkSettings {
            name: (*name).to_owned(),
            ..settings()
        };
        let sinks = names.iter().map(sink).collect();
        Self::start_all(store, to, holder, sinks, SAVE_INTERVAL)
    }

    #[expect(clippy::disallowed_methods, reason = "the test plays the supervisor")]
    fn start_all(
        store: &Arc<MemoryStore>,
        to: &(impl Connector + Clone),
        holder: &str,
        sinks: Vec<SinkSettings>,
        save_interval: Duration,
    ) -> Self {
        let worker = WorkerSettings {
            holder: holder.to_owned(),
            lease_ttl: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            poll_max_interval: Duration::from_millis(250),
            cursor_save_interval: save_interval,
            cursor_idle_save: Duration::from_secs(30),
            roles: Roles {
                sinks: true,
                retention: false,
                http: false,
            },
            retention: RetentionSettings::default(),
        };
        let stop = CancellationToken::new();
        let board = Arc::new(Board::default());
        for sink in &sinks {
            board.announce(&sink.name, "scripted");
        }
        let connector = || Box::new(to.clone()) as Box<dyn Connector>;
        let sinks = sinks.into_iter().map(|sink| (sink, connector())).collect();
        let told = Arc::clone(&board);
        let running = worker::run(Arc::clone(store), worker, sinks, told, stop.clone());
        Self {
            board,
            stop,
            task: tokio::spawn(running),
        }
    }

    /// The process dies: nothing is saved and nothing released.
    pub(crate) async fn killed(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    pub(crate) async fn stopped(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}
