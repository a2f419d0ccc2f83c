//! The time for which one lease is held: what the loop does, one action a function.
//!
//! Every action ends early when the lease is lost, and a stop or an operator's command
//! ends every wait. A delivery in hand may go on after a stop for `shutdown_timeout`.

mod deliver;
mod open;
mod saving;
mod settle;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use outbox::{Cursor, Failure, Lease, Position, Then};
use outbox_sinks::{Batch, BatchLimits, CLOSE_TIMEOUT, ErrorKind, Sink};
use saving::{Passed, at};
pub(crate) use settle::describe;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use crate::attempt;
use crate::board::State;
use crate::decide::{Before, Caution, Hunt, Rules, Work, other_history, resume};
use crate::dispatch::Dispatch;
use crate::feed::{Fed, Feed, From};
use crate::hold::{Ended, Hold};
use crate::keeper::Keeper;
use crate::outage::Outage;
use crate::replays::Replays;
use crate::settings::OnPoison;
use crate::store::Store;

/// How long to wait for events that are there already to be read.
const LOOK_AHEAD_TIMEOUT: Duration = Duration::from_millis(100);

/// The state of one sink under one lease.
pub(crate) struct Tenure<'a, S> {
    pub(crate) of: &'a Dispatch<S>,
    pub(crate) hold: Hold<'a, S>,
    /// Opened when it is first needed, and anew after a panic or a missed deadline; one
    /// that stores its position, after every error.
    sink: Option<Box<dyn Sink>>,
    /// The cursor as it was claimed.
    cursor: Cursor,
    /// The history that the cursor was claimed in.
    pub(crate) history: u64,
    /// Whether the last holder may have died, until a batch has begun.
    abandoned: bool,
    /// Whether it died in a delivery that it had written down.
    died: bool,
    /// Failed attempts in a row.
    attempts: u32,
    outage: Outage,
    /// What the cursor row says.
    saved: Position,
    /// The end of the range that the cursor row has as begun.
    marked: Option<Position>,
    /// What the first batch begins with.
    before: Before,
    hunt: Hunt,
    /// Dead letters that were written ahead of the cursor: read again, they are not
    /// written again, and take no room of the fuse.
    buried: BTreeSet<Position>,
    /// The end of the batch that the sink has begun with ahead of its turn.
    begun: Option<Position>,
    /// What is done with and not yet written.
    passed: Option<Passed>,
    caution: Caution,
    pub(crate) replays: Replays,
    /// Held while this sink does what a death would be laid to.
    turn: Option<OwnedSemaphorePermit>,
}

/// What there is to do next.
#[derive(Debug)]
pub(crate) enum Due {
    /// What was read.
    Fed(Fed),
    /// Dead letters that somebody wants to have replayed.
    Replays,
}

impl<'a, S: Store> Tenure<'a, S> {
    pub(crate) fn new(of: &'a Dispatch<S>, lease: &'a Lease, keeper: &'a Keeper) -> Self {
        let hold = Hold {
            store: &*of.store,
            sink: &of.sink.name,
            board: &of.board,
            lease,
            keeper,
            stop: &of.stop,
            overdue: &of.overdue,
            head: &of.head,
            operation: None,
            give_back: of.give_back.subscribe(),
        };
        Self {
            of,
            hold,
            sink: None,
            cursor: Cursor::default(),
            history: 0,
            abandoned: lease.abandoned,
            died: false,
            attempts: 0,
            outage: Outage::default(),
            saved: Position::BEGINNING,
            marked: None,
            buried: BTreeSet::new(),
            before: Before::default(),
            hunt: Hunt::No,
            begun: None,
            passed: None,
            caution: Caution::default(),
            replays: Replays::default(),
            turn: None,
        }
    }

