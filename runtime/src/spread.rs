//! Spreading the sinks over the workers: each says that it is alive, and one that
//! holds more than its share gives a lease back.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::decide::give_back;
use crate::settings::WorkerSettings;
use crate::store::Store;

/// What it takes at most to say good-bye.
const LEAVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// Takes part in the census until a stop, and asks loops to give their leases back.
pub(crate) async fn spread<S: Store>(
    store: Arc<S>,
    worker: Arc<WorkerSettings>,
    loops: BTreeMap<String, watch::Sender<bool>>,
    stop: CancellationToken,
) {
    let sinks: Vec<String> = loops.keys().cloned().collect();
    let interval = worker.lease_ttl / 3;
    while !stop.is_cancelled() {
        let next = Instant::now() + interval;
        match store.census(&worker.holder, &sinks, worker.lease_ttl).await {
            Ok(members) => {
                if let Some(sink) = give_back(&members, &worker.holder)
                    && let Some(wanted) = loops.get(sink)
                {
                    info!(sink, "giving a sink back: another worker has less to do");
                    wanted.send_replace(true);
                }
            }
            Err(error) => debug!(%error, "can't take part in the census"),
        }
        stop.run_until_cancelled(sleep_until(next)).await;
    }
    // If nobody hears it, the entry runs out.
    let _heard = timeout(LEAVE_TIMEOUT, store.leave(&worker.holder)).await;
}
