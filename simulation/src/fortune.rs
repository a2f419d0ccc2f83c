//! What will come of a delivery, apart from what the destination itself makes of it.

use outbox_sinks::{Batch, ErrorKind};

use crate::arrival::Ending;
use crate::chance::Chance;
use crate::sink::SimulatedConnector;
use crate::world::{World, number_of};

/// How a delivery fares on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fortune {
    /// How long it takes to arrive.
    pub(crate) before: u64,
    /// How many events arrive first.
    pub(crate) first_part: usize,
    /// How long after them the others come.
    pub(crate) between: u64,
    /// How long the answer takes.
    pub(crate) after: u64,
    pub(crate) fate: Fate,
    /// How likely each event is not to be confirmed.
    pub(crate) partial: f64,
    /// Whether an outage lets some of it through before it shows.
    pub(crate) leaks: bool,
    /// Numbers for whatever the destination decides by lot.
    pub(crate) lot: u64,
}

/// What happens to a delivery for no reason of the events'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Works,
    /// Nothing arrives, and this is the answer.
    Fails(Ending),
    /// All of it arrives, and this is the answer.
    LosesAnswer(Ending),
}

impl Fortune {
    /// Draws a delivery's fortune. Two kinds of delivery are spared some of it:
    ///
    /// - An event that may be innocent and has been blamed before is spared what could be
    ///   held against it once more: to lose one after the other by bad luck is what
    ///   nobody can tell from being poison.
    /// - An event that is tried ahead of its turn is spared a failure that is none: a
    ///   sink that says `Failed` of what has become durable leaves no way to keep both
    ///   OB-4 and OB-6.
    pub(crate) fn draw(
        world: &mut World,
        to: &SimulatedConnector,
        batch: &Batch,
        deadline: u64,
    ) -> Self {
        let (rates, calm) = (world.plan.rates, world.calm);
        let latency = world
            .plan
            .sinks
            .get(to.sink)
            .map_or(3, |plan| plan.latency_ms);
        let alone = (batch.len() == 1)
            .then(|| number_of(batch.first()))
            .flatten();
        let ahead = batch.is_apart() && batch.first().replay() == 0;
        let locks = world.stores_position(to.sink);
        let spared = ahead || alone.is_some_and(|number| world.was_blamed(to.sink, number));
        let mut fortune = Self {
            before: 0,
            first_part: 0,
            between: 0,
            after: 1,
            fate: Fate::Works,
            partial: 0.0,
            leaks: false,
            lot: 0,
        };
        let Some(process) = world.processes.get_mut(to.process) else {
            return fortune;
        };
        let chance = &mut process.chance;
        fortune.lot = chance.u64(..);
        fortune.before = chance.millis(0, latency);
        fortune.after = chance.millis(1, latency);
        fortune.first_part = chance.usize(0..=batch.len());
        if chance.happens(0.3) {
            fortune.between = chance.millis(1, latency);
        }
        if calm {
            return fortune;
        }
        let ending = ending(chance, spared);
        if chance.happens(rates.transient) {
            fortune.fate = Fate::Fails(ending);
        } else if chance.happens(rates.lost_delivery) {
            fortune.fate = Fate::LosesAnswer(ending);
        }
        if chance.happens(rates.slow_delivery) && !spared {
            let whole = chance.bool();
            let slow = chance.millis(deadline / 2, deadline + 2_000);
            *(if whole {
                &mut fortune.before
            } else {
                &mut fortune.after
            }) = slow;
        }
        if locks && chance.happens(0.2 * rates.late_delivery) && !spared {
            // It waits for a lock, and may still get it when nobody waits for it any more.
            (fortune.before, fortune.fate) = (deadline + 1_000, Fate::Works);
        }
        if chance.happens(0.5) {
            fortune.partial = rates.partial;
        }
        fortune.leaks = chance.happens(2.0 * rates.lost_delivery) && !ahead;
        fortune
    }
}

fn ending(chance: &mut fastrand::Rng, spared: bool) -> Ending {
    let endings = [
        Ending::Fails(ErrorKind::Unavailable),
        Ending::Fails(ErrorKind::Unavailable),
        Ending::Fails(ErrorKind::Failed),
        Ending::Fails(ErrorKind::Misconfigured),
        Ending::Miscounts,
        Ending::Panics,
        Ending::Hangs,
    ];
    let drawn = *chance.choice(&endings).unwrap_or(&Ending::Hangs);
    if spared {
        Ending::Fails(ErrorKind::Unavailable)
    } else {
        drawn
    }
}
