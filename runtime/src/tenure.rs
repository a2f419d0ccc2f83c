//! The time for which one lease is held: what the loop does, one action a function.
//!
//! Every action ends early when the lease is lost, and a stop ends every wait. A
//! delivery in hand may go on after a stop for `shutdown_timeout`.

use std::sync::Arc;
use std::time::Duration;

use outbox::Position;
use outbox_sinks::{Batch, BatchLimits, ErrorKind, Session, Sink, SinkError};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, info, warn};

use crate::attempt;
use crate::decide::{Attempt, Backoff, other_history, pause};
use crate::dispatch::Dispatch;
use crate::feed::{Fed, Feed, From};
use crate::hold::{Ended, Hold};
use crate::keeper::Keeper;
use crate::outage::{News, Outage};
use crate::store::{Claim, Failure, Lease, Store};

/// How long closing a sink may take: everything it delivered is durable already.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The state of one sink under one lease.
pub(crate) struct Tenure<'a, S> {
    of: &'a Dispatch<S>,
    hold: Hold<'a, S>,
    /// Opened when it is first needed, and anew after a panic or a missed deadline.
    sink: Option<Box<dyn Sink>>,
    /// The history that the cursor was claimed in.
    history: u64,
    /// Failed attempts in a row.
    attempts: u32,
    outage: Outage,
    /// What the cursor row says.
    saved: Position,
    /// How far the cursor may move because events were filtered out, since when.
    passed: Option<(Position, Instant)>,
}

impl<'a, S: Store> Tenure<'a, S> {
    pub(crate) fn new(of: &'a Dispatch<S>, lease: &'a Lease, keeper: &'a Keeper) -> Self {
        let hold = Hold {
            store: &*of.store,
            lease,
            keeper,
            stop: &of.stop,
            overdue: &of.overdue,
        };
        let (outage, saved) = (Outage::default(), Position::BEGINNING);
        Self {
            of,
            hold,
            sink: None,
            history: 0,
            attempts: 0,
            outage,
            saved,
            passed: None,
        }
    }

    /// Makes the cursor ours, waits out the pause that an earlier holder began, and
    /// starts to read.
    pub(crate) async fn claim(&mut self) -> Result<Feed, Ended> {
        let start = self.of.sink.start;
        let (store, lease) = (self.hold.store, self.hold.lease);
        let claiming = || {
            // Asked first: a loss meanwhile then shows at the first write.
            let (history, claim) = (store.history(), store.claim(lease, start));
            async move { Ok((history, claim.await?)) }
        };
        let (history, claim) = self.hold.ask(claiming).await?;
        self.history = history;
        let Claim::Claimed {
            position,
            foreign,
            attempts,
            retry_in,
        } = claim
        else {
            return Err(Ended::LeaseLost);
        };
        self.same_history(position, foreign, attempts).await?;
        (self.saved, self.attempts) = (position, attempts);
        info!(sink = self.hold.lease.sink, %position, attempts, "cursor claimed");
        self.hold.until_stopped(sleep(retry_in)).await?;
        let filter = self.of.sink.filter.clone();
        let (store, head) = (Arc::clone(&self.of.store), self.of.head.clone());
        let from = From {
            after: position,
            history,
        };
        Ok(Feed::start(store, head, from, filter, self.limits()))
    }

    /// Stops, with an explanation that `status` shows, if the cursor is not of this
    /// database's history.
    async fn same_history(
        &mut self,
        cursor: Position,
        foreign: bool,
        attempts: u32,
    ) -> Result<(), Ended> {
        let (store, lease) = (self.hold.store, self.hold.lease);
        let head = self.hold.ask(|| store.head()).await?;
        let Some(reason) = other_history(cursor, foreign, head.horizon) else {
            return Ok(());
        };
        let failure = Failure {
            up_to: None,
            // Status shows it as backing off, with the reason.
            attempts: attempts.max(1),
            retry_in: self.of.worker.lease_ttl,
            kind: ErrorKind::Misconfigured.as_str(),
            error: reason.to_owned(),
        };
        self.hold
            .write(self.history, || store.save_failure(lease, &failure))
            .await?;
        Err(Ended::Foreign(reason))
    }

    /// The next batch. Saves the cursor when it only passes filtered events for long.
    pub(crate) async fn next(&mut self, feed: &mut Feed) -> Result<Fed, Ended> {
        loop {
            let Some((position, since)) = self.passed else {
                let fed = self.hold.until_stopped(feed.next()).await?;
                return fed.ok_or(Ended::Reread);
            };
            let save_at = since + self.of.worker.cursor_idle_save;
            tokio::select! {
                biased;
                // 1. It is time to save, even if events keep coming that do not match.
                () = sleep_until(save_at) => self.commit(position).await?,
                // 2. More events, a stop, or the end of the lease.
                fed = self.hold.until_stopped(feed.next()) => {
                    return fed?.ok_or(Ended::Reread);
                }
            }
        }
    }

