//! What 32 sinks at the head cost, compared with one: in Postgres, and in the worker.

use std::time::Duration;

use anyhow::{Context, Result};
use outbox_tests::servers::Database;
use serde_json::json;
use tokio::time::Instant;

use super::beside;
use super::journal::Journal;
use super::lines::Lines;
use super::publisher::Publisher;
use super::raw::Raw;
use crate::cpu::Cost;
use crate::lab::{Lab, backends};
use crate::stats::{Ratio, median};
use crate::target::Target;
use crate::worker::SESSIONS;

const RATE: u32 = 1_000;
const SETTLE: Duration = Duration::from_millis(500);
const LASTING: Duration = Duration::from_millis(1_500);
const MANY: usize = 32;
const ROUND: [usize; 4] = [1, MANY, MANY, 1];

/// Percent of one core.
#[derive(Clone, Copy)]
struct Load {
    worker: f64,
    backends: f64,
}

/// Measures what sinks cost.
///
/// # Errors
/// If something fails, or a file is not complete.
pub async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let database = lab.database().await?;
    let mut publisher = Publisher::connect(&database).await;
    let mut raw = Raw::create("scale")?;
    let mut measured: Vec<[Load; 4]> = Vec::new();
    for round in 1..=rounds {
        let mut legs = Vec::new();
        for (turn, sinks) in ROUND.into_iter().enumerate() {
            // Names of their own: these cursors begin at the beginning.
            let name = format!("scale-{round}-{turn}");
            let load = Box::pin(leg(&database, &mut publisher, &name, sinks)).await?;
            let Load { worker, backends } = load;
            eprintln!(
                "  scale, round {round} of {rounds}, {sinks:>2} sinks: worker {worker:.1} %, Postgres {backends:.1} %"
            );
            let line = json!({"round": round, "sinks": sinks, "worker_percent": worker, "backends_percent": backends});
            raw.note(&line)?;
            legs.push(load);
        }
        measured.push(legs.try_into().ok().context("four legs a round")?);
    }
    println!(
        "\nMany sinks at the head, at {RATE} events/s (percent of one core, medians of {rounds} rounds, twice each)"
    );
    println!("  sinks      1      {MANY}  ratio");
    let worker = tell("worker", &measured, |load| load.worker)?;
    let backends = tell("Postgres", &measured, |load| load.backends)?;
    let note = |ratio: &Ratio| format!("{:.2} to {:.2}", ratio.range().0, ratio.range().1);
    let name = format!("Postgres' CPU for {MANY} sinks at the head / for one");
    let note = format!("{}; the worker's own: {worker}", note(&backends));
    let mut targets = vec![Target::at_most(name, backends.median(), 1.5).note(note)];
    targets.extend(Box::pin(beside::run(lab, rounds)).await?);
    Ok(targets)
}

async fn leg(
    database: &Database,
    publisher: &mut Publisher,
    name: &str,
    sinks: usize,
) -> Result<Load> {
    publisher.begin_anew().await?;
    let journal = Journal::of(0);
    let mut lines = Lines::start(database, name, sinks)?;
    publisher.probe(&journal).await?;
    lines.until_complete(1).await?;
    let mut watcher = database.connect().await;
    publisher.flow(RATE, SETTLE, &journal).await?;
    let pid = lines.worker.pid()?;
    let before = backends(&mut watcher, SESSIONS).await?;
    let (start, cost, sessions) = (Instant::now(), Cost::of(pid)?, Cost::of_all(&before));
    let published = publisher.flow(RATE, LASTING, &journal).await?;
    let seconds = start.elapsed().as_secs_f64();
    // Those that were opened meanwhile have cost something as well.
    let after = backends(&mut watcher, SESSIONS).await?;
    let (cost, sessions) = (Cost::of(pid)? - cost, Cost::of_all(&after) - sessions);
    lines
        .until_complete(usize::try_from(published.end)?)
        .await?;
    lines.worker.stop().await?;
    let percent = |cost: Cost| 100.0 * cost.cpu.as_secs_f64() / seconds;
    Ok(Load {
        worker: percent(cost),
        backends: percent(sessions),
    })
}

fn tell(name: &str, rounds: &[[Load; 4]], of: fn(&Load) -> f64) -> Result<Ratio> {
    let one = |[first, .., last]: &[Load; 4]| (of(first) + of(last)) / 2.0;
    let many = |[_, second, third, _]: &[Load; 4]| (of(second) + of(third)) / 2.0;
    let ratio = Ratio::of(rounds.iter().map(|round| many(round) / one(round)));
    let ratio = ratio.context("there was a round")?;
    let (one, many) = (
        median(rounds.iter().map(one)),
        median(rounds.iter().map(many)),
    );
    println!("  {name:<8}{one:>5.1}{many:>8.1}  {ratio}");
    Ok(ratio)
}
