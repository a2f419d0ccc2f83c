//! What the loops need of the database, as a trait, so that tests can run the real
//! loop over a store that fails on demand.
//!
//! Guards OB-3: every write of a cursor names the lease it is made under, and is
//! refused when a newer lease exists.

mod postgres;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use outbox::{Event, Filter, Position, Txid};

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

    /// Makes a reader of the events that pass a filter.
    fn reader(
        &self,
        filter: &Filter,
    ) -> impl Future<Output = Result<Self::Reader, StoreError>> + Send;

    /// Takes the sink's lease if it is free; its token is larger than all before.
    fn acquire(
        &self,
        sink: &str,
        holder: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<Option<Lease>, StoreError>> + Send;

    /// Prolongs a lease.
    fn renew(
        &self,
        lease: &Lease,
        ttl: Duration,
    ) -> impl Future<Output = Result<Owned, StoreError>> + Send;

    /// Gives a lease back, so that another worker may take it at once.
    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Makes the cursor this lease's own: no holder of an older lease can write it
    /// from here on. A sink without a cursor gets one at `start`.
    fn claim(
        &self,
        lease: &Lease,
        start: Start,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    /// Moves the cursor, and forgets failed attempts.
    fn save(
        &self,
        lease: &Lease,
        position: Position,
    ) -> impl Future<Output = Result<Owned, StoreError>> + Send;

    /// Notes a failed attempt, so that the next holder goes on from here.
    fn save_failure(
        &self,
        lease: &Lease,
        failure: &Failure,
    ) -> impl Future<Output = Result<Owned, StoreError>> + Send;
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

/// A lease that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The sink it is for.
    pub sink: String,
    /// Who took it.
    pub holder: String,
    /// Which one it is: it grows with every takeover.
    pub token: i64,
}

/// Whether the lease that was named is still the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Owned {
    /// It is; what was asked for is done.
    Yes,
    /// A newer one exists, or the time ran out: nothing was done.
    No,
}

/// A cursor, as its new owner finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The cursor is ours.
    Claimed {
        /// Everything up to here is settled.
        position: Position,
        /// Whether it was saved in another cluster, of which this database is a copy.
        foreign: bool,
        /// Failed attempts in a row so far.
        attempts: u32,
        /// How long the pause after the last of them still takes.
        retry_in: Duration,
    },
    /// A newer lease exists.
    Fenced,
}

/// A failed attempt, as the cursor remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How far the cursor may move all the same.
    pub up_to: Option<Position>,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// The pause until the next one.
    pub retry_in: Duration,
    /// The kind of error: `unavailable`, `failed`, `misconfigured`.
    pub kind: &'static str,
    /// The error and its advice, for people.
    pub error: String,
}

/// The database did not do what it was asked. Every such error may pass: the loops
/// wait and ask again.
pub struct StoreError(Box<dyn Error + Send + Sync>);

impl StoreError {
    /// Wraps what went wrong.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
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
