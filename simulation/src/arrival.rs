//! What a destination makes of a batch: which events become durable there, and which
//! answer that gives. Keeps what the contract asks of every sink: within one key,
//! nothing becomes durable before its predecessor.

mod transaction;

use fastrand::Rng;
use outbox_sinks::{Batch, Delivery, ErrorKind, Refusal, Session, Verdict};

use crate::chance::Chance;
use crate::destination::{Nature, OutageKind, Poison};
use crate::fortune::{Fate, Fortune};
use crate::world::{World, number_of};

/// How a delivery ends that has no verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Fails(ErrorKind),
    /// It gives too few verdicts.
    Miscounts,
    Panics,
    Hangs,
    /// The process dies.
    Kills,
}

/// A batch on its way to a destination.
#[derive(Debug)]
pub(crate) struct Arrival {
    sink: usize,
    session: Session,
    /// How often the destination was restored when the sink was opened.
    restores: u64,
    batch: Batch,
    chance: Rng,
    partial: f64,
    leaks: bool,
    /// Whether none of it will arrive.
    lost: bool,
    verdicts: Vec<Verdict>,
    /// The events that did not become durable: nothing of their keys may follow.
    held_up: Vec<usize>,
    ending: Option<Ending>,
}

impl Arrival {
    pub(crate) fn new(
        (sink, session, restores): (usize, &Session, u64),
        batch: &Batch,
        fortune: &Fortune,
    ) -> Self {
        let ending = match fortune.fate {
            Fate::Fails(ending) => Some(ending),
            Fate::Works | Fate::LosesAnswer(_) => None,
        };
        Self {
            sink,
            session: session.clone(),
            restores,
            batch: batch.clone(),
            chance: Rng::with_seed(fortune.lot),
            partial: fortune.partial,
            leaks: fortune.leaks,
            lost: ending.is_some(),
            verdicts: Vec::new(),
            held_up: Vec::new(),
            ending,
        }
    }

    pub(crate) const fn batch(&self) -> &Batch {
        &self.batch
    }

