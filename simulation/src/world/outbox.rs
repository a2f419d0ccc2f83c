//! The table `outbox` and the transactions that write it, as Postgres would have them:
//! ids are drawn at the first write, commits come in any order, and a crash loses what
//! was committed asynchronously since the last commit that was not.

use std::collections::BTreeMap;

use outbox::{Event, Position, Txid};

use crate::plan::AREAS;

/// Keys from here on are those of events that every destination takes.
pub(crate) const FIRST_NEIGHBOUR: u64 = 1_000;

/// An event, whatever has become of its transaction.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) position: Position,
    pub(crate) key: String,
    pub(crate) area: &'static str,
    /// The event as it is read. Its payload is what was written.
    pub(crate) event: Event,
    pub(crate) fate: Fate,
    /// Whether every destination takes it.
    pub(crate) harmless: bool,
    /// When its transaction wrote it, by the database's clock.
    pub(crate) created_at: u64,
}

/// What has become of an event's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Committed,
    RolledBack,
    /// It was committed, and a crash of the database has lost it.
    Lost,
}

/// The table, and what happens to it.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Every event there ever was: its number is its identity.
    pub(crate) published: Vec<Published>,
    /// What is in the table, committed.
    pub(crate) rows: BTreeMap<Position, usize>,
    /// The transactions that still run, with the events of each.
    open: BTreeMap<u64, Vec<usize>>,
    next_txid: u64,
    next_seq: i64,
    /// The transactions whose commit is not on disk yet.
    unflushed: Vec<(u64, Vec<usize>)>,
    /// The first id that is given out again after a crash.
    flushed_txid: u64,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            published: Vec::new(),
            rows: BTreeMap::new(),
            open: BTreeMap::new(),
            next_txid: 700,
            next_seq: 1,
            unflushed: Vec::new(),
            flushed_txid: 700,
        }
    }
}

impl Outbox {
    /// Begins a transaction, which draws its id at once.
    pub(crate) fn begin(&mut self) -> u64 {
        let txid = self.next_txid;
        self.next_txid += 1;
        self.open.insert(txid, Vec::new());
        txid
    }

    /// Writes an event in a transaction. Does nothing if a crash has ended that.
    pub(crate) fn insert(&mut self, txid: u64, key: u64, area: usize, now: u64) {
        let Some(events) = self.open.get_mut(&txid) else {
            return;
        };
        let (number, position) = (self.published.len(), Position::new(txid, self.next_seq));
        self.next_seq += 1;
        let harmless = key >= FIRST_NEIGHBOUR;
        let (key, area) = (
            format!("k/{key}"),
            AREAS.get(area).copied().unwrap_or("order"),
        );
        // Digits that a detour through a number would change (OB-9).
        let payload = format!(
            r#"{{"id":"evt_{number}","type":"{area}.x","tenantId":"t","subject":"{key}","data":{{"n":{number}.10,"big":12345678901234567890{number}}}}}"#
        );
        self.published.push(Published {
            position,
            key,
            area,
            event: Event::new(position, format!("{area}.x"), payload),
            fate: Fate::Open,
            harmless,
            created_at: now,
        });
        events.push(number);
    }

    /// Commits a transaction, and returns its events. None if a crash has ended it.
    pub(crate) fn commit(&mut self, txid: u64, synchronous: bool) -> Vec<usize> {
        let Some(events) = self.open.remove(&txid) else {
            return Vec::new();
        };
        for number in &events {
            if let Some(event) = self.published.get_mut(*number) {
                event.fate = Fate::Committed;
                self.rows.insert(event.position, *number);
            }
        }
        self.unflushed.push((txid, events.clone()));
        if synchronous {
            self.flush();
        }
        events
    }

    pub(crate) fn roll_back(&mut self, txid: u64) {
        for number in self.open.remove(&txid).unwrap_or_default() {
            self.set_fate(number, Fate::RolledBack);
        }
    }

    /// A commit of somebody else that is on disk when it is answered, and everything
    /// before it. It takes a transaction id.
    pub(crate) fn flush_with_write(&mut self) {
        self.next_txid += 1;
        self.flush();
    }

    fn flush(&mut self) {
        self.unflushed.clear();
        self.flushed_txid = self.next_txid;
    }

    /// The database crashes: open transactions end, commits that were not on disk are
    /// lost, and their ids are given out again. Returns the lost events.
    pub(crate) fn crash(&mut self, loses_commits: bool) -> Vec<usize> {
        for txid in self.open.keys().copied().collect::<Vec<_>>() {
            self.roll_back(txid);
        }
        let unflushed = std::mem::take(&mut self.unflushed);
        if !loses_commits {
            self.flushed_txid = self.next_txid;
            return Vec::new();
        }
        self.next_txid = self.flushed_txid;
        let lost: Vec<usize> = unflushed.into_iter().flat_map(|(_, lost)| lost).collect();
        for number in &lost {
            if let Some(event) = self.published.get(*number) {
                self.next_seq = self.next_seq.min(event.position.seq);
                self.rows.remove(&event.position);
            }
            self.set_fate(*number, Fate::Lost);
        }
        lost
    }

    fn set_fate(&mut self, number: usize, fate: Fate) {
        if let Some(event) = self.published.get_mut(number) {
            event.fate = fate;
        }
    }

    /// All transactions below it have ended.
    pub(crate) fn horizon(&self) -> Txid {
        let oldest = self.open.keys().next().copied();
        Txid(oldest.unwrap_or(self.next_txid))
    }

    /// The last event below the horizon.
    pub(crate) fn newest(&self) -> Option<Position> {
        let above = Position::new(self.horizon().0, i64::MIN);
        let newest = self.rows.range(..above).next_back();
        newest.map(|(position, _)| *position)
    }

    /// The rows after one position and up to another.
    pub(crate) fn between(
        &self,
        after: Position,
        up_to: Position,
    ) -> impl DoubleEndedIterator<Item = (Position, usize)> {
        use std::ops::Bound::{Excluded, Included};
        let end = Included(up_to.max(after));
        let rows = self.rows.range((Excluded(after), end));
        rows.map(|(position, number)| (*position, *number))
            .filter(move |(position, _)| *position > after)
    }

    pub(crate) fn event(&self, number: usize) -> Option<&Published> {
        self.published.get(number)
    }
}

/// The number of an event, which its id ends with.
pub(crate) fn number_of(event: &Event) -> Option<usize> {
    event.id().strip_prefix("evt_")?.parse().ok()
}
