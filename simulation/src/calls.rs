//! One call of the database by a process, with all that can go wrong on its way: the
//! answer is lost, the work is done late or never, the process dies in between.

use std::time::Duration;

use fastrand::Rng;
use outbox_runtime::store::StoreError;
use tokio::time::sleep;

use crate::chance::Chance;
use crate::world::{Late, Shared, World};

/// The deadline of a call: an outage takes no longer to show.
const DEADLINE: u64 = 2_000;
/// The statements that may still run after whoever sent them was told that they failed,
/// and has sent them again. Those on a cursor may not: a process sends nothing more on a
/// cursor before the last statement has run or never will.
const OUTLIVING: [&str; 6] = [
    "acquire",
    "renew",
    "renew all",
    "release",
    "census",
    "prune",
];
/// So many calls in one slice are a loop that does not pause.
const MAX_CALLS: u64 = 20_000;

/// The way of a process to the database.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) shared: Shared,
    pub(crate) process: usize,
}

/// What will come of a call.
#[derive(Clone, Copy, Debug)]
struct Fortune {
    before: u64,
    after: u64,
    fate: Fate,
    /// How often the connections had been cut when it began.
    cuts: u64,
    /// What decides how late it comes. Drawn when it begins: a process that dies drops its
    /// calls in any order.
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Works,
    /// Nothing is done.
    Fails,
    /// It is done, and the answer is lost.
    LosesAnswer,
    /// It is done after the caller was told that it failed.
    ComesLate,
}

impl Line {
    /// Makes a call. `effect` is what it does in the database; it is told whether it
    /// comes late.
    pub(crate) async fn call<T, F>(&self, name: &'static str, effect: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut World, bool) -> T + Send + 'static,
        T: Send + 'static,
    {
        let Some(fortune) = self.begin(name) else {
            return std::future::pending().await;
        };
        let mut underway = Underway {
            line: self,
            effect: Some(effect),
            seed: fortune.seed,
        };
        wait(fortune.before).await;
        let done = match underway.arrive(name, fortune) {
            Some(done) => done,
            None => std::future::pending().await,
        };
        wait(fortune.after).await;
        match self.end(name, fortune, done) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    /// Draws what will come of a call; `None` if the process is dead.
    fn begin(&self, name: &'static str) -> Option<Fortune> {
        let mut world = self.shared.world();
        if !world.survives(self.process) {
            return None;
        }
        let reaches = world.reaches_database(self.process);
        let (rates, calm) = (world.plan.rates, world.calm);
        let process = world.processes.get_mut(self.process)?;
        process.calls += 1;
        let hot = process.calls > MAX_CALLS;
        let cut = process.notices_cut();
        let rng = &mut process.chance;
        let mut fortune = Fortune {
            before: rng.millis(0, 2),
            after: rng.millis(1, 2),
            fate: Fate::Works,
            cuts: process.cuts,
            seed: rng.u64(..),
        };
        if !reaches || cut {
            fortune.fate = Fate::Fails;
            if rng.happens(0.3) {
                fortune.before = DEADLINE;
            }
        } else if !calm {
            fortune.draw(name, rng, &rates);
        }
        if hot {
            let seen = format!("more than {MAX_CALLS} calls in one slice, the last one {name}");
            world.violated("useless work", seen);
            return None;
        }
        Some(fortune)
    }

    /// What the caller is told; `None` if the process is dead.
    fn end<T>(
        &self,
        name: &'static str,
        fortune: Fortune,
        done: Option<T>,
    ) -> Option<Result<T, StoreError>> {
        let mut world = self.shared.world();
        if !world.survives(self.process) {
            return None;
        }
        let process = world.processes.get_mut(self.process)?;
        let cut = process.cuts != fortune.cuts;
        if cut {
            process.notices_cut();
        }
        let answer = done.filter(|_| !cut && fortune.fate == Fate::Works);
        if answer.is_none() {
            world.log(|| format!("{name}: no answer ({:?})", fortune.fate));
        }
        Some(answer.ok_or_else(|| StoreError::new("the connection is lost")))
    }
}

impl Fortune {
    fn draw(&mut self, name: &str, rng: &mut fastrand::Rng, rates: &crate::plan::Rates) {
        if rng.happens(rates.database_error) {
            self.fate = Fate::Fails;
        } else if rng.happens(rates.lost_answer) {
            self.fate = match rng.happens(rates.late_write) && OUTLIVING.contains(&name) {
                true => Fate::ComesLate,
                false => Fate::LosesAnswer,
            };
        }
        if rng.happens(rates.slow_call) {
            self.before = rng.millis(20, DEADLINE - 100);
        }
    }
}

/// A call whose effect is still to come.
struct Underway<'a, F, T>
where
    F: FnOnce(&mut World, bool) -> T + Send + 'static,
{
    line: &'a Line,
    effect: Option<F>,
    seed: u64,
}

impl<F, T> Underway<'_, F, T>
where
    F: FnOnce(&mut World, bool) -> T + Send + 'static,
{
    /// The call arrives. What it did, if it did anything; `None` if the process died.
    fn arrive(&mut self, name: &'static str, fortune: Fortune) -> Option<Option<T>> {
        let mut world = self.line.shared.world();
        if !world.survives(self.line.process) {
            return None;
        }
        let process = world.processes.get(self.line.process)?;
        let cut = process.cuts != fortune.cuts || !world.reaches_database(self.line.process);
        let effect = self.effect.take()?;
        let done = match fortune.fate {
            Fate::Fails => None,
            _ if cut => None,
            Fate::Works | Fate::LosesAnswer => Some(effect(&mut world, false)),
            Fate::ComesLate => {
                comes_late(&mut world, &mut Rng::with_seed(self.seed), name, effect);
                None
            }
        };
        world.survives(self.line.process).then_some(done)
    }
}

/// Whoever drops a call does not know whether it happens all the same.
impl<F, T> Drop for Underway<'_, F, T>
where
    F: FnOnce(&mut World, bool) -> T + Send + 'static,
{
    fn drop(&mut self) {
        let Some(effect) = self.effect.take() else {
            return;
        };
        let mut world = self.line.shared.world();
        let (rate, calm) = (world.plan.rates.late_write, world.calm);
        let mut chance = Rng::with_seed(self.seed);
        if chance.happens(rate) && !calm {
            comes_late(&mut world, &mut chance, "a dropped call", effect);
        }
    }
}

fn comes_late<F, T>(world: &mut World, chance: &mut Rng, name: &'static str, effect: F)
where
    F: FnOnce(&mut World, bool) -> T + Send + 'static,
{
    let at = world.now() + chance.millis(0, 1_000);
    world.count("late writes");
    world.late.push(Late {
        at,
        order: chance.u64(..),
        happens: Box::new(move |world| {
            world.log(|| format!("{name} happens late"));
            effect(world, true);
        }),
    });
}

pub(crate) async fn wait(millis: u64) {
    if millis > 0 {
        sleep(Duration::from_millis(millis)).await;
    }
}