    pub(crate) const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The answer, whatever was done.
    pub(crate) const fn end(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    /// Whether what was sent may still arrive once the sender has given up.
    pub(crate) const fn may_come_late(&self) -> bool {
        !self.lost && self.ending.is_none()
    }

    pub(crate) fn delivery(&self) -> Delivery {
        Delivery::from_verdicts(self.verdicts.clone())
    }

    pub(crate) fn miscounted(&self) -> Delivery {
        let verdicts = vec![Verdict::Delivered; self.batch.len() - 1];
        Delivery::Each(verdicts)
    }

    /// Whether the answer can be held against the first event.
    pub(crate) fn blames(&self, delivery: &Delivery) -> bool {
        let Delivery::Each(verdicts) = delivery else {
            return false;
        };
        let miscounted = verdicts.len() != self.batch.len();
        miscounted || matches!(verdicts.first(), Some(Verdict::Refused(_)))
    }

    /// Lets the first `events` that have not arrived yet arrive, or as many as there are.
    pub(crate) fn happen(&mut self, world: &mut World, events: usize) {
        if self.ending.is_some() {
            return;
        }
        if world.is_fenced(self.sink, self.session.token) {
            self.ending = Some(Ending::Fails(ErrorKind::Fenced));
            return;
        }
        if world.is_frozen(self.sink) {
            // The whole range is one thing, which is there or is not.
            if events == usize::MAX {
                self.whole(world);
            }
            return;
        }
        if world.stores_position(self.sink) {
            // One transaction, which commits or does not.
            if events == usize::MAX {
                self.store(world);
            }
            return;
        }
        self.outage(world);
        let arrived = self.verdicts.len();
        let batch = self.batch.clone();
        for event in batch.iter().skip(arrived).take(events) {
            if self.ending.is_some() {
                return;
            }
            let verdict = match number_of(event) {
                Some(number) => self.one(world, number, event.replay() > 0),
                None => Verdict::Unconfirmed,
            };
            self.verdicts.push(verdict);
        }
    }

    /// What an outage makes of what has not arrived yet.
    fn outage(&mut self, world: &mut World) {
        let Some(kind) = world.outage(self.sink) else {
            return;
        };
        let looks = [
            OutageKind::Unavailable,
            OutageKind::Failed,
            OutageKind::Refused,
            OutageKind::Misconfigured,
            OutageKind::Hang,
        ];
        let kind = match kind {
            OutageKind::Mixed => *self.chance.choice(&looks).unwrap_or(&OutageKind::Failed),
            other => other,
        };
        let apart = world.is_frozen(self.sink) || world.stores_position(self.sink);
        if self.leaks && !apart && kind != OutageKind::Refused {
            // It was an answer that got lost.
            if let Some(number) = self.batch.get(self.verdicts.len()).and_then(number_of)
                && world.nature(self.sink, number) == Nature::Innocent
                && !self.waits(world, number)
            {
                let replay = self.batch.first().replay() > 0;
                world.became_durable(self.sink, number, replay);
            }
        }
        self.ending = Some(match kind {
            OutageKind::Unavailable => Ending::Fails(ErrorKind::Unavailable),
            OutageKind::Misconfigured => Ending::Fails(ErrorKind::Misconfigured),
            OutageKind::Hang => Ending::Hangs,
            OutageKind::Refused if world.gives_verdicts(self.sink) => {
                let refused = || Verdict::Refused(Refusal::new("OUT", "everything is refused"));
                self.verdicts.resize_with(self.batch.len(), refused);
                return;
            }
            OutageKind::Failed | OutageKind::Refused | OutageKind::Mixed => {
                Ending::Fails(ErrorKind::Failed)
            }
        });
    }

    /// One event arrives.
    fn one(&mut self, world: &mut World, number: usize, replay: bool) -> Verdict {
        if self.waits(world, number) {
            return Verdict::Unconfirmed;
        }
        match world.meets(self.sink, number) {
            Nature::Undeliverable => undeliverable(),
            Nature::Poison(poison) => {
                self.held_up.push(number);
                self.poison(world, number, poison)
            }
            Nature::Innocent if self.chance.happens(self.partial) => {
                if self.chance.bool() {
                    world.became_durable(self.sink, number, replay);
                } else {
                    self.held_up.push(number);
                }
                self.unconfirmed(world)
            }
            Nature::Innocent => {
                world.became_durable(self.sink, number, replay);
                Verdict::Delivered
            }
        }
    }

    /// Whether an event has to wait for one of its key that did not become durable.
    fn waits(&self, world: &World, number: usize) -> bool {
        let mut held_up = self.held_up.iter();
        held_up.any(|it| world.same_key(self.sink, *it, number))
    }

    fn unconfirmed(&mut self, world: &World) -> Verdict {
        if !world.gives_verdicts(self.sink) {
            self.ending = Some(Ending::Fails(ErrorKind::Unavailable));
        }
        Verdict::Unconfirmed
    }

    /// What a poison event does.
    fn poison(&mut self, world: &mut World, number: usize, poison: Poison) -> Verdict {
        world.refused_for_its_own_sake(self.sink, number);
        self.ending = match poison {
            Poison::Refused if world.gives_verdicts(self.sink) => {
                return Verdict::Refused(Refusal::new("POISON", "this one is not taken"));
            }
            Poison::Refused => Some(Ending::Fails(ErrorKind::Failed)),
            Poison::Panics => Some(Ending::Panics),
            Poison::Hangs => Some(Ending::Hangs),
            Poison::Kills => Some(Ending::Kills),
        };
        Verdict::Unconfirmed
    }

    /// A frozen range arrives: all of it, except what can never be sent, or nothing.
    fn whole(&mut self, world: &mut World) {
        self.outage(world);
        if self.ending.is_some() || self.verdicts.len() == self.batch.len() {
            return;
        }
        let batch = self.batch.clone();
        let numbers: Vec<usize> = batch.iter().filter_map(number_of).collect();
        let mut verdicts = vec![Verdict::Delivered; numbers.len()];
        for (number, verdict) in numbers.iter().zip(&mut verdicts) {
            match world.meets(self.sink, *number) {
                Nature::Innocent => {}
                Nature::Undeliverable => *verdict = undeliverable(),
                Nature::Poison(poison) => {
                    *verdict = self.poison(world, *number, poison);
                    let mut others = vec![Verdict::Unconfirmed; numbers.len()];
                    if let Some(place) = numbers.iter().position(|it| it == number)
                        && let Some(other) = others.get_mut(place)
                    {
                        other.clone_from(verdict);
                    }
                    self.verdicts = others;
                    return;
                }
            }
        }
        if self.chance.happens(self.partial) {
            self.ending = Some(Ending::Fails(ErrorKind::Unavailable));
            if self.chance.bool() {
                return;
            }
        }
        for (number, verdict) in numbers.iter().zip(&verdicts) {
            if *verdict == Verdict::Delivered {
                world.became_durable(self.sink, *number, batch.first().replay() > 0);
            }
        }
        self.verdicts = verdicts;
    }
}

fn undeliverable() -> Verdict {
    Verdict::Undeliverable(Refusal::new("TOO_LARGE", "this can never be sent"))
}

impl World {
    pub(crate) fn fences(&self, sink: usize) -> bool {
        self.plan.sinks.get(sink).is_some_and(|plan| plan.fences)
    }

    fn gives_verdicts(&self, sink: usize) -> bool {
        self.plan.sinks.get(sink).is_some_and(|plan| plan.verdicts)
    }

    /// Whether a destination has seen a newer owner, and minds.
    fn is_fenced(&self, sink: usize, token: i64) -> bool {
        let destination = self.destinations.get(sink);
        self.fences(sink) && destination.is_some_and(|it| token < it.newest_token)
    }
}
