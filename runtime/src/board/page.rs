//! A sink's page: what its loop is doing, written by the loop itself.
//!
//! Each call here stands where the loop decides or has written what it tells of. What the
//! loop waits for is on the page as long as it waits, also when the wait is given up.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use outbox::{Cursor, Position, ReplayOutcome, Settlement, Then};
use outbox_sinks::{Batch, SinkError};
use tokio::time::Instant;

use super::counters::SinkCounters;
use super::state::{Acknowledged, Call, State, count};
use crate::decide::Attempt;
use crate::feed::ClosedBy;

/// What one sink's loop is doing.
#[derive(Debug)]
pub struct Page {
    kind: String,
    counted: SinkCounters,
    database_call: Duration,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    state: State,
    since: Instant,
    attempts: u32,
    last_error: Option<&'static str>,
    position: Option<Position>,
    /// What the loop waits for at its destination.
    call: Option<Pending>,
    /// What it waits for at the database: it saves while it delivers.
    asking: Option<Pending>,
    /// What its reading ahead waits for.
    reading: Option<Pending>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    call: Call,
    since: Instant,
    limit: Duration,
}

/// A look at a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageView {
    /// The kind of the destination.
    pub kind: String,
    /// What the loop is doing.
    pub state: State,
    /// For how long.
    pub state_for: Duration,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// The kind of the last error, until a delivery succeeds.
    pub last_error_kind: Option<&'static str>,
    /// What the cursor row said when it was last read or written; `None` before that.
    pub position: Option<Position>,
    /// What the loop and its reading wait for.
    pub calls: Vec<CallView>,
}

/// A call that has not returned yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallView {
    /// Whose answer it is.
    pub call: Call,
    /// How long it has been going on.
    pub lasts: Duration,
    /// After how long it ends by itself.
    pub limit: Duration,
}

impl Page {
    pub(super) fn new(kind: &str, counted: SinkCounters, database_call: Duration) -> Self {
        Self {
            kind: kind.to_owned(),
            counted,
            database_call,
            now: Mutex::new(Now {
                state: State::default(),
                since: Instant::now(),
                attempts: 0,
                last_error: None,
                position: None,
                call: None,
                asking: None,
                reading: None,
            }),
        }
    }

    /// The loop is doing this from now on.
    pub(crate) fn enter(&self, state: State) {
        let mut now = self.now();
        if now.state != state {
            (now.state, now.since) = (state, Instant::now());
        }
    }

    /// The loop is doing this from when it has to wait for `what`.
    pub(crate) async fn during<T>(&self, state: State, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        if let Some(done) = what.as_mut().now_or_never() {
            return done;
        }
        self.enter(state);
        what.await
    }

