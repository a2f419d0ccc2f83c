//! What the model checks at the destinations: OB-4, OB-5, OB-8 and OB-9.

use outbox::{Event, Position, sink_lease};
use outbox_sinks::Batch;

use super::Begun;
use crate::destination::Nature;
use crate::world::{Fate, World, number_of};

/// The time over which deliveries are counted that come to nothing.
const USELESS_WINDOW: u64 = 10_000;

/// What the loop was told about a delivery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// It may hold the answer against the event, if that was alone.
    pub(crate) blames: bool,
    /// Everything got through.
    pub(crate) all: bool,
}

impl World {
    /// A delivery begins.
    pub(crate) fn delivery_begins(&mut self, sink: usize, token: i64, batch: &Batch) {
        for event in batch {
            self.is_itself(event, "a delivered event");
            self.may_be_read(sink, event);
        }
        let positions = batch.iter().map(Event::position);
        if !positions.is_sorted() {
            self.violated("OB-4", "a batch is not in the outbox's order");
        }
        let newest = self.cursor(sink).is_some_and(|row| row.token == token);
        if self.is_frozen(sink) && !batch.is_apart() && newest {
            self.frozen_begins(sink, batch);
        }
    }

    /// Only what is committed and below the horizon is delivered.
    fn may_be_read(&mut self, sink: usize, event: &Event) {
        let Some(number) = number_of(event) else {
            return;
        };
        let (fate, horizon) = (
            self.outbox.event(number).map(|it| it.fate),
            self.outbox.horizon(),
        );
        let above = event.position().txid >= horizon && !self.may_lose_commits();
        let readable = match fate {
            Some(Fate::Committed) => !above,
            Some(Fate::Lost) => true,
            Some(Fate::Open | Fate::RolledBack) | None => false,
        };
        if !readable {
            let seen = format!("{event:?} is delivered, is {fate:?}, and the horizon is {horizon}");
            self.violated("OB-5", seen);
        }
        if !self.takes(sink, number) {
            let name = self.sink_name(sink).to_owned();
            let seen = format!("evt_{number} is delivered to {name}, whose filter leaves it out");
            self.violated("OB-1", seen);
        }
    }

    /// A frozen range begins: it is the one that is written down (OB-8).
    fn frozen_begins(&mut self, sink: usize, batch: &Batch) {
        let Some(row) = self.cursor(sink) else { return };
        let (at, in_hand) = (row.position, row.in_hand);
        let (first, last) = (batch.first().position(), batch.end());
        let name = self.sink_name(sink).to_owned();
        let Some(in_hand) = in_hand else {
            let seen = format!("{name} begins with {first} to {last}, and nothing is written down");
            return self.violated("OB-8", seen);
        };
        let numbers: Vec<usize> = batch.iter().filter_map(number_of).collect();
        let missing = self.outbox.between(at, in_hand.max(last)).find(|(_, it)| {
            let open = self.takes(sink, *it) && !self.model.seen(sink, *it).is_settled();
            open && !numbers.contains(it)
        });
        if last > in_hand || missing.is_some() {
            let seen = format!(
                "{name} begins with {first} to {last}, and {in_hand} is written down; missing: {missing:?}"
            );
            self.violated("OB-8", seen);
        }
        self.comes_again(sink, first, last);
    }

    /// A range that begins where another one began is the same, or was cut for a reason.
    fn comes_again(&mut self, sink: usize, first: Position, last: Position) {
        let Some(witness) = self.model.sinks.get_mut(sink) else {
            return;
        };
        let new = Begun {
            last,
            failed: false,
            abandoned: false,
        };
        let Some(old) = witness.begun.insert(first, new) else {
            return;
        };
        if let Some(begun) = witness.begun.get_mut(&first) {
            (begun.failed, begun.abandoned) = (old.failed, old.abandoned);
        }
        let (grows, shrinks) = (last > old.last, last < old.last);
        if !old.failed && (grows || (shrinks && !old.abandoned)) {
            let before = old.last;
            let seen = format!("the range from {first} went to {before}, and now goes to {last}");
            self.violated("OB-8", seen);
        }
        self.count("frozen ranges again");
    }

    /// An event became durable at a destination.
    pub(crate) fn became_durable(&mut self, sink: usize, number: usize, replay: bool) {
        let step = self.model.step();
        let Some(witness) = self.model.sinks.get_mut(sink) else {
            return;
        };
        if replay {
            *witness.replayed.entry(number).or_default() += 1;
            return;
        }
        witness.durable.push((step, number));
        self.keeps_order(sink, number);
        self.model.note(sink, number, |seen| {
            seen.first_durable.get_or_insert(step);
            seen.durable = Some(step);
        });
    }

