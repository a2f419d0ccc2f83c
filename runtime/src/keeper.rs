//! Keeping a lease: it is renewed well before it ends, and given up for lost while
//! it is still ours by the clock.
//!
//! Guards OB-3 from the near side: a loop whose lease could not be renewed in time
//! stops before another worker may start. (From the far side the token does.)

use std::sync::Arc;
use std::time::Duration;

use outbox::{Lease, Owned};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::store::Store;

/// The pause after a renewal that got no answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Renews one lease in the background until it is dropped.
#[derive(Debug)]
pub struct Keeper {
    lost: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Keeper {
    /// Starts to renew. `taken_at` is from before the lease was asked for: the
    /// database started its clock after that, so by ours the lease ends too early
    /// rather than too late.
    pub fn start<S: Store>(store: Arc<S>, lease: Lease, ttl: Duration, taken_at: Instant) -> Self {
        let lost = CancellationToken::new();
        let signal = lost.clone().drop_guard();
        #[expect(
            clippy::disallowed_methods,
            reason = "owned by the keeper, aborted with it"
        )]
        let task = tokio::spawn(async move {
            renew_until_lost(&*store, &lease, ttl, taken_at).await;
            drop(signal);
        });
        Self {
            lost,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Returns once the lease is lost or about to be.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

async fn renew_until_lost<S: Store>(store: &S, lease: &Lease, ttl: Duration, taken_at: Instant) {
    let mut renewed_at = taken_at;
    loop {
        sleep_until(renewed_at + ttl / 3).await;
        // The last tenth is kept for stopping in time.
        let give_up_at = renewed_at + ttl * 9 / 10;
        loop {
            let asked_at = Instant::now();
            let no_answer_at = give_up_at.min(asked_at + ttl / 5);
            match timeout_at(no_answer_at, store.renew(lease, ttl)).await {
                Ok(Ok(Owned::Yes)) => {
                    renewed_at = asked_at;
                    break;
                }
                Ok(Ok(Owned::No)) => return,
                Ok(Err(error)) => debug!(lease = lease.name, %error, "can't renew the lease"),
                Err(_) => debug!(lease = lease.name, "no answer to the lease's renewal"),
            }
            let next_try = Instant::now() + RETRY_INTERVAL;
            if next_try >= give_up_at {
                return sleep_until(give_up_at).await;
            }
            sleep_until(next_try).await;
        }
    }
}
