//! A destination that stores its position with the data: what is there, and what it may be
//! restored to. Whatever is written to it is written in one transaction.

use fastrand::Rng;
use outbox::Position;
use outbox_sinks::{Progress, Session};

use crate::world::World;

/// How many of the last transactions a restored destination may lack.
const RESTORED: usize = 6;

/// The tables of such a destination.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) rows: Vec<Row>,
    pub(crate) progress: Option<Progress>,
    /// After each transaction: how many rows there were, and the progress.
    backups: Vec<(usize, Option<Progress>)>,
    /// How often it was restored: connections from before that are cut.
    pub(crate) restores: u64,
}

/// An event that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) number: usize,
    /// That of the flow in which it was delivered.
    pub(crate) generation: i64,
    /// Whether no position covers it.
    pub(crate) apart: bool,
}

/// An event that a transaction stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) number: usize,
    pub(crate) position: Position,
    pub(crate) replay: bool,
}

impl Ledger {
    /// Goes back to an older state. Returns what is gone.
    fn restore(&mut self, rng: &mut Rng) -> Vec<Row> {
        self.restores += 1;
        let back = rng.usize(1..=RESTORED);
        self.backups
            .truncate(self.backups.len().saturating_sub(back));
        let (rows, progress) = self.backups.last().cloned().unwrap_or_default();
        self.progress = progress;
        self.rows.split_off(rows.min(self.rows.len()))
    }
}

impl World {
    pub(crate) fn stores_position(&self, sink: usize) -> bool {
        let plan = self.plan.sinks.get(sink);
        plan.is_some_and(|plan| plan.stores_position)
    }

    pub(crate) fn ledger(&self, sink: usize) -> Option<&Ledger> {
        let destination = self.destinations.get(sink)?;
        self.stores_position(sink).then_some(&destination.ledger)
    }

    /// How often a destination was restored.
    pub(crate) fn restores(&self, sink: usize) -> u64 {
        self.ledger(sink).map_or(0, |ledger| ledger.restores)
    }

    /// A transaction at a destination commits: the events, and how far it has come.
    pub(crate) fn store(&mut self, sink: usize, session: &Session, taken: &[Taken], apart: bool) {
        let Some(last) = taken.last() else { return };
        let progress = session.progress(last.position);
        for it in taken {
            let row = Row {
                number: it.number,
                generation: progress.flow().generation(),
                apart,
            };
            self.is_stored(sink, row);
            self.became_durable(sink, it.number, it.replay);
            if let Some(destination) = self.destinations.get_mut(sink) {
                destination.ledger.rows.push(row);
            }
        }
        let name = self.sink_name(sink).to_owned();
        self.log(|| format!("  {name} stores {taken:?}, apart {apart}"));
        if let Some(destination) = self.destinations.get_mut(sink) {
            let ledger = &mut destination.ledger;
            if !apart {
                ledger.progress = Some(progress);
            }
            let backup = (ledger.rows.len(), ledger.progress.clone());
            ledger.backups.push(backup);
        }
    }

    /// A destination is restored from an older state.
    pub(crate) fn restore(&mut self, sink: usize, lot: u64) {
        if !self.stores_position(sink) {
            return;
        }
        let mut rng = Rng::with_seed(lot);
        let Some(destination) = self.destinations.get_mut(sink) else {
            return;
        };
        let lost = destination.ledger.restore(&mut rng);
        let progress = destination.ledger.progress.clone();
        let name = self.sink_name(sink).to_owned();
        self.log(|| format!("{name} is restored to {progress:?}, without {lost:?}"));
        self.has_lost(sink, &lost);
    }
}
