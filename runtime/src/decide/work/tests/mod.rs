//! A destination with fixed fates, and work done on it.

mod batches;
mod deaths;
mod trials;

use std::collections::{BTreeMap, BTreeSet};

use outbox::Event;
use outbox_sinks::{Delivery, ErrorKind, Refusal, Verdict, from_fn};

use super::*;

const ATTEMPTS: u32 = 5;

fn event(seq: i64, key: usize) -> Event {
    let payload = format!(r#"{{"id":"evt_{seq}","type":"a.b","subject":"key/{key}"}}"#);
    Event::new(at(seq), "a.b", payload)
}

const fn at(seq: i64) -> Position {
    Position::new(1, seq)
}

/// Events 1, 2, 3 … of these keys.
fn batch(keys: &[usize]) -> Batch {
    let events = (1..).zip(keys).map(|(seq, key)| event(seq, *key));
    Batch::new(events.collect::<Vec<_>>()).unwrap()
}

fn refusal() -> Refusal {
    Refusal::new("NO", "no")
}

/// What a destination does with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    /// Refused by itself, for ever.
    Refused,
    /// The whole delivery fails.
    Fails,
    Undeliverable,
}

/// A destination with fixed fates, and what happened to it.
struct World {
    fates: Vec<Fate>,
    deliveries: Vec<Vec<i64>>,
    delivered: BTreeSet<i64>,
    dead: BTreeMap<i64, DeadLetter>,
    cursor: Position,
    pauses: usize,
}

impl World {
    fn new(fates: &[Fate]) -> Self {
        Self {
            fates: fates.to_vec(),
            deliveries: Vec::new(),
            delivered: BTreeSet::new(),
            dead: BTreeMap::new(),
            cursor: at(0),
            pauses: 0,
        }
    }

    fn fate(&self, event: &Event) -> Fate {
        self.fates[usize::try_from(event.position().seq).unwrap() - 1]
    }

    fn attempt(&mut self, batch: &Batch) -> Attempt {
        self.deliveries
            .push(batch.iter().map(|event| event.position().seq).collect());
        if batch.iter().any(|event| self.fate(event) == Fate::Fails) {
            return Err(SinkError::failed("no idea"));
        }
        let verdicts = batch.iter().map(|event| match self.fate(event) {
            Fate::Refused => Verdict::Refused(refusal()),
            Fate::Undeliverable => Verdict::Undeliverable(refusal()),
            Fate::Fine | Fate::Fails => Verdict::Delivered,
        });
        let verdicts: Vec<_> = verdicts.collect();
        for (event, verdict) in batch.iter().zip(&verdicts) {
            if *verdict == Verdict::Delivered {
                self.delivered.insert(event.position().seq);
            }
        }
        Ok(Delivery::from_verdicts(verdicts))
    }

    fn note(&mut self, step: Step) {
        for dead in step.dead_letters {
            self.dead.insert(dead.event.position().seq, dead);
        }
        if let Some(up_to) = step.up_to {
            assert!(up_to > self.cursor, "OB-2");
            self.cursor = up_to;
        }
        for seq in 1..=self
            .cursor
            .seq
            .min(i64::try_from(self.fates.len()).unwrap())
        {
            let settled = self.delivered.contains(&seq) || self.dead.contains_key(&seq);
            assert!(settled, "OB-1: {seq} was passed");
        }
        match step.next {
            Next::Go => {}
            Next::BackOff(_) => self.pauses += 1,
            Next::GiveUp(error) => panic!("nobody fenced us: {error:?}"),
            Next::Halt(reason) => panic!("{reason}"),
        }
    }

    /// Works a batch off, for at most so many deliveries.
    fn work_off(&mut self, work: &mut Work<'_>, limit: usize) -> bool {
        self.work_off_reading(work, limit, |_, _| false)
    }

    /// The same, reading `more` as the loop does: it returns whether there was any.
    fn work_off_reading(
        &mut self,
        work: &mut Work<'_>,
        limit: usize,
        mut more: impl FnMut(&mut Self, &mut Work<'_>) -> bool,
    ) -> bool {
        while self.deliveries.len() < limit {
            while work.wants_more() && more(self, work) {}
            match work.todo() {
                Todo::Deliver(task) => {
                    let attempt = self.attempt(&task.batch);
                    let step = work.after(attempt);
                    self.note(step);
                }
                Todo::Settle(step) => self.note(step),
                Todo::AwaitNeighbour => return false,
                Todo::Nothing => return true,
            }
        }
        false
    }
}

/// Reads one more event that is fine, of a key of its own.
fn one_more(world: &mut World, work: &mut Work<'_>) -> bool {
    world.fates.push(Fate::Fine);
    let seq = world.fates.len();
    let more = event(i64::try_from(seq).unwrap(), seq + 1_000);
    work.extend(Batch::new(vec![more]), at(i64::try_from(seq).unwrap()));
    true
}

/// What is delivered next, pauses left out.
fn next_task(work: &mut Work<'_>) -> Task {
    loop {
        match work.todo() {
            Todo::Deliver(task) => return task,
            Todo::Settle(step) => {
                assert!(matches!(step.next, Next::BackOff(_)), "{step:?}");
            }
            other @ (Todo::AwaitNeighbour | Todo::Nothing) => panic!("{other:?}"),
        }
    }
}

fn next_seq(work: &mut Work<'_>) -> i64 {
    next_task(work).batch.first().position().seq
}

fn rules(connector: &dyn Connector) -> Rules<'_> {
    Rules {
        poison_attempts: ATTEMPTS,
        frozen: false,
        probe_successors: true,
        connector,
    }
}

fn never() -> impl Connector {
    from_fn(|_| async { Ok(Delivery::All) })
}

fn log2(n: usize) -> usize {
    usize::try_from(n.next_power_of_two().trailing_zeros()).unwrap()
}
