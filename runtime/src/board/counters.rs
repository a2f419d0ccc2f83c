//! What counts: families of counters, and each sink's own of them.
//!
//! A sink's counters exist from the start, at zero, so that the first increase is seen as
//! one. Counting is an atomic addition.

use std::collections::BTreeMap;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::state::{CLOSED_BY, Outcome};
use crate::feed::ClosedBy;

/// The label of what is told of each sink.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfSink {
    /// Its name.
    pub sink: String,
}

/// The labels of deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfOutcome {
    /// The sink's name.
    pub sink: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// The labels of batches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfClosing {
    /// The sink's name.
    pub sink: String,
    /// Why it was closed.
    pub closed_by: ClosedBy,
}

/// What counts in a process.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Events that destinations have acknowledged.
    pub delivered_events: Family<OfSink, Counter>,
    /// The bytes of their payloads.
    pub delivered_payload: Family<OfSink, Counter>,
    /// Replays whose delivery was written down.
    pub delivered_replays: Family<OfSink, Counter>,
    /// Events that became dead letters.
    pub dead_letters: Family<OfSink, Counter>,
    /// Attempts at a delivery.
    pub deliveries: Family<OfOutcome, Counter>,
    /// How long a destination took to answer.
    pub delivery_duration: Histograms,
    /// How large batches were as they were read.
    pub batch_events: Histograms,
    /// What closed them.
    pub batches: Family<OfClosing, Counter>,
    /// Written moves of cursors.
    pub cursor_saves: Family<OfSink, Counter>,
    /// Looks at the head.
    pub head_polls: Counter,
    /// Those that the database did not answer.
    pub head_poll_failures: Counter,
    /// Rows of the outbox that retention deleted.
    pub retention_deleted_rows: Counter,
}

/// A family of histograms, which know their bounds.
pub type Histograms = Family<OfSink, Histogram, fn() -> Histogram>;

/// From half a millisecond to an hour, the longest deadline there is.
fn seconds() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
        60.0, 300.0, 3600.0,
    ])
}

fn events() -> Histogram {
    Histogram::new([
        1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1e3, 5e3, 1e4, 5e4, 1e5, 5e5,
    ])
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            delivered_events: Family::default(),
            delivered_payload: Family::default(),
            delivered_replays: Family::default(),
            dead_letters: Family::default(),
            deliveries: Family::default(),
            delivery_duration: Family::new_with_constructor(seconds),
            batch_events: Family::new_with_constructor(events),
            batches: Family::default(),
            cursor_saves: Family::default(),
            head_polls: Counter::default(),
            head_poll_failures: Counter::default(),
            retention_deleted_rows: Counter::default(),
        }
    }
}

/// One sink's counters.
#[derive(Debug)]
pub(super) struct SinkCounters {
    pub(super) delivered_events: Counter,
    pub(super) delivered_payload: Counter,
    pub(super) delivered_replays: Counter,
    pub(super) dead_letters: Counter,
    pub(super) delivery_duration: Histogram,
    pub(super) batch_events: Histogram,
    pub(super) cursor_saves: Counter,
    deliveries: BTreeMap<Outcome, Counter>,
    batches: Vec<(ClosedBy, Counter)>,
}

impl Counters {
    pub(super) fn of_sink(&self, sink: &str) -> SinkCounters {
        let (name, label) = (
            || sink.to_owned(),
            OfSink {
                sink: sink.to_owned(),
            },
        );
        let of = |family: &Family<OfSink, Counter>| family.get_or_create_owned(&label);
        let deliveries = Outcome::ALL.map(|outcome| {
            let label = OfOutcome {
                sink: name(),
                outcome,
            };
            (outcome, self.deliveries.get_or_create_owned(&label))
        });
        let batches = CLOSED_BY.map(|closed_by| {
            let label = OfClosing {
                sink: name(),
                closed_by,
            };
            (closed_by, self.batches.get_or_create_owned(&label))
        });
        SinkCounters {
            delivered_events: of(&self.delivered_events),
            delivered_payload: of(&self.delivered_payload),
            delivered_replays: of(&self.delivered_replays),
            dead_letters: of(&self.dead_letters),
            delivery_duration: self.delivery_duration.get_or_create_owned(&label),
            batch_events: self.batch_events.get_or_create_owned(&label),
            cursor_saves: of(&self.cursor_saves),
            deliveries: deliveries.into(),
            batches: batches.into(),
        }
    }
}

impl SinkCounters {
    pub(super) fn delivery(&self, outcome: Outcome) {
        if let Some(counter) = self.deliveries.get(&outcome) {
            counter.inc();
        }
    }

    pub(super) fn batch(&self, closed_by: ClosedBy) {
        if let Some((_, counter)) = self.batches.iter().find(|(by, _)| *by == closed_by) {
            counter.inc();
        }
    }
}
