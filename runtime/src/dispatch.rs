//! One sink's loop: take the lease, read a batch, deliver it, decide, commit.
//!
//! Guards OB-1, OB-2 and OB-4: the cursor moves only as far as `decide` has said that
//! everything is settled, and nothing is delivered past an open event. What to do is
//! decided in [`decide`](crate::decide); `tenure` does it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use outbox::{Lease, Position, sink_lease};
use outbox_sinks::{Batch, Connector};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::board::{Page, State};
use crate::decide::Todo;
use crate::feed::{Fed, Feed};
use crate::head::{HeadReceiver, last_operation, next_operation};
use crate::hold::Ended;
use crate::keeper::Keepers;
use crate::outage::{News, Outage};
use crate::saves::Saves;
use crate::settings::{SinkSettings, WorkerSettings};
use crate::store::Store;
use crate::tenure::{Due, Tenure};

/// What giving a lease back may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two looks at a lease that somebody else holds.
const STANDBY_INTERVAL: Duration = Duration::from_secs(1);

/// One sink's loop, and all that it needs.
#[derive(Debug)]
pub struct Dispatch<S> {
    /// The outbox, the leases and the cursors.
    pub store: Arc<S>,
    /// What all loops share.
    pub worker: Arc<WorkerSettings>,
    /// Renews the leases of all loops.
    pub keepers: Arc<Keepers<S>>,
    /// Saves the cursors of all loops.
    pub saves: Arc<Saves>,
    /// This sink's settings.
    pub sink: SinkSettings,
    /// Where it delivers.
    pub connector: Box<dyn Connector>,
    /// The head, as the process sees it.
    pub head: HeadReceiver,
    /// Where the loop tells what it is doing.
    pub board: Arc<Page>,
    /// Asks the loop to stop.
    pub stop: CancellationToken,
    /// Cancelled when deliveries must have ended after a stop.
    pub overdue: CancellationToken,
    /// Set when another worker should have the sink.
    pub give_back: watch::Sender<bool>,
    /// Lets one sink of the process at a time do what a death would be laid to.
    pub hunting: Arc<Semaphore>,
}

impl<S: Store> Dispatch<S> {
    /// Runs until a stop is asked for: waits for the lease, delivers for as long as
    /// it is held, lets it go, and begins again.
    pub async fn run(&self) {
        while let Some((lease, taken_at)) = self.take_lease().await {
            info!(
                sink = self.sink.name,
                token = lease.token,
                abandoned = lease.abandoned,
                "lease taken"
            );
            let keeper = self.keepers.keep(lease.clone(), taken_at);
            let mut tenure = Tenure::new(self, &lease, &keeper);
            let mut reading = None;
            let ended = loop {
                match self.deliver_all(&mut tenure, &mut reading).await {
                    // The cursor row has moved, or says what was ordered: it is claimed anew.
                    Err(Ended::Ordered | Ended::Resumed) => {}
                    Err(ended) => break ended,
                    Ok(never) => match never {},
                }
            };
            tenure.close(&ended).await;
            drop(keeper);
            self.let_go(&lease, &ended).await;
        }
        self.board.enter(State::Stopped);
    }

    /// Claims the cursor, reads and delivers, batch after batch, until something ends it.
    /// What was read and not begun is left in `reading`: it may go on from there.
    async fn deliver_all(
        &self,
        tenure: &mut Tenure<'_, S>,
        reading: &mut Option<Feed>,
    ) -> Result<Infallible, Ended> {
        let mut feed = tenure.claim(reading.take()).await?;
        loop {
            let due = match tenure.next(&mut feed).await {
                Ok(due) => due,
                Err(ended) => {
                    *reading = Some(feed);
                    return Err(ended);
                }
            };
            match due {
                Due::Replays => tenure.replay().await?,
                Due::Fed(Fed::Passed { end }) => tenure.pass(end),
                Due::Fed(Fed::Batch {
                    batch,
                    end,
                    closed_by,
                }) => {
                    debug!(sink = self.sink.name, ?batch, ?closed_by, "delivering");
                    self.board.has_batch(&batch, closed_by);
                    tenure.replays.live_had_turn();
                    self.deliver(tenure, &mut feed, batch, end).await?;
                }
            }
        }
    }