    /// The loop asks the database.
    pub(crate) fn asking(&self) -> InCall<'_> {
        self.begin(Slot::Asking, Call::Database, self.database_call)
    }

    /// Its reading ahead does.
    pub(crate) fn reading(&self) -> InCall<'_> {
        self.begin(Slot::Reading, Call::Database, self.database_call)
    }

    /// The loop opens its sink.
    pub(crate) fn opening(&self, limit: Duration) -> InCall<'_> {
        self.enter(State::Opening);
        self.begin(Slot::Destination, Call::Open, limit)
    }

    /// The loop delivers.
    pub(crate) fn delivering(&self, limit: Duration) -> InCall<'_> {
        self.enter(State::Delivering);
        self.begin(Slot::Destination, Call::Delivery, limit)
    }

    /// A batch is in hand.
    pub(crate) fn has_batch(&self, batch: &Batch, closed_by: ClosedBy) {
        self.enter(State::Delivering);
        self.counted.batch(closed_by);
        let events = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        self.counted.batch_events.observe(f64::from(events));
    }

    /// The cursor is ours, and says this.
    pub(crate) fn claimed(&self, cursor: &Cursor) {
        let mut now = self.now();
        (now.position, now.attempts) = (Some(cursor.position), cursor.attempts);
    }

    /// This was written.
    pub(crate) fn settled(&self, settlement: &Settlement) {
        let mut now = self.now();
        if let Some(up_to) = settlement.up_to {
            now.position = Some(up_to);
            self.counted.cursor_saves.inc();
        }
        let dead_letters = count(settlement.dead_letters.len());
        self.counted.dead_letters.inc_by(dead_letters);
        match &settlement.then {
            Then::Go => (now.attempts, now.last_error) = (0, None),
            Then::BackOff(failure) => {
                (now.attempts, now.last_error) = (failure.attempts, Some(failure.kind));
            }
            Then::Pause(_) => {}
        }
    }

    /// What came of replays was written.
    pub(crate) fn replayed(&self, outcomes: &[(i64, ReplayOutcome)]) {
        let took = |(_, outcome): &&(i64, ReplayOutcome)| *outcome == ReplayOutcome::Delivered;
        let delivered = outcomes.iter().filter(took).count();
        self.counted.delivered_replays.inc_by(count(delivered));
    }

    /// A look at it.
    #[must_use]
    pub fn look(&self) -> PageView {
        let now = self.now();
        let pending = [now.call, now.asking, now.reading].into_iter().flatten();
        PageView {
            kind: self.kind.clone(),
            state: now.state,
            state_for: now.since.elapsed(),
            attempts: now.attempts,
            last_error_kind: now.last_error,
            position: now.position,
            calls: pending.map(Pending::look).collect(),
        }
    }

    fn begin(&self, slot: Slot, call: Call, limit: Duration) -> InCall<'_> {
        let since = Instant::now();
        let pending = Pending { call, since, limit };
        *slot.of(&mut self.now()) = Some(pending);
        InCall {
            page: self,
            slot,
            since,
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // Nothing that holds the lock can panic halfway through a change.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn look(self) -> CallView {
        CallView {
            call: self.call,
            lasts: self.since.elapsed(),
            limit: self.limit,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Destination,
    Asking,
    Reading,
}

impl Slot {
    const fn of(self, now: &mut Now) -> &mut Option<Pending> {
        match self {
            Self::Destination => &mut now.call,
            Self::Asking => &mut now.asking,
            Self::Reading => &mut now.reading,
        }
    }
}

/// On the page as long as it lives: a call that has not returned.
#[derive(Debug)]
#[must_use = "the call is over when this is dropped"]
pub(crate) struct InCall<'a> {
    page: &'a Page,
    slot: Slot,
    since: Instant,
}

impl InCall<'_> {
    /// The destination has answered. Counts what it acknowledged.
    pub(crate) fn attempted(self, batch: &Batch, attempt: &Attempt) {
        let (counted, acknowledged) = (&self.page.counted, Acknowledged::by(attempt, batch));
        counted.delivery(acknowledged.outcome);
        counted.delivered_events.inc_by(acknowledged.events);
        counted.delivered_payload.inc_by(acknowledged.bytes);
        let took = self.since.elapsed().as_secs_f64();
        counted.delivery_duration.observe(took);
    }

    /// There is no sink to deliver with, because of this.
    pub(crate) fn not_opened(self, error: SinkError) -> SinkError {
        self.page.counted.delivery(error.kind().into());
        error
    }
}

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        *self.slot.of(&mut self.page.now()) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;

    #[tokio::test(start_paused = true)]
    async fn a_state_lasts_since_it_was_entered_and_not_since_it_was_repeated() {
        let page = Board::default().announce("a", "file");
        page.enter(State::Idle);
        tokio::time::advance(Duration::from_secs(3)).await;
        page.enter(State::Idle);
        assert_eq!(page.look().state_for, Duration::from_secs(3));
        page.enter(State::Paused);
        assert_eq!(page.look().state_for, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_there_at_once_is_no_wait() {
        let page = Board::default().announce("a", "file");
        page.enter(State::Delivering);
        let there = page.during(State::Idle, std::future::ready(7)).await;
        assert_eq!((there, page.look().state), (7, State::Delivering));
        let nap = tokio::time::sleep(Duration::from_secs(1));
        page.during(State::Idle, nap).await;
        assert_eq!(page.look().state, State::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_on_the_page_as_long_as_it_lasts() {
        let page = Board::default().announce("a", "file");
        let limit = Duration::from_secs(9);
        let call = page.delivering(limit);
        let reading = page.reading();
        drop(page.asking());
        tokio::time::advance(Duration::from_secs(2)).await;
        let expected = CallView {
            call: Call::Delivery,
            lasts: Duration::from_secs(2),
            limit,
        };
        assert_eq!(page.look().calls.first(), Some(&expected));
        assert_eq!(page.look().calls.len(), 2);
        drop(call);
        drop(reading);
        assert_eq!(page.look().calls, []);
        assert_eq!(
            page.look().state,
            State::Delivering,
            "what came of it is to be written"
        );
    }
}
