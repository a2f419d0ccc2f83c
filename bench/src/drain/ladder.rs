//! The rounds: every size in each, every contender in each size, in a fixed order.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::contender::{Contender, Run};
use super::destination::Destination;
use super::figures::Figures;
use super::gate::Passed;
use super::raw::Raw;
use crate::lab::Lab;
use crate::workload::{Backlog, Workload};

/// What a section does.
pub(super) struct Plan<'a> {
    pub(super) section: &'a str,
    /// Who takes turns, in a round and a size.
    pub(super) order: &'a [Contender],
    pub(super) workloads: &'a [Workload],
    pub(super) rounds: u32,
}

/// The runs of one size: by contender, and within it by round.
#[derive(Debug, Default)]
pub(super) struct Results {
    size: &'static str,
    /// The mean of this size's messages, in the format `native`.
    pub(super) bytes_an_event: f64,
    runs: BTreeMap<Contender, Vec<Vec<Figures>>>,
}

impl Results {
    /// Who took part.
    pub(super) fn contenders(&self) -> impl Iterator<Item = Contender> {
        self.runs.keys().copied()
    }

    /// The mean of a figure in each round.
    pub(super) fn by_round(
        &self,
        contender: Contender,
        figure: impl Fn(&Figures) -> f64,
    ) -> Vec<f64> {
        let rounds = self.runs.get(&contender).map_or(&[][..], Vec::as_slice);
        let mean = |runs: &Vec<Figures>| {
            let sum: f64 = runs.iter().map(&figure).sum();
            sum / runs.len() as f64
        };
        rounds.iter().map(mean).collect()
    }

    /// Adds a run, and tells about it.
    pub(super) fn add(
        &mut self,
        round: u32,
        contender: Contender,
        figures: Figures,
        raw: &mut Raw,
    ) -> Result<()> {
        eprintln!(
            "  round {} {:>6} {:<16} {:>8.0} events/s in {:.2} s, CPU {:.2} s",
            round + 1,
            self.size,
            contender.name(),
            figures.rate(),
            figures.elapsed.as_secs_f64(),
            figures.cpu.as_secs_f64()
        );
        raw.note(round + 1, self.size, contender, &figures)?;
        let rounds = self.runs.entry(contender).or_default();
        let index = usize::try_from(round)?;
        rounds.resize_with(rounds.len().max(index + 1), Vec::new);
        if let Some(runs) = rounds.get_mut(index) {
            runs.push(figures);
        }
        Ok(())
    }
}

/// Does what the plan says, and `extra` at the end of each round. The results are in the order
/// of the workloads.
pub(super) async fn climb<D: Destination>(
    lab: &Lab,
    destination: &D,
    plan: &Plan<'_>,
    mut extra: impl AsyncFnMut(u32, &mut [Results], &mut Raw) -> Result<()>,
) -> Result<Vec<Results>> {
    let mut backlogs = Vec::new();
    for workload in plan.workloads {
        eprintln!("  filling the table with {}", workload.name);
        backlogs.push(lab.backlog(workload).await?);
    }
    let mut raw = Raw::create(plan.section)?;
    let mut results: Vec<_> = backlogs.iter().map(empty).collect();
    let mut climber = Climber {
        destination,
        runs: 0,
        section: plan.section,
    };
    climber.warm_up(&backlogs).await?;
    for round in 0..plan.rounds {
        for (backlog, results) in backlogs.iter().zip(&mut results) {
            climber
                .round(plan, round, backlog, results, &mut raw)
                .await?;
        }
        extra(round, &mut results, &mut raw).await?;
    }
    Ok(results)
}

/// For those who have nothing to add to a round.
pub(super) async fn nothing_else(_: u32, _: &mut [Results], _: &mut Raw) -> Result<()> {
    Ok(())
}

fn empty(backlog: &Backlog) -> Results {
    Results {
        size: backlog.name,
        bytes_an_event: backlog.native_bytes as f64 / f64::from(backlog.events),
        ..Results::default()
    }
}

struct Climber<'a, D> {
    destination: &'a D,
    runs: u32,
    section: &'a str,
}

impl<D: Destination> Climber<'_, D> {
    /// Lets everybody run once for nothing: the table comes into memory, and a destination's
    /// virtual machine compiles.
    async fn warm_up(&mut self, backlogs: &[Backlog]) -> Result<()> {
        use Contender::{Ours, Produce, Relay};
        eprintln!("  warming up");
        for backlog in backlogs {
            for contender in [Produce, Relay, Ours] {
                self.run(backlog, contender).await?;
            }
        }
        Ok(())
    }

    async fn round(
        &mut self,
        plan: &Plan<'_>,
        round: u32,
        backlog: &Backlog,
        results: &mut Results,
        raw: &mut Raw,
    ) -> Result<()> {
        let mut digest = None;
        for &contender in plan.order {
            let (figures, passed) = self.run(backlog, contender).await?;
            if let Some(Passed { digest: found, .. }) = passed {
                let expected = *digest.get_or_insert(found);
                ensure!(
                    expected == found,
                    "{} sent other bytes than who was first",
                    contender.name()
                );
            }
            results.add(round, contender, figures, raw)?;
        }
        Ok(())
    }

    async fn run(
        &mut self,
        backlog: &Backlog,
        contender: Contender,
    ) -> Result<(Figures, Option<Passed>)> {
        self.runs += 1;
        let place = format!("run_{}", self.runs);
        let run = Run {
            destination: self.destination,
            backlog,
            place,
        };
        let what = || format!("{}, {}, {}", self.section, backlog.name, contender.name());
        Box::pin(run.of(contender)).await.with_context(what)
    }
}