    /// Makes the cursor ours, obeys what operators have ordered, waits out the pause
    /// that an earlier holder began, and starts to read; or goes on with what is being
    /// read, if that still follows the cursor.
    pub(crate) async fn claim(&mut self, reading: Option<Feed>) -> Result<Feed, Ended> {
        // A seek may be carried out: what was passed before it must not be saved after it. And
        // whoever orders a pause finds in the row what was delivered.
        self.save().await?;
        let before = (self.history, self.saved);
        self.turn = None;
        self.of.board.enter(State::Opening);
        self.hold.look_at_orders().await?;
        let (store, sink, lease) = (self.hold.store, self.hold.sink, self.hold.lease);
        let start = self.of.sink.start;
        let claiming = || {
            // Asked first: a loss meanwhile then shows at the first write.
            let (history, claim) = (store.history(), store.claim(sink, lease, start));
            async move { Ok((history, claim.await?)) }
        };
        let (history, claim) = self.hold.ask_unless_stopped(claiming).await?;
        let mut cursor = claim.ok_or(Ended::LeaseLost)?;
        self.history = history;
        // It is told once, and counts until a batch has begun.
        cursor.delivering |= self.died;
        self.died = cursor.delivering;
        if cursor.flow != self.cursor.flow {
            // What an open sink was told of its positions holds no more.
            self.close_sink().await;
        }
        self.cursor = cursor.clone();
        self.same_history().await?;
        let (position, attempts) = (cursor.position, cursor.attempts);
        info!(sink, %position, attempts, "cursor claimed");
        self.of.board.claimed(&cursor);
        self.replays.ordered(cursor.replays);
        self.wait_while_paused(cursor.paused.as_deref()).await?;
        let frozen = self.of.connector.frozen_ranges();
        let begun = resume(&cursor, self.abandoned, frozen);
        if begun.hunt != Hunt::No {
            info!(
                sink,
                "the last holder may have died: marking deliveries for a while"
            );
            self.replays.beware();
            let worker = &self.of.worker;
            self.caution = Caution::after_death(worker.lease_ttl, worker.cursor_save_interval);
        }
        if position != self.saved {
            // A seek: what is read from there on is settled anew.
            self.buried.clear();
        }
        (self.saved, self.attempts) = (position, attempts);
        self.marked = begun.exact.filter(|_| frozen);
        (self.before, self.hunt) = (begun.before, begun.hunt);
        let again_at = Instant::now() + cursor.retry_in.unwrap_or_default();
        self.wait_until(again_at, cursor.suspect.as_ref()).await?;
        if let Some(reading) = reading
            && begun.exact.is_none()
            && (history, position) == before
        {
            return Ok(reading);
        }
        Ok(self.read_on(From {
            after: position,
            history,
            exact: begun.exact,
        }))
    }

    fn read_on(&self, from: From) -> Feed {
        let (store, head) = (Arc::clone(&self.of.store), self.of.head.clone());
        let filter = self.of.sink.filter.clone();
        let (board, limits) = (Arc::clone(&self.of.board), self.limits());
        Feed::start(store, head, board, from, filter, limits)
    }

    /// Stops, with an explanation that `status` shows, if the cursor is not of this
    /// database's history.
    async fn same_history(&mut self) -> Result<(), Ended> {
        let store = self.hold.store;
        let head = self.hold.ask_unless_stopped(|| store.head()).await?;
        let cursor = &self.cursor;
        match other_history(cursor.position, cursor.origin, head.horizon) {
            Some(reason) => Err(self.explain(reason.to_owned()).await?),
            None => Ok(()),
        }
    }

    /// Lets `status` show, as backing off, why nothing may be delivered.
    async fn explain(&mut self, reason: String) -> Result<Ended, Ended> {
        let failure = Failure {
            attempts: self.cursor.attempts.max(1),
            retry_in: self.of.worker.lease_ttl,
            kind: ErrorKind::Misconfigured.as_str(),
            error: reason.clone(),
            suspect: self.cursor.suspect.clone(),
        };
        self.write(None, Vec::new(), Then::BackOff(failure)).await?;
        Ok(Ended::Foreign(reason))
    }

    async fn wait_while_paused(&mut self, paused: Option<&str>) -> Result<(), Ended> {
        let Some(reason) = paused else { return Ok(()) };
        info!(sink = self.hold.sink, reason, "paused");
        self.close_sink().await;
        self.of.board.enter(State::Paused);
        self.hold.until_stopped(std::future::pending()).await
    }

