//! Running seeds, and saying what is to be known about one that failed: the guarantee,
//! what was seen, the smallest set of faults that shows it, the last steps, and how to
//! see it again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::faults::{Fault, Faults};
use crate::panics;
use crate::plan::Plan;
use crate::run::Run;
use crate::world::Violation;

/// How many lines of a trace are shown.
const SHOWN: usize = 300;

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// What is to be said about the failures, in order of their seeds.
    pub failures: Vec<String>,
    /// What the seeds have seen together, to know that they see everything.
    pub counts: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seeds, violations) = (self.seeds, self.failures.len());
        write!(f, "simulation: {seeds} seeds, {violations} violations")
    }
}

/// What came of one seed.
struct Outcome {
    violation: Option<Violation>,
    counts: BTreeMap<&'static str, u64>,
    trace: Vec<String>,
    now: u64,
}

/// Which seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// How many run at the same time.
    pub threads: usize,
    /// Stops once so many have failed.
    pub failures: usize,
    /// Whether to look for the fewest faults that show a failure.
    pub shrinks: bool,
}

/// Runs seeds.
#[must_use]
pub fn simulate(options: &Seeds) -> Summary {
    let Seeds {
        first,
        seeds,
        threads,
        failures,
        shrinks,
    } = *options;
    panics::watch();
    let (next, enough) = (AtomicU64::new(first), AtomicBool::new(false));
    let (found, total) = (Mutex::new(Vec::new()), Mutex::new(Summary::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first.saturating_add(seeds) {
                        return;
                    }
                    let outcome = run(seed, Faults::ALL, false);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.add(&outcome);
                    if let Some(violation) = outcome.violation {
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.push((seed, violation));
                        enough.fetch_or(found.len() >= failures, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(seed, _)| *seed);
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let told = found
        .iter()
        .map(|(seed, violation)| tell(*seed, violation, shrinks));
    total.failures = told.collect();
    total
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        for (what, count) in &outcome.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }
}

/// Runs one seed with some of its faults.
fn run(seed: u64, faults: Faults, tracing: bool) -> Outcome {
    let mut run = Run::new(Plan::draw(seed, faults), tracing);
    run.active();
    if !run.is_over() {
        run.settle_down();
    }
    let now = run.now();
    run.hosts.clear();
    let mut world = run.shared.world();
    Outcome {
        violation: world.violation.take(),
        counts: std::mem::take(&mut world.counts),
        trace: world.trace.take_end(SHOWN),
        now,
    }
}

/// Leaves out every fault without which the same guarantee is still broken.
fn shrink(seed: u64, violation: &Violation) -> Faults {
    let mut faults: Faults = Plan::draw(seed, Faults::ALL).faults;
    for fault in Fault::ALL {
        let fewer = faults.without(fault);
        if fewer == faults {
            continue;
        }
        let outcome = run(seed, fewer, false);
        if outcome
            .violation
            .is_some_and(|it| it.what == violation.what)
        {
            faults = fewer;
        }
    }
    faults
}

/// Says what is to be known about a failure.
fn tell(seed: u64, violation: &Violation, shrinks: bool) -> String {
    let faults = match shrinks {
        true => shrink(seed, violation),
        false => Plan::draw(seed, Faults::ALL).faults,
    };
    let outcome = run(seed, faults, true);
    let plan = Plan::draw(seed, faults);
    let again = outcome.violation.as_ref().unwrap_or(violation);
    let mut told = format!("seed {seed} violates {violation}\n");
    told += &format!("with these faults alone: {faults}\n  {again}\n");
    told += &format!(
        "the world: {} workers, lease {:?}, {} keys\n",
        plan.workers, plan.worker.lease_ttl, plan.keys
    );
    for sink in &plan.sinks {
        told += &format!("  {sink:?}\n");
    }
    told += &format!("the last steps, up to {} ms:\n", outcome.now);
    for line in &outcome.trace {
        told += &format!("  {line}\n");
    }
    told + &format!("run it again with: make sim SIM_SEED={seed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_run() {
        panics::watch();
        for seed in 0..12 {
            let trace = |_| run(seed, Faults::ALL, true).trace;
            let (first, second) = (trace(1), trace(2));
            assert_eq!(first, second, "seed {seed}");
        }
    }
}
