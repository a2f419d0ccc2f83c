//! Reading ahead: batches in order, the next one read while the present one is
//! delivered.
//!
//! Holds at most one batch besides the one in delivery, so a loop's memory
//! is bounded by twice its `max_bytes`; by three times where a sink begins with the next
//! one early. Reads nothing at or above the horizon (OB-5).
//! What was read for all loops is taken from there; a loop that is behind reads for itself.

use std::sync::Arc;
use std::time::Duration;

use outbox::{Filter, Position};
use outbox_sinks::{Batch, BatchLimits};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::assembly::Assembly;
use crate::board::Page as BoardPage;
use crate::demand::Demand;
use crate::head::{Follower, HeadReceiver};
use crate::outage::{News, Outage};
use crate::store::{Head, Page, PageEnd, Range, Reader, Store, StoreError};

/// The pause after the first failure to read.
const FIRST_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The longest pause between two tries to read.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// What comes out of the outbox, in order.
#[derive(Debug)]
pub enum Fed {
    /// Events to deliver. Once they are, the cursor may move to `end`, which may lie
    /// after the last of them because what follows was filtered out.
    Batch {
        /// The events.
        batch: Batch,
        /// Everything up to here is in the batch or was filtered out.
        end: Position,
        /// Why the batch was closed.
        closed_by: ClosedBy,
    },
    /// Nothing to deliver: everything up to `end` was filtered out.
    Passed {
        /// Where reading stands.
        end: Position,
    },
}

/// Why a batch was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClosedBy {
    /// It has `max_events` events.
    Events,
    /// It has `max_bytes` of payload.
    Bytes,
    /// Its first event is `max_wait` old; at a `max_wait` of zero, nothing more was there.
    Age,
    /// It ends where it did when it was begun before.
    Exact,
}

impl ClosedBy {
    /// A word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Bytes => "bytes",
            Self::Age => "age",
            Self::Exact => "exact",
        }
    }
}

/// Where reading starts.
#[derive(Clone, Copy, Debug)]
pub struct From {
    /// After this position.
    pub after: Position,
    /// In this [history](Store::history) of the database.
    pub history: u64,
    /// The first batch ends here, whatever the limits say: it was begun before.
    pub exact: Option<Position>,
}

/// The reading side of one loop. Reading stops when it is dropped.
#[derive(Debug)]
pub struct Feed {
    batches: mpsc::Receiver<Fed>,
    /// What was looked at, and comes next.
    ahead: Option<Fed>,
    /// Whether a sink has begun with that.
    begun: bool,
    demand: Arc<Demand>,
    _reader: AbortOnDropHandle<()>,
}

impl Feed {
    /// Starts to read.
    pub fn start<S: Store>(
        store: Arc<S>,
        head: HeadReceiver,
        board: Arc<BoardPage>,
        from: From,
        filter: Filter,
        limits: BatchLimits,
    ) -> Self {
        let (sender, batches) = mpsc::channel(1);
        let demand = Arc::new(Demand::default());
        let reader = Assembler {
            demand: Arc::clone(&demand),
            store,
            reader: None,
            place: Follower::start(head, from.after, from.history),
            board,
            exact: from.exact,
            filter,
            limits,
            outage: Outage::default(),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "owned by the feed, aborted with it"
        )]
        let task = tokio::spawn(reader.run(sender));
        Self {
            batches,
            ahead: None,
            begun: false,
            demand,
            _reader: AbortOnDropHandle::new(task),
        }
    }

    /// The next batch, or word that events were passed over. Pends while there is
    /// nothing. Cancelling the call loses nothing. `None` if reading must begin anew:
    /// the connection to the database was lost meanwhile, or a bug of ours ended it.
    pub async fn next(&mut self) -> Option<Fed> {
        match self.take_ahead() {
            Some(fed) => Some(fed),
            None => self.receive().await,
        }
    }

    /// The next batch, if it is there already; if not, it is on its way from now on.
    pub fn try_next(&mut self) -> Option<Fed> {
        if let Some(fed) = self.take_ahead() {
            return Some(fed);
        }
        self.demand.ask();
        let fed = self.batches.try_recv().ok()?;
        self.demand.served();
        Some(fed)
    }

    /// Waits for the next batch and leaves it in its place. Who asks begins with it.
    /// Pends for ever if something else comes next. Cancelling the call loses nothing.
    pub async fn begin_next(&mut self) -> Batch {
        if self.ahead.is_none() {
            self.ahead = self.receive().await;
        }
        match &self.ahead {
            Some(Fed::Batch { batch, .. }) => {
                self.begun = true;
                batch.clone()
            }
            Some(Fed::Passed { .. }) | None => std::future::pending().await,
        }
    }

    /// The next batch, if a sink has begun with it.
    pub fn take_begun(&mut self) -> Option<Fed> {
        if self.begun { self.take_ahead() } else { None }
    }

    /// What a sink has begun with, it has let go of.
    pub const fn not_begun(&mut self) {
        self.begun = false;
    }

    fn take_ahead(&mut self) -> Option<Fed> {
        self.begun = false;
        self.ahead.take()
    }

    async fn receive(&mut self) -> Option<Fed> {
        self.demand.ask();
        let fed = self.batches.recv().await;
        self.demand.served();
        fed
    }
}

