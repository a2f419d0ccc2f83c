//! A worker: the head and one loop per sink, started together, joined together.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use outbox_sinks::Connector;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::board::Board;
use crate::dispatch::Dispatch;
use crate::head::{HeadReceiver, watch_head};
use crate::keeper::Keepers;
use crate::retention::retain;
use crate::saves::Saves;
use crate::settings::{SinkSettings, WorkerSettings};
use crate::spread::spread;
use crate::store::Store;

/// What saving, closing and releasing may take after deliveries must have ended.
const STOP_MARGIN: Duration = Duration::from_secs(10);
/// The kind of a sink that nobody has announced on the board.
const UNKNOWN_KIND: &str = "unknown";
/// The pause before a task that panicked begins anew.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// Runs every sink until `stop` is cancelled, then stops gracefully: deliveries in
/// hand are finished (within `shutdown_timeout`), cursors saved, leases released. What is
/// being done is told on `board`.
pub async fn run<S: Store>(
    store: Arc<S>,
    worker: WorkerSettings,
    sinks: Vec<(SinkSettings, Box<dyn Connector>)>,
    board: Arc<Board>,
    stop: CancellationToken,
) {
    let mut crew = Crew {
        store,
        worker: Arc::new(worker),
        board,
        stop,
        overdue: CancellationToken::new(),
        tasks: JoinSet::new(),
    };
    if crew.worker.roles.retention {
        crew.start_retention();
    }
    if crew.worker.roles.sinks {
        crew.start_sinks(sinks);
    } else if crew.worker.roles.http {
        // Nobody else would know whether the database answers.
        crew.start_head();
    }
    crew.run().await;
}

/// The tasks of a worker, and what they share.
struct Crew<S> {
    store: Arc<S>,
    worker: Arc<WorkerSettings>,
    board: Arc<Board>,
    stop: CancellationToken,
    overdue: CancellationToken,
    tasks: JoinSet<()>,
}

impl<S: Store> Crew<S> {
    fn start_retention(&mut self) {
        let (store, worker) = (Arc::clone(&self.store), Arc::clone(&self.worker));
        let (board, stop) = (Arc::clone(&self.board), self.stop.clone());
        self.tasks
            .spawn(supervised("retention".to_owned(), move || {
                let (store, worker) = (Arc::clone(&store), Arc::clone(&worker));
                retain(store, worker, Arc::clone(&board), stop.clone())
            }));
    }

    /// Starts a loop for each sink, and what they need: the head and the census.
    fn start_sinks(&mut self, sinks: Vec<(SinkSettings, Box<dyn Connector>)>) {
        let head = self.start_head();
        let hunting = Arc::new(Semaphore::new(1));
        let keepers = Keepers::start(Arc::clone(&self.store), self.worker.lease_ttl);
        let saves = Saves::start(Arc::clone(&self.store), self.worker.cursor_save_interval);
        let mut loops = BTreeMap::new();
        for (sink, connector) in sinks {
            let name = sink.name.clone();
            let give_back = watch::Sender::new(false);
            loops.insert(name.clone(), give_back.clone());
            let dispatch = Arc::new(Dispatch {
                store: Arc::clone(&self.store),
                worker: Arc::clone(&self.worker),
                keepers: Arc::clone(&keepers),
                saves: Arc::clone(&saves),
                sink,
                connector,
                head: head.clone(),
                board: self.board.announce(&name, UNKNOWN_KIND),
                stop: self.stop.clone(),
                overdue: self.overdue.clone(),
                give_back,
                hunting: Arc::clone(&hunting),
            });
            self.tasks.spawn(supervised(name, move || {
                let dispatch = Arc::clone(&dispatch);
                async move { dispatch.run().await }
            }));
        }
        let (store, worker) = (Arc::clone(&self.store), Arc::clone(&self.worker));
        let stop = self.stop.clone();
        self.tasks.spawn(supervised("census".to_owned(), move || {
            let (store, worker) = (Arc::clone(&store), Arc::clone(&worker));
            spread(store, worker, loops.clone(), stop.clone())
        }));
    }

    fn start_head(&mut self) -> HeadReceiver {
        let head = HeadReceiver::default();
        let told = head.clone();
        let (store, interval) = (Arc::clone(&self.store), self.worker.poll_max_interval);
        let (board, stop) = (Arc::clone(&self.board), self.stop.clone());
        self.tasks.spawn(supervised("head".to_owned(), move || {
            let (store, told, stop) = (Arc::clone(&store), told.clone(), stop.clone());
            let board = Arc::clone(&board);
            async move {
                let polling = watch_head(store, interval, told, board);
                stop.run_until_cancelled(polling).await;
            }
        }));
        head
    }

    async fn run(mut self) {
        let (stop, overdue) = (self.stop.clone(), self.overdue.clone());
        let stopping = async {
            stop.cancelled().await;
            sleep(self.worker.shutdown_timeout).await;
            overdue.cancel();
            sleep(STOP_MARGIN).await;
        };
        tokio::select! {
            biased;
            () = join_all(&mut self.tasks) => return,
            () = stopping => {}
        }
        let unfinished = self.tasks.len();
        error!(unfinished, "tasks did not stop in time: ending them");
    }
}

/// Runs a task that must not end before it is told to. If it panics, by a bug of
/// ours, it begins anew: a sink that stands still in silence would be worse.
pub(crate) async fn supervised<Fut>(task: String, start: impl Fn() -> Fut)
where
    Fut: Future<Output = ()>,
{
    while AssertUnwindSafe(start()).catch_unwind().await.is_err() {
        error!(task, "ended by a bug: beginning anew");
        sleep(RESTART_INTERVAL).await;
    }
}

async fn join_all(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_begins_anew_and_one_that_ends_does_not() {
        let runs = AtomicU32::new(0);
        let third_ends = || async {
            assert!(runs.fetch_add(1, Ordering::Relaxed) == 2, "a bug");
        };
        supervised("test".to_owned(), third_ends).await;
        assert_eq!(runs.into_inner(), 3);
    }
}