    /// What to do next. Saves the cursor when that is due.
    pub(crate) async fn next(&mut self, feed: &mut Feed) -> Result<Due, Ended> {
        // What was begun is in hand: a stop lets it finish, and whoever orders something finds
        // in the cursor row what came of it.
        if let Some(fed) = feed.take_begun() {
            if let Fed::Batch { batch, .. } = &fed {
                self.begun = Some(batch.end());
            }
            return Ok(Due::Fed(fed));
        }
        loop {
            self.hold.check().await?;
            // Live events and replays take turns.
            if !self.replays.has_turn()
                && let Some(fed) = feed.try_next()
            {
                return Ok(Due::Fed(fed));
            }
            let board = &self.of.board;
            tokio::select! {
                biased;
                // 1. It is time to save, even if events keep coming that do not match.
                () = at(self.save_at()) => self.save().await?,
                // 2. A replay that was ordered.
                () = at(self.replays.due_at()) => return Ok(Due::Replays),
                // 3. More events, a stop, or the end of the lease.
                fed = self.hold.until_stopped(board.during(State::Idle, feed.next())) => {
                    return fed?.map(Due::Fed).ok_or(Ended::Reread);
                }
            }
        }
    }

    /// Begins with a batch.
    pub(crate) fn work(&mut self, batch: Batch, end: Position) -> Work<'a> {
        if self.hunt == Hunt::NextBatch {
            self.hunt = Hunt::Until(end);
        }
        (self.abandoned, self.died) = (false, false);
        let of = self.of;
        let rules = Rules {
            poison_attempts: of.sink.poison.attempts,
            frozen: of.connector.frozen_ranges(),
            // After a pause the suspect must be there to be tried again.
            probe_successors: of.sink.poison.on_poison != OnPoison::Halt,
            connector: &*of.connector,
        };
        Work::new(rules, batch, end, std::mem::take(&mut self.before))
    }

    /// Reads on, as far as something is there, if the work needs more to decide.
    pub(crate) async fn look_ahead(
        &mut self,
        work: &mut Work<'_>,
        feed: &mut Feed,
    ) -> Result<(), Ended> {
        while work.wants_more() {
            let reading = timeout(LOOK_AHEAD_TIMEOUT, feed.next());
            match self.hold.until_stopped(reading).await? {
                Ok(Some(fed)) => extend(work, fed),
                Ok(None) => return Err(Ended::Reread),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Waits until there is more to decide with, and lets `status` say so.
    pub(crate) async fn await_neighbour(
        &mut self,
        work: &mut Work<'_>,
        feed: &mut Feed,
    ) -> Result<(), Ended> {
        let suspect = work.suspect();
        let reason = suspect.as_ref().map_or("", |suspect| &suspect.error);
        let error = format!("waiting for another event to compare with: {reason}");
        info!(sink = self.hold.sink, "{error}");
        let failure = Failure {
            attempts: self.attempts.max(1),
            retry_in: Duration::ZERO,
            kind: ErrorKind::Failed.as_str(),
            error,
            suspect,
        };
        self.write(None, Vec::new(), Then::BackOff(failure)).await?;
        self.of.board.enter(State::BackingOff);
        loop {
            let fed = self.hold.until_stopped(feed.next()).await?;
            let fed = fed.ok_or(Ended::Reread)?;
            let is_batch = matches!(fed, Fed::Batch { .. });
            extend(work, fed);
            if is_batch {
                return Ok(());
            }
        }
    }

    /// Saves what may be saved and closes the sink.
    pub(crate) async fn close(&mut self, ended: &Ended) {
        if let Ended::Stopped | Ended::GivenBack | Ended::Fenced(_) = ended
            && let Err(ended) = self.save().await
        {
            debug!(sink = self.hold.sink, ?ended, "can't save the cursor");
        }
        self.close_sink().await;
    }

    async fn close_sink(&mut self) {
        self.turn = None;
        if let Some(sink) = self.sink.take() {
            self.let_go_of(sink).await;
        }
    }

    async fn let_go_of(&mut self, sink: Box<dyn Sink>) {
        if let Err(error) = attempt::close(sink, CLOSE_TIMEOUT).await {
            warn!(sink = self.hold.sink, ?error, "can't close the sink");
        }
    }

    pub(crate) fn limits(&self) -> BatchLimits {
        let (ours, theirs) = (self.of.sink.batch, self.of.connector.batch_limits());
        theirs
            .max_events(ours.max_events.unwrap_or(theirs.max_events))
            .max_bytes(ours.max_bytes.unwrap_or(theirs.max_bytes))
            .max_wait(ours.max_wait.unwrap_or(theirs.max_wait))
    }
}

fn extend(work: &mut Work<'_>, fed: Fed) {
    match fed {
        Fed::Batch { batch, end, .. } => work.extend(Some(batch), end),
        Fed::Passed { end } => work.extend(None, end),
    }
}