    /// Delivers one batch, however many attempts it takes, and moves the cursor to `end`.
    async fn deliver(
        &self,
        tenure: &mut Tenure<'_, S>,
        feed: &mut Feed,
        batch: Batch,
        end: Position,
    ) -> Result<(), Ended> {
        let mut work = tenure.work(batch, end);
        loop {
            tenure.look_ahead(&mut work, feed).await?;
            let step = match work.todo() {
                Todo::Deliver(task) => match tenure.deliver(&task, &work, feed).await? {
                    Ok(attempt) => work.after(attempt),
                    Err(error) => work.not_opened(error),
                },
                Todo::Settle(step) => step,
                Todo::AwaitNeighbour => {
                    tenure.await_neighbour(&mut work, feed).await?;
                    continue;
                }
                Todo::Nothing => return Ok(()),
            };
            tenure.settle(step, &work).await?;
        }
    }

    /// Waits for the lease; `None` once a stop is asked for. Returns with it a moment
    /// at which it was not yet taken.
    async fn take_lease(&self) -> Option<(Lease, Instant)> {
        let (mut outage, lease) = (Outage::default(), sink_lease(&self.sink.name));
        self.give_back.send_replace(false);
        self.board.enter(State::Waiting);
        while !self.stop.is_cancelled() {
            let asked_at = Instant::now();
            // Not cancelled by a stop: a lease that was taken must also be released.
            let (name, holder) = (&self.sink.name, &self.worker.holder);
            let asking = self.board.asking();
            let answer = self
                .store
                .acquire(&lease, holder, self.worker.lease_ttl)
                .await;
            drop(asking);
            match answer {
                Ok(Some(lease)) => return Some((lease, asked_at)),
                Ok(None) => debug!(sink = name, "another worker holds the lease"),
                Err(error) => {
                    let reason = error.to_string();
                    if outage.failed(&reason) != News::Same {
                        warn!(sink = name, error = reason, "can't ask for the lease");
                    }
                }
            }
            let pause = STANDBY_INTERVAL.mul_f64(0.75 + 0.5 * fastrand::f64());
            self.stop.run_until_cancelled(sleep(pause)).await;
        }
        None
    }

    /// Gives the lease back, so that another worker can go on at once.
    async fn let_go(&self, lease: &Lease, ended: &Ended) {
        let (sink, operation) = (&self.sink.name, last_operation(&self.head));
        match ended {
            Ended::Stopped => info!(sink, "stopped"),
            Ended::LeaseLost => warn!(sink, "lease lost: another worker may go on"),
            Ended::Reread => info!(sink, "the database was away: reading anew from the cursor"),
            Ended::Fenced(error) => warn!(sink, ?error, "fenced off: giving the lease up"),
            Ended::GivenBack => info!(sink, "given back to another worker"),
            Ended::Ordered | Ended::Resumed => debug!(sink, ?ended, "claiming anew"),
            Ended::Foreign(reason) => error!(sink, reason, "not delivering: a person must decide"),
        }
        if !matches!(ended, Ended::LeaseLost) {
            match timeout(RELEASE_TIMEOUT, self.store.release(lease)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(sink, %error, "can't release the lease: it runs out"),
                Err(_) => warn!(sink, "can't release the lease in time: it runs out"),
            }
        }
        let pause = match ended {
            Ended::Stopped | Ended::Ordered | Ended::Resumed => Duration::ZERO,
            // Long enough for the other worker to take it.
            Ended::GivenBack => STANDBY_INTERVAL * 3,
            // Nothing may spin, whatever ends a tenure again and again.
            Ended::LeaseLost | Ended::Reread => STANDBY_INTERVAL,
            Ended::Fenced(_) | Ended::Foreign(_) => self.worker.lease_ttl,
        };
        self.board.enter(ended.state());
        let pause = async {
            tokio::select! {
                biased;
                () = sleep(pause) => {}
                // An operator may have decided what had to be decided.
                () = next_operation(&self.head, operation) => {}
            }
        };
        self.stop.run_until_cancelled(pause).await;
    }
}