    /// Takes note that everything up to `end` was filtered out.
    pub(crate) fn pass(&mut self, end: Position) {
        let since = self.passed.map_or_else(Instant::now, |(_, since)| since);
        self.passed = (end > self.saved).then_some((end, since));
    }

    /// Delivers a batch once, opening the sink first if there is none.
    pub(crate) async fn attempt(&mut self, batch: &Batch) -> Result<Attempt, Ended> {
        let deadline = self.of.sink.delivery_timeout;
        let mut sink = match self.sink.take() {
            Some(sink) => sink,
            None => {
                let session = Session::new(&self.hold.lease.sink, self.hold.lease.token, deadline);
                let opening = attempt::open(&*self.of.connector, &session, deadline);
                match self.hold.to_the_end(Duration::ZERO, opening).await? {
                    Ok(sink) => sink,
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        let delivery = attempt::deliver(&mut *sink, batch, deadline);
        let (outcome, usable) = self.hold.to_the_end(Duration::ZERO, delivery).await?;
        self.sink = usable.then_some(sink);
        Ok(outcome)
    }

    /// Moves the cursor to `end`.
    pub(crate) async fn commit(&mut self, end: Position) -> Result<(), Ended> {
        let (store, lease) = (self.hold.store, self.hold.lease);
        self.hold
            .write(self.history, || store.save(lease, end))
            .await?;
        (self.saved, self.attempts, self.passed) = (end, 0, None);
        if let Some(lasted) = self.outage.ended() {
            info!(
                sink = self.hold.lease.sink,
                lasted_s = lasted.as_secs(),
                "delivering again"
            );
        }
        Ok(())
    }

    /// Notes a failed attempt, moves the cursor as far as it may, and waits. Attempts
    /// are counted anew when a part of the batch was delivered. A stop is no attempt.
    pub(crate) async fn back_off(
        &mut self,
        up_to: Option<Position>,
        error: &SinkError,
        progress: bool,
    ) -> Result<(), Ended> {
        // What was passed lies before the batch: it goes with the failure, or is read again.
        let passed = self.passed.take().map(|(position, _)| position);
        if self.of.stop.is_cancelled() {
            return match up_to {
                Some(up_to) => self.commit(up_to).await.and(Err(Ended::Stopped)),
                None => Err(Ended::Stopped),
            };
        }
        let up_to = up_to.or(passed);
        self.attempts = if progress {
            1
        } else {
            self.attempts.saturating_add(1)
        };
        let retry_in = pause(
            &self.of.sink.retry,
            &Backoff {
                attempts: self.attempts,
                kind: error.kind(),
                retry_after: error.retry_after(),
                jitter: fastrand::f64(),
            },
        );
        self.log_failure(error, retry_in);
        let failure = Failure {
            up_to,
            attempts: self.attempts,
            retry_in,
            kind: error.kind().as_str(),
            error: describe(error),
        };
        let again_at = Instant::now() + retry_in;
        let (store, lease) = (self.hold.store, self.hold.lease);
        self.hold
            .write(self.history, || store.save_failure(lease, &failure))
            .await?;
        self.saved = up_to.unwrap_or(self.saved);
        self.hold.until_stopped(sleep_until(again_at)).await
    }

    /// Saves what may be saved and closes the sink.
    pub(crate) async fn close(&mut self, ended: &Ended) {
        if let (Ended::Stopped, Some((position, _))) = (ended, self.passed)
            && let Err(ended) = self.commit(position).await
        {
            debug!(sink = self.hold.lease.sink, ?ended, "can't save the cursor");
        }
        let Some(sink) = self.sink.take() else { return };
        if let Err(error) = attempt::close(sink, CLOSE_TIMEOUT).await {
            warn!(sink = self.hold.lease.sink, ?error, "can't close the sink");
        }
    }

    fn limits(&self) -> BatchLimits {
        let (ours, theirs) = (self.of.sink.batch, self.of.connector.batch_limits());
        BatchLimits {
            max_events: ours.max_events.unwrap_or(theirs.max_events),
            max_bytes: ours.max_bytes.unwrap_or(theirs.max_bytes),
            max_wait: ours.max_wait.unwrap_or(theirs.max_wait),
        }
    }

    fn log_failure(&mut self, error: &SinkError, retry_in: Duration) {
        let (sink, attempts) = (&self.hold.lease.sink, self.attempts);
        let retry_in = format_args!("{retry_in:.1?}");
        match (self.outage.failed(&describe(error)), error.kind()) {
            (News::Same, _) => debug!(sink, ?error, attempts, %retry_in, "delivery failed again"),
            (_, ErrorKind::Misconfigured) => {
                error!(sink, ?error, %retry_in, "delivery needs a person");
            }
            (_, ErrorKind::Unavailable | ErrorKind::Failed | ErrorKind::Fenced) => {
                warn!(sink, ?error, attempts, %retry_in, "delivery failed, backing off");
            }
        }
    }
}

/// The error with its causes and its advice, for people.
fn describe(error: &SinkError) -> String {
    match error.advice() {
        Some(advice) => format!("{} ({advice})", error.chain()),
        None => error.chain(),
    }
}
