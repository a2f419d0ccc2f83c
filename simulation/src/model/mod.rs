//! The model: an independent witness of OB-1 to OB-9, and of destinations that get each
//! event exactly once.
//!
//! It knows what has become durable at the destinations, what was committed to the
//! tables, and how the world truly is: who is poison, and when there was an outage. It
//! shares nothing with what the loop decides by. Where it can't be exact it asks for what
//! is necessary, so that what it reports is a fault.

mod cursor;
mod delivery;
mod exactly_once;
mod letters;
mod quiet;

use std::collections::{BTreeMap, VecDeque};

pub(crate) use self::delivery::Told;
use self::exactly_once::Account;
pub(crate) use self::exactly_once::asks_for_a_seek;

use outbox::Position;

/// What the model remembers of all sinks.
#[derive(Debug)]
pub(crate) struct Model {
    /// Counts what happens: an order of all events in the world.
    step: u64,
    pub(crate) sinks: Vec<Witness>,
}

/// What the model remembers of one sink.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// By the number of the event.
    seen: Vec<Seen>,
    /// What became durable in the normal flow: when, and which event.
    durable: Vec<(u64, usize)>,
    /// Frozen ranges that were begun, by their first event.
    begun: BTreeMap<Position, Begun>,
    /// The deliveries that did not get everything through, by time.
    pub(crate) useless: VecDeque<u64>,
    /// Replays that became durable, and were settled as delivered.
    replayed: BTreeMap<usize, u32>,
    /// If the destination stores its position.
    account: Account,
}

/// A frozen range that was begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    last: Position,
    /// Whether its sink was told that it failed: then it may be cut, or put together with
    /// what follows.
    failed: bool,
    /// Whether its holder has vanished: then it may be cut.
    abandoned: bool,
}

/// What the model has seen of one event at one sink.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// When it became durable the first and the last time.
    first_durable: Option<u64>,
    durable: Option<u64>,
    /// When it went to the dead letters the last time.
    buried: Option<u64>,
    /// When an operator moved the cursor past it.
    skipped: Option<u64>,
    /// When an operator moved the cursor back before it.
    since: u64,
    /// How often its sink was told that it failed alone.
    failures: u32,
    last_failure: u64,
    /// How often the destination refused it for its own sake.
    own_sake: u32,
    /// How often a lease was left behind while it alone was in hand.
    deaths: u32,
    /// When failures and deaths together reached what the settings ask for.
    used_up: Option<u64>,
    /// The successor of its own key that was delivered ahead of it.
    probed_by: Option<usize>,
    /// Whether it could never be sent when it was tried the last time.
    undeliverable: bool,
}

impl Seen {
    /// Whether the cursor may pass it: it is durable, a dead letter or skipped, after the
    /// last time that the cursor was moved back before it.
    fn is_settled(&self) -> bool {
        [self.durable, self.buried, self.skipped]
            .into_iter()
            .flatten()
            .any(|at| at >= self.since)
    }

    /// Whether an event of its key may follow it.
    fn is_out_of_the_way(&self) -> bool {
        self.first_durable.is_some() || self.buried.is_some() || self.skipped.is_some()
    }
}

impl Model {
    pub(crate) fn new(sinks: usize) -> Self {
        Self {
            step: 0,
            sinks: (0..sinks).map(|_| Witness::default()).collect(),
        }
    }

    const fn step(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    fn seen(&self, sink: usize, number: usize) -> Seen {
        let witness = self.sinks.get(sink);
        let seen = witness.and_then(|witness| witness.seen.get(number));
        seen.copied().unwrap_or_default()
    }

    /// What was seen of an event, to be changed. For a sink that exists.
    fn note(&mut self, sink: usize, number: usize, note: impl FnOnce(&mut Seen)) {
        let Some(witness) = self.sinks.get_mut(sink) else {
            return;
        };
        if witness.seen.len() <= number {
            witness.seen.resize(number + 1, Seen::default());
        }
        if let Some(seen) = witness.seen.get_mut(number) {
            note(seen);
        }
    }
}