struct Assembler<S: Store> {
    demand: Arc<Demand>,
    store: Arc<S>,
    reader: Option<S::Reader>,
    place: Follower,
    board: Arc<BoardPage>,
    exact: Option<Position>,
    filter: Filter,
    limits: BatchLimits,
    outage: Outage,
}

impl<S: Store> Assembler<S> {
    async fn run(mut self, sender: mpsc::Sender<Fed>) {
        // A place in the channel first: so no more than one batch is ever waiting.
        while let Ok(place) = sender.reserve().await {
            let fed = match self.exact.take() {
                Some(end) => self.assemble_exactly(end).await,
                None => self.assemble().await,
            };
            match fed {
                Some(fed) => place.send(fed),
                None => return,
            }
        }
    }

    /// Puts the next batch together; `None` if the history has changed.
    async fn assemble(&mut self) -> Option<Fed> {
        let mut batch = Assembly::new(self.limits);
        loop {
            // 1. Wait for something to read, until the batch has waited enough and is wanted.
            let Some(head) = self.wait_for_more(&batch).await else {
                return Some(batch.close(self.place.at(), ClosedBy::Age));
            };
            // 2. Read it. A horizon of another history says nothing about this one.
            let room = batch.room();
            let page = self.read(head, room).await?;
            self.place.go_to(page.end);
            // 3. Hand out what is full, or has no reason to wait, or has waited enough. While
            //    the loop is busy with the batch before, this one grows: closed at once, it
            //    would hold what came in the first millisecond, and cost a delivery of its own.
            let nothing_there = page.ended_by == PageEnd::Horizon || page.events.is_empty();
            if let Some(closed_by) = batch.add(page) {
                return Some(batch.close(self.place.at(), closed_by));
            }
            if batch.is_due(nothing_there) && self.demand.is_there() {
                return Some(batch.close(self.place.at(), ClosedBy::Age));
            }
        }
    }

    /// Puts the batch together that ends at `end`, as large as it was; `None` if the
    /// history has changed.
    async fn assemble_exactly(&mut self, end: Position) -> Option<Fed> {
        let unlimited = self.limits.max_events(usize::MAX).max_bytes(usize::MAX);
        let mut batch = Assembly::new(unlimited);
        while self.place.at() < end {
            let head = self.place.more().await;
            let mut page = self.read(head, self.limits).await?;
            page.events.retain(|event| event.position() <= end);
            // A head that was seen before the range was begun may lie within it.
            let all_there = end <= Position::before(head.horizon);
            let whole = all_there && page.ended_by == PageEnd::Horizon;
            self.place
                .go_to(if whole { end } else { page.end.min(end) });
            batch.add(page);
        }
        Some(batch.close(end, ClosedBy::Exact))
    }

    async fn wait_for_more(&mut self, batch: &Assembly) -> Option<Head> {
        let more = self.place.more();
        let Some(deadline) = batch.deadline() else {
            return Some(more.await);
        };
        let wanted = async {
            sleep_until(deadline).await;
            self.demand.asked().await;
        };
        tokio::select! {
            biased;
            head = more => Some(head),
            () = wanted => None,
        }
    }

    /// Takes what was read for all, or reads a page for this loop alone; `None` if the
    /// history is another one before or after it.
    async fn read(&mut self, head: Head, room: BatchLimits) -> Option<Page> {
        let page = match self.place.shared(&self.filter, room) {
            Some(page) => page,
            None => self.read_alone(head, room).await?,
        };
        (self.store.history() == self.place.history()).then_some(page)
    }

    /// Reads a page, however long the database takes to answer; `None` if the history
    /// is another one before it.
    async fn read_alone(&mut self, head: Head, room: BatchLimits) -> Option<Page> {
        let (after, history) = (self.place.at(), self.place.history());
        let range = Range {
            after,
            horizon: head.horizon,
            max_events: room.max_events,
            max_bytes: room.max_bytes,
        };
        let mut pause = FIRST_RETRY_INTERVAL;
        while head.history == history && self.store.history() == history {
            match self.try_read(range).await {
                Ok(mut page) => {
                    if let Some(lasted) = self.outage.ended() {
                        debug!(lasted_s = lasted.as_secs(), "outbox can be read again");
                    }
                    if page.ended_by == PageEnd::Horizon {
                        // Head and page share a horizon, below which nothing can appear.
                        page.end = head.newest.map_or(after, |newest| newest.max(after));
                    }
                    return Some(page);
                }
                Err(error) => {
                    let reason = error.to_string();
                    if self.outage.failed(&reason) != News::Same {
                        warn!(error = reason, "can't read the outbox");
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_INTERVAL);
                }
            }
        }
        None
    }

    async fn try_read(&mut self, range: Range) -> Result<Page, StoreError> {
        let _call = self.board.reading();
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(self.store.reader(&self.filter).await?),
        };
        reader.read(range).await
    }
}