    /// An event's predecessors of the same key are out of the way (OB-4).
    fn keeps_order(&mut self, sink: usize, number: usize) {
        let Some(event) = self.outbox.event(number) else {
            return;
        };
        if event.fate == Fate::Lost {
            // It comes from a history that is no more, and has no predecessors in this one.
            return;
        }
        let position = event.position;
        let row = self.cursor(sink);
        let (at, probe) = row.map_or((Position::BEGINNING, None), |row| {
            (row.position, row.probe())
        });
        let before: Vec<_> = self.outbox.between(at, position).collect();
        for (earlier, other) in before.into_iter().filter(|(it, _)| *it < position) {
            if !self.takes(sink, other) || !self.same_key(sink, other, number) {
                continue;
            }
            if probe == Some((earlier, position)) {
                self.count("probes taken");
                self.model
                    .note(sink, other, |seen| seen.probed_by = Some(number));
                continue;
            }
            let undeliverable = self.nature(sink, other) == Nature::Undeliverable;
            if self.model.seen(sink, other).is_out_of_the_way() || undeliverable {
                continue;
            }
            let name = self.sink_name(sink).to_owned();
            let seen =
                format!("evt_{number} is durable at {name} before its predecessor evt_{other}");
            self.violated("OB-4", seen);
        }
        let seen = self.model.seen(sink, number);
        let first = seen.first_durable.is_none();
        if let Some(successor) = seen.probed_by.filter(|_| first) {
            let seen =
                format!("evt_{number} is durable after its successor evt_{successor}, the probe");
            self.violated("OB-4", seen);
        }
    }

    /// The destination would not take an event, and it was the event's own fault.
    pub(crate) fn refused_for_its_own_sake(&mut self, sink: usize, number: usize) {
        self.model.note(sink, number, |seen| seen.own_sake += 1);
        self.count("poison met");
    }

    /// The loop was told what a delivery came to.
    pub(crate) fn was_told(&mut self, sink: usize, batch: &Batch, told: Told) {
        let (now, step, wanted) = (self.now(), self.model.step(), self.attempts(sink));
        if !told.all {
            self.was_useless(sink, now);
            if let Some(witness) = self.model.sinks.get_mut(sink)
                && let Some(begun) = witness.begun.get_mut(&batch.first().position())
            {
                begun.failed = true;
            }
        }
        let alone = batch.len() == 1 && !batch.is_apart();
        if let Some(number) = number_of(batch.first()).filter(|_| alone && told.blames) {
            self.model.note(sink, number, |seen| {
                seen.failures += 1;
                seen.last_failure = step;
                if seen.failures + seen.deaths >= wanted {
                    seen.used_up.get_or_insert(step);
                }
            });
        }
    }

    /// Deliveries that get nothing done must not come one after the other without pause.
    fn was_useless(&mut self, sink: usize, now: u64) {
        let Some(settings) = self.plan.sinks.get(sink).map(|plan| &plan.settings) else {
            return;
        };
        let initial = crate::world::millis(settings.retry.initial).max(1);
        let most = settings.batch.max_events.unwrap_or(1);
        let each = u64::from(usize::BITS - most.leading_zeros()) + 2;
        let limit = 20 + 2 * each * (USELESS_WINDOW / initial + 1);
        let Some(witness) = self.model.sinks.get_mut(sink) else {
            return;
        };
        witness.useless.push_back(now);
        while witness
            .useless
            .front()
            .is_some_and(|at| at + USELESS_WINDOW < now)
        {
            witness.useless.pop_front();
        }
        let useless = u64::try_from(witness.useless.len()).unwrap_or(u64::MAX);
        if useless > limit {
            let lease = sink_lease(self.sink_name(sink));
            let seen = format!("{useless} failed deliveries under {lease} in {USELESS_WINDOW} ms");
            self.violated("useless work", seen);
        }
    }

    /// Whether an event that may be innocent was blamed before: see `Fortune`.
    pub(crate) fn was_blamed(&self, sink: usize, number: usize) -> bool {
        let seen = self.model.seen(sink, number);
        seen.failures + seen.deaths > 0 && seen.own_sake == 0
    }

    /// Whether a sink has an event under suspicion that may be innocent.
    pub(crate) fn suspects_innocent(&self, sink: usize) -> bool {
        let at = self
            .cursor(sink)
            .map_or(Position::BEGINNING, |row| row.position);
        let mut open = self.outbox.rows.range(at..).map(|(_, number)| *number);
        open.any(|number| self.was_blamed(sink, number))
    }
}
