//! What becomes of a batch at a destination that stores its position with the data: one
//! transaction, which locks the row with the position, looks whether somebody newer has
//! written, leaves out what is there already, and stores the rest up to the first event
//! that is not taken, with the position of the last that is.

use outbox_sinks::{ErrorKind, Refusal, Verdict};

use super::{Arrival, Ending, undeliverable};
use crate::chance::Chance;
use crate::destination::Nature;
use crate::ledger::Taken;
use crate::world::{World, number_of};

impl Arrival {
    /// The batch arrives, perhaps after its sender has given up.
    pub(super) fn store(&mut self, world: &mut World) {
        if !self.verdicts.is_empty() {
            return;
        }
        if world.restores(self.sink) != self.restores {
            // The connection was cut.
            self.ending = Some(Ending::Fails(ErrorKind::Unavailable));
            return;
        }
        if world.outage(self.sink).is_none() {
            return self.transaction(world, false);
        }
        self.outage(world);
        if !self.verdicts.is_empty() {
            // Everything is refused, except for what is there already.
            self.verdicts.clear();
            self.transaction(world, true);
        } else if self.leaks && self.is_innocent(world) {
            // It was an answer that got lost.
            let ending = self.ending.take();
            self.transaction(world, false);
            self.ending = ending;
        }
    }

    fn is_innocent(&self, world: &World) -> bool {
        let mut numbers = self.batch.iter().filter_map(number_of);
        numbers.all(|number| world.nature(self.sink, number) == Nature::Innocent)
    }

    fn transaction(&mut self, world: &mut World, refuses_all: bool) {
        let stored = world.ledger(self.sink).and_then(|it| it.progress.clone());
        let done = match self.session.stored_up_to(stored.as_ref()) {
            Ok(done) => done,
            Err(error) => {
                world.count("writers that the destination fenced off");
                self.ending = Some(Ending::Fails(error.kind()));
                return;
            }
        };
        world.was_let_in(self.sink, &self.session);
        let fresh = self.batch.after(done);
        let there = self.batch.len() - fresh.as_ref().map_or(0, |fresh| fresh.len());
        if there > 0 {
            world.count("deliveries of what was stored already");
        }
        let (mut verdicts, mut taken) = (vec![Verdict::Delivered; there], Vec::new());
        for event in fresh.iter().flat_map(|fresh| fresh.iter()) {
            let Some(number) = number_of(event) else {
                break;
            };
            let verdict = match refuses_all {
                true => Verdict::Refused(Refusal::new("OUT", "everything is refused")),
                false => self.would_take(world, number),
            };
            let is_taken = verdict == Verdict::Delivered;
            verdicts.push(verdict);
            if !is_taken {
                break;
            }
            taken.push(Taken {
                number,
                position: event.position(),
                replay: event.replay() > 0,
            });
        }
        // What waits behind an event that was not taken is stored later.
        verdicts.resize(self.batch.len(), Verdict::Unconfirmed);
        self.verdicts = verdicts;
        // What came before a bad end may have been a transaction of its own.
        if self.ending.is_none() || self.chance.bool() {
            world.store(self.sink, &self.session, &taken, self.batch.is_apart());
        }
    }

    fn would_take(&mut self, world: &mut World, number: usize) -> Verdict {
        match world.meets(self.sink, number) {
            Nature::Undeliverable => undeliverable(),
            Nature::Poison(poison) => self.poison(world, number, poison),
            Nature::Innocent if self.chance.happens(self.partial) => self.unconfirmed(world),
            Nature::Innocent => Verdict::Delivered,
        }
    }
}
