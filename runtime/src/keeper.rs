//! Keeping leases: each is renewed well before it ends, and given up for lost while it is
//! still ours by the clock.
//!
//! Guards OB-3 from the near side: a loop whose lease could not be renewed in time
//! stops before another worker may start. (From the far side the token does.) All leases
//! of a process are renewed at the same moments, by one statement; what that one leaves
//! is asked for by itself, so that losing one lease disturbs no other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use outbox::{Lease, Owned};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::grid::Grid;
use crate::store::{Store, StoreError};
use crate::together::Together;

/// The pause after a renewal that got no answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Renews the leases of a process.
pub struct Keepers<S> {
    store: Arc<S>,
    ttl: Duration,
    together: Together<Lease>,
    /// When renewals are due.
    moments: Grid,
}

/// Renews one lease in the background until it is dropped.
#[derive(Debug)]
pub struct Keeper {
    lost: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl<S: Store> Keepers<S> {
    /// Renews leases that are good for `ttl` each time.
    #[must_use]
    pub fn start(store: Arc<S>, ttl: Duration) -> Arc<Self> {
        let asked = Arc::clone(&store);
        let together = Together::start("renewals", move |leases: Vec<Lease>| {
            let store = Arc::clone(&asked);
            async move {
                // Those who ask wait no longer for it, and ask again.
                let renewing = timeout(patience(ttl), store.renew_all(&leases, ttl));
                let no_answer = |_| StoreError::new("no answer in time");
                renewing.await.map_err(no_answer)?
            }
        });
        Arc::new(Self {
            store,
            ttl,
            together,
            moments: Grid::new(Instant::now(), ttl / 3),
        })
    }

    /// Keeps a lease. `taken_at` is from before the lease was asked for: the database
    /// started its clock after that, so by ours the lease ends too early rather than too
    /// late.
    #[must_use]
    pub fn keep(self: &Arc<Self>, lease: Lease, taken_at: Instant) -> Keeper {
        let lost = CancellationToken::new();
        let signal = lost.clone().drop_guard();
        let keepers = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "owned by the keeper, aborted with it"
        )]
        let task = tokio::spawn(async move {
            keepers.renew_until_lost(&lease, taken_at).await;
            drop(signal);
        });
        Keeper {
            lost,
            _task: AbortOnDropHandle::new(task),
        }
    }

    async fn renew_until_lost(&self, lease: &Lease, taken_at: Instant) {
        let mut renewed_at = taken_at;
        loop {
            sleep_until(self.moments.after(renewed_at)).await;
            // The last tenth is kept for stopping in time.
            let give_up_at = renewed_at + self.ttl * 9 / 10;
            loop {
                let asked_at = Instant::now();
                let no_answer_at = give_up_at.min(asked_at + patience(self.ttl));
                match timeout_at(no_answer_at, self.renew(lease)).await {
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

    async fn renew(&self, lease: &Lease) -> Result<Owned, StoreError> {
        match self.together.ask(lease.clone()).await? {
            true => Ok(Owned::Yes),
            // Somebody newer has it, or is about to write it: asked alone, the store waits
            // for that and says which.
            false => self.store.renew(lease, self.ttl).await,
        }
    }
}

impl<S> fmt::Debug for Keepers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Keepers");
        shown.field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Returns once the lease is lost or about to be.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// How long to wait for the answer to a renewal.
fn patience(ttl: Duration) -> Duration {
    ttl / 5
}
