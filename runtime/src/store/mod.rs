//! What the loops need of the database, as a trait, so that tests can run the real
//! loop over a store that fails on demand.
//!
//! Guards OB-3: every write of a cursor names the lease it is made under, and is
//! refused when a newer lease exists.

mod postgres;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use outbox::{
    Advance, Cursor, Event, Filter, Lease, Mark, Member, Owned, Position, Pruned, Replay,
    ReplayOutcome, Settlement, Txid,
};

use crate::settings::Start;

/// The outbox, the leases and the cursors.
///
/// # Contract
/// Each call returns within a deadline of its own, in an outage too. Dropping a
/// call midway is allowed and leaves nothing half done behind for the next one.
pub trait Store: Send + Sync + 'static {
    /// What reads the outbox for one sink.
    type Reader: Reader;

    /// How often the connection to the database was lost. What was read before a loss
    /// may belong to another history than what is read after it: a crash can lose
    /// asynchronous commits, and their transaction ids are used again. So a loop
    /// begins again from its cursor when this number has changed.
    fn history(&self) -> u64;

    /// Looks at the horizon and at the newest position below it.
    fn head(&self) -> impl Future<Output = Result<Head, StoreError>> + Send;

    /// Looks at the head and reads what comes after a position in the same look, by a
    /// reader whose filter takes everything. Head and page share a horizon.
    fn tail(
        &self,
        reader: &mut Self::Reader,
        range: TailRange,
    ) -> impl Future<Output = Result<Tail, StoreError>> + Send;

    /// Makes a reader of the events that pass a filter.
    fn reader(
        &self,
        filter: &Filter,
    ) -> impl Future<Output = Result<Self::Reader, StoreError>> + Send;

    /// Takes the lease of this name if it is free; its token is larger than all before.
    fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<Option<Lease>, StoreError>> + Send;

    /// Prolongs a lease.
    fn renew(
        &self,
        lease: &Lease,
        ttl: Duration,
    ) -> impl Future<Output = Result<Owned, StoreError>> + Send;

    /// Prolongs several leases, and tells of each whether it did. About one that it did not
    /// it says nothing: [`Store::renew`] does.
    fn renew_all(
        &self,
        leases: &[Lease],
        ttl: Duration,
    ) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send;

    /// Gives a lease back, so that another worker may take it at once.
    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Makes the cursor this lease's own: no holder of an older lease can write it
    /// from here on. Carries out a seek that was ordered. A sink without a cursor gets
    /// one at `start`. [`Cursor::delivering`] is told once: the row forgets it.
    fn claim(
        &self,
        sink: &str,
        lease: &Lease,
        start: Start,
    ) -> impl Future<Output = Result<Option<Cursor>, StoreError>> + Send;

    /// Writes what came of a delivery: the cursor's move, the dead letters and what
    /// follows, all or nothing. What the cursor has passed by then is forgotten: the
    /// suspect, the marked range, the hunt.
    ///
    /// Idempotent: repeated after an answer that was lost, it changes nothing more.
    fn settle(
        &self,
        sink: &str,
        lease: &Lease,
        settlement: &Settlement,
    ) -> impl Future<Output = Result<Owned, StoreError>> + Send;

    /// Moves several cursors, each only if its row is the mover's own, lies before where it
    /// moves to and has nothing else to forget; tells of each whether it did. It waits for
    /// no single row. About one that it did not move it says nothing: [`Store::settle`] does.
    fn advance(
        &self,
        moves: &[Advance],
    ) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send;

    /// Writes down what is about to be delivered.
    fn mark(
        &self,
        sink: &str,
        lease: &Lease,
        mark: &Mark,
    ) -> impl Future<Output = Result<Owned, StoreError>> + Send;

    /// How many dead letters the sink has got within `window`, and since it was
    /// resumed the last time, not counting those of the events at `except`.
    fn recent_dead_letters(
        &self,
        sink: &str,
        window: Duration,
        except: &[Position],
    ) -> impl Future<Output = Result<u32, StoreError>> + Send;

    /// The first dead letters, at most `limit`, that wait to be replayed.
    fn replays(
        &self,
        sink: &str,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Replay>, StoreError>> + Send;

    /// Writes what came of replays. Never touches the cursor's position. That one was
    /// delivered corrects that it was given up before.
    fn settle_replays(
        &self,
        sink: &str,
        lease: &Lease,
        outcomes: &[(i64, ReplayOutcome)],
    ) -> impl Future<Output = Result<Owned, StoreError>> + Send;

    /// Says that this worker is alive, for `ttl` from now, and which sinks it could
    /// run. Returns all workers that are alive, this one included, in order of their names.
    fn census(
        &self,
        holder: &str,
        sinks: &[String],
        ttl: Duration,
    ) -> impl Future<Output = Result<Vec<Member>, StoreError>> + Send;

    /// Says that this worker ends.
    fn leave(&self, holder: &str) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Deletes what every cursor has passed and what is older than `min_age`: at most
    /// a few thousand rows after `after`.
    fn prune(
        &self,
        min_age: Duration,
        after: Position,
    ) -> impl Future<Output = Result<Pruned, StoreError>> + Send;
}

/// Reads the outbox in order for one sink.
pub trait Reader: Send + 'static {
    /// Reads the next page. The same contract as [`Store`]'s calls.
    fn read(&mut self, range: Range) -> impl Future<Output = Result<Page, StoreError>> + Send;
}

/// How far reading may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// All transactions below have ended.
    pub horizon: Txid,
    /// The greatest position below the horizon, if there is any event.
    pub newest: Option<Position>,
    /// The last operator's command: when it changes, there is something to obey.
    pub operation: i64,
    /// The [history](Store::history) it belongs to.
    pub history: u64,
}

/// What to read: `(after, horizon)`, within limits.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Events after this position.
    pub after: Position,
    /// Events of transactions below this one.
    pub horizon: Txid,
    /// At most so many events.
    pub max_events: usize,
    /// At most so many payload bytes, except that one event always fits.
    pub max_bytes: usize,
}

/// What to read up to the head, within limits.
#[derive(Clone, Copy, Debug)]
pub struct TailRange {
    /// Events after this position.
    pub after: Position,
    /// At most so many events.
    pub max_events: usize,
    /// At most so many payload bytes, except that one event always fits.
    pub max_bytes: usize,
}

/// The head, and the events before it, at one moment.
#[derive(Clone, Debug)]
pub struct Tail {
    /// The head.
    pub head: Head,
    /// What comes first after the position that was asked for.
    pub page: Page,
}

/// A run of events as it was read.
#[derive(Clone, Debug)]
pub struct Page {
    /// The events that passed the filter.
    pub events: Vec<Event>,
    /// Everything up to here was looked at. Of no meaning at the horizon's end.
    pub end: Position,
    /// Why it ended there.
    pub ended_by: PageEnd,
}

/// Why a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    /// There was nothing more below the horizon.
    Horizon,
    /// As many rows were looked at as one read may; more may follow.
    Rows,
    /// The next event would have been too much for `max_bytes`.
    Bytes,
}

/// The database did not do what it was asked. Every such error may pass: the loops
/// wait and ask again.
pub struct StoreError(Box<dyn Error + Send + Sync>);

impl StoreError {
    /// Wraps what went wrong.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// What went wrong.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
