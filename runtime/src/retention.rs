//! Deleting what every cursor has passed, in small steps and one worker at a time.
//!
//! What may go is decided by the store, in the statement that deletes it: nothing that
//! a sink still needs can go, whatever happens here.

use std::sync::Arc;
use std::time::Duration;

use outbox::{Position, RETENTION_LEASE};
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::board::Board;
use crate::keeper::Keepers;
use crate::outage::{News, Outage};
use crate::settings::WorkerSettings;
use crate::store::{Store, StoreError};

/// How many statements make a pass at most.
pub const MAX_STATEMENTS: u32 = 20;
/// The pause between two statements, so that a pass disturbs nobody.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause after a pass that left something to do, or the outbox would grow for ever
/// where more is published than a pass at each interval can delete.
const PAUSE_BETWEEN_FULL_PASSES: Duration = Duration::from_secs(1);

/// What a pass came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// How many rows it deleted.
    pub rows: u64,
    /// Whether there is more to delete.
    pub more: bool,
}

/// Makes a pass at every interval for which the lease can be had, until a stop.
pub(crate) async fn retain<S: Store>(
    store: Arc<S>,
    worker: Arc<WorkerSettings>,
    board: Arc<Board>,
    stop: CancellationToken,
) {
    let mut outage = Outage::default();
    let wanted = Wanted {
        holder: &worker.holder,
        lease_ttl: worker.lease_ttl,
        min_age: worker.retention.min_age,
        deleted: &board.counters().retention_deleted_rows,
    };
    while !stop.is_cancelled() {
        let passed = pass_under_lease(&store, &wanted, &stop).await;
        if passed.is_ok() && outage.ended().is_some() {
            info!("retention: the database answers again");
        }
        let mut pause = worker.retention.interval;
        match passed {
            Ok(Some(Pass { rows: 0, .. })) => debug!("retention: nothing to delete"),
            Ok(Some(Pass { rows, more })) => {
                info!(rows, "retention: deleted what every sink has");
                if more {
                    pause = pause.min(PAUSE_BETWEEN_FULL_PASSES);
                }
            }
            Ok(None) => debug!("retention: another worker does it"),
            Err(error) => {
                let reason = error.to_string();
                if outage.failed(&reason) != News::Same {
                    warn!(error = reason, "retention: can't delete");
                }
            }
        }
        stop.run_until_cancelled(sleep(pause)).await;
    }
}

/// Who makes a pass, and what goes by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Its name in the lease.
    pub(crate) holder: &'a str,
    /// How long the lease is good for without being renewed.
    pub(crate) lease_ttl: Duration,
    /// How old a row must be.
    pub(crate) min_age: Duration,
    /// Counts the rows.
    pub(crate) deleted: &'a Counter,
}

/// One pass under the lease; `None` if somebody else holds that.
pub(crate) async fn pass_under_lease<S: Store>(
    store: &Arc<S>,
    wanted: &Wanted<'_>,
    stop: &CancellationToken,
) -> Result<Option<Pass>, StoreError> {
    let (asked_at, ttl) = (Instant::now(), wanted.lease_ttl);
    let Some(lease) = store.acquire(RETENTION_LEASE, wanted.holder, ttl).await? else {
        return Ok(None);
    };
    let keeper = Keepers::start(Arc::clone(store), ttl).keep(lease.clone(), asked_at);
    let passed = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(Pass::default()),
        () = keeper.lost() => Ok(Pass::default()),
        passed = pass(&**store, wanted) => passed,
    };
    drop(keeper);
    store.release(&lease).await?;
    passed.map(Some)
}

/// One pass.
///
/// # Errors
/// The store's: the rows that were deleted before stay deleted.
async fn pass<S: Store>(store: &S, wanted: &Wanted<'_>) -> Result<Pass, StoreError> {
    let (mut passed, mut after) = (Pass::default(), Position::BEGINNING);
    for _ in 0..MAX_STATEMENTS {
        let pruned = store.prune(wanted.min_age, after).await?;
        wanted.deleted.inc_by(pruned.rows);
        passed.rows += pruned.rows;
        passed.more = pruned.next.is_some();
        let Some(next) = pruned.next else { break };
        after = next;
        sleep(PAUSE).await;
    }
    Ok(passed)
}
