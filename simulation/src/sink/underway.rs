//! A delivery on its way: what has arrived of it, what its caller is told, and what may
//! still arrive once the caller has given it up.

use fastrand::Rng;
use outbox_sinks::{Delivery, ErrorKind, SinkError};

use super::SimulatedSink;
use crate::arrival::{Arrival, Ending};
use crate::chance::Chance;
use crate::fortune::{Fate, Fortune};
use crate::model::Told;
use crate::world::{Late, World};

/// For how long a transaction may wait for a lock at most.
const LOCK_TIMEOUT: u64 = 30_000;

/// What the caller gets.
pub(super) enum Answer {
    Returns(Result<Delivery, SinkError>),
    Panics,
    Never,
}

/// A delivery that is not over.
pub(super) struct Underway<'a> {
    pub(super) of: &'a SimulatedSink,
    /// What is on its way to the destination; none once the caller has its answer.
    pub(super) arrival: Option<Arrival>,
    pub(super) began_at: u64,
    /// What decides how late it comes. Drawn when it begins: a process that dies drops what
    /// it does in any order.
    pub(super) seed: u64,
}

impl Underway<'_> {
    /// Lets the first `events` that are still on their way arrive.
    pub(super) async fn arrive(&mut self, events: usize) {
        let process = self.of.to.process;
        let survives = {
            let mut world = self.of.to.shared.world();
            let mut survives = world.survives(process);
            if let Some(arrival) = self.arrival.as_mut().filter(|_| survives) {
                arrival.happen(&mut world, events);
                if arrival.ending() == Some(Ending::Kills) {
                    world.kill(process);
                }
                survives = world.survives(process);
            }
            survives
        };
        if !survives {
            std::future::pending::<()>().await;
        }
    }

    /// Whether everything has arrived, so that more may follow it.
    pub(super) fn has_all(&self) -> bool {
        let arrival = self.arrival.as_ref();
        arrival.is_some_and(|it| it.ending().is_none() && it.delivery() == Delivery::All)
    }

    /// What the caller is told at the end.
    pub(super) fn answer(&mut self, fortune: &Fortune) -> Answer {
        let mut world = self.of.to.shared.world();
        if !world.survives(self.of.to.process) {
            return Answer::Never;
        }
        let Some(mut arrival) = self.arrival.take() else {
            return Answer::Never;
        };
        if let Fate::LosesAnswer(ending) = fortune.fate {
            arrival.end(ending);
            world.count("lost deliveries");
        }
        let answer = match arrival.ending() {
            Some(Ending::Hangs | Ending::Kills) => {
                self.arrival = Some(arrival);
                return Answer::Never;
            }
            Some(Ending::Panics) => Answer::Panics,
            Some(Ending::Fails(kind)) => Answer::Returns(Err(error(kind))),
            Some(Ending::Miscounts) => Answer::Returns(Ok(arrival.miscounted())),
            None => Answer::Returns(Ok(arrival.delivery())),
        };
        world.log(|| match &answer {
            Answer::Returns(answer) => format!("  is told: {answer:?}"),
            Answer::Panics | Answer::Never => "  the sink panics".to_owned(),
        });
        let blames = match &answer {
            Answer::Returns(Ok(delivery)) => arrival.blames(delivery),
            Answer::Returns(Err(error)) => error.kind() == ErrorKind::Failed,
            Answer::Panics => true,
            Answer::Never => false,
        };
        let told = Told {
            blames,
            all: matches!(&answer, Answer::Returns(Ok(Delivery::All))),
        };
        world.was_told(self.of.to.sink, arrival.batch(), told);
        answer
    }
}

/// The caller has given up: at the deadline, without its lease, or dead. What was sent
/// may arrive all the same.
impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let Some(mut arrival) = self.arrival.take() else {
            return;
        };
        let (to, mut world) = (&self.of.to, self.of.to.shared.world());
        let (rate, calm) = (world.plan.rates.late_delivery, world.calm);
        // A transaction may wait for a lock, and whoever sent it may be long gone.
        let waits = world.stores_position(to.sink);
        let Some(process) = world.processes.get_mut(to.process) else {
            return;
        };
        let lived = !process.dead;
        let overdue = lived && process.clock() >= self.began_at + self.of.deadline;
        let mut chance = Rng::with_seed(self.seed);
        let (arrives, mut late) = (chance.happens(rate), chance.millis(0, 500));
        if waits && chance.happens(0.6) {
            late = chance.millis(500, LOCK_TIMEOUT);
        }
        if overdue {
            world.log(|| "  the deadline has passed".to_owned());
            let told = Told {
                blames: true,
                all: false,
            };
            world.was_told(to.sink, arrival.batch(), told);
        } else if lived {
            world.log(|| "  the delivery is given up".to_owned());
        }
        if arrives && !calm && arrival.may_come_late() {
            let at = world.now() + late;
            world.count("late deliveries");
            world.late.push(Late {
                at,
                order: chance.u64(..),
                happens: Box::new(move |world: &mut World| arrival.happen(world, usize::MAX)),
            });
        }
    }
}

fn error(kind: ErrorKind) -> SinkError {
    let error = SinkError::new(kind, "deliver");
    if kind == ErrorKind::Misconfigured {
        error.with_advice("do something")
    } else {
        error
    }
}
