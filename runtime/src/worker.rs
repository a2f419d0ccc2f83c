//! A worker: the head and one loop per sink, started together, joined together.

use std::sync::Arc;
use std::time::Duration;

use outbox_sinks::Connector;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use crate::dispatch::Dispatch;
use crate::head::watch_head;
use crate::settings::{SinkSettings, WorkerSettings};
use crate::store::Store;

/// What saving, closing and releasing may take on top of the delivery in hand.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// Runs every sink until `stop` is cancelled, then stops gracefully: deliveries in
/// hand are finished (within `shutdown_timeout`), cursors saved, leases released.
pub async fn run<S: Store>(
    store: Arc<S>,
    worker: WorkerSettings,
    sinks: Vec<(SinkSettings, Box<dyn Connector>)>,
    stop: CancellationToken,
) {
    let worker = Arc::new(worker);
    let (sender, head) = watch::channel(None);
    let polling = watch_head(Arc::clone(&store), worker.poll_max_interval, sender);
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the supervisor; aborted on return"
    )]
    let _polling = AbortOnDropHandle::new(tokio::spawn(polling));

    let mut loops = JoinSet::new();
    for (sink, connector) in sinks {
        let dispatch = Dispatch {
            store: Arc::clone(&store),
            worker: Arc::clone(&worker),
            sink,
            connector,
            head: head.clone(),
            stop: stop.clone(),
        };
        loops.spawn(dispatch.run());
    }
    drop(head);

    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(worker.shutdown_timeout * 2 + STOP_MARGIN).await;
    };
    tokio::select! {
        () = join_all(&mut loops) => {}
        () = overdue => error!(unfinished = loops.len(), "loops did not stop in time: ending them"),
    }
}

async fn join_all(loops: &mut JoinSet<()>) {
    while let Some(ended) = loops.join_next().await {
        if let Err(error) = ended {
            error!(%error, "a loop ended by a bug: its lease runs out, another worker goes on");
        }
    }
}
