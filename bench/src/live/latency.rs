//! From the commit's acknowledgement to the event's arrival behind Kafka, for the relay and for
//! the plainest live loop.
//!
//! Ten events a transaction at both rates, so that they differ in nothing but the rate: a hundred
//! and a thousand commits a second.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use outbox_tests::servers::{Database, Kafka};
use serde_json::json;

use super::consumer::{Consumer, PARTITIONS};
use super::contender::{Contender, Running};
use super::figures::Figures;
use super::held;
use super::journal::{Journal, PROBE};
use super::publisher::Publisher;
use super::raw::Raw;
use crate::lab::Lab;
use crate::stats::Ratio;
use crate::target::Target;

/// Events a second, how long until the figures count, and how long they do.
const FLOWS: [(u32, Duration, Duration); 2] = [
    (1_000, Duration::from_millis(800), Duration::from_secs(3)),
    (10_000, Duration::from_millis(500), Duration::from_secs(2)),
];
/// Room for the events of one run, whichever it is.
const EVENTS: u32 = 200_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// What each run needs, made once.
pub(super) struct Stage {
    database: Database,
    kafka: Kafka,
    pub(super) publisher: Publisher,
    runs: u32,
}

/// A run: somebody delivers, and a consumer looks.
pub(super) struct Run {
    pub(super) journal: Arc<Journal>,
    consumer: Consumer,
    running: Running,
}

impl Stage {
    async fn set(lab: &Lab) -> Result<Self> {
        let database = lab.database().await?;
        let publisher = Publisher::connect(&database).await;
        let kafka = lab.kafka().await;
        Ok(Self {
            database,
            kafka,
            publisher,
            runs: 0,
        })
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Empties the outbox, and returns once an event has gone all the way.
    pub(super) async fn begin(&mut self, who: Contender) -> Result<Run> {
        self.publisher.begin_anew().await?;
        self.runs += 1;
        let topic = format!("live-{}", self.runs);
        self.kafka.create_topic(&topic, PARTITIONS).await;
        let journal = Arc::new(Journal::of(EVENTS));
        let consumer = Consumer::start(&self.kafka, &topic, Arc::clone(&journal))?;
        let running = Running::start(who, &self.database, &self.kafka, &topic)?;
        self.publisher.probe(&journal).await?;
        let awake = journal.until_arrived(PROBE..PROBE + 1, PATIENCE).await;
        awake.with_context(|| format!("wait for the {who}"))?;
        Ok(Run {
            journal,
            consumer,
            running,
        })
    }
}

impl Run {
    /// Waits for everything up to `end`, and judges it.
    pub(super) async fn finish(self, end: u32) -> Result<Arc<Journal>> {
        self.journal.until_arrived(PROBE..end, PATIENCE).await?;
        self.running.stop().await?;
        let repeated = self.consumer.finish()?;
        if repeated > 0 {
            eprintln!("  {repeated} events came twice, though nothing had failed");
        }
        Ok(self.journal)
    }
}

/// One contender's figures at both rates.
async fn leg(stage: &mut Stage, who: Contender) -> Result<[Figures; 2]> {
    let run = stage.begin(who).await?;
    let mut measured = Vec::new();
    for (rate, settle, lasting) in FLOWS {
        stage.publisher.flow(rate, settle, &run.journal).await?;
        measured.push(stage.publisher.flow(rate, lasting, &run.journal).await?);
    }
    let end = measured.last().context("something was published")?.end;
    let journal = run.finish(end).await?;
    let figures: Vec<_> = measured
        .into_iter()
        .map(|numbers| Figures::of(&journal.latencies(numbers)))
        .collect();
    figures.try_into().ok().context("a figure for each rate")
}

/// Measures the latency.
///
/// # Errors
/// If something fails, or an event is lost or out of order.
pub async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let mut raw = Raw::create("latency")?;
    let mut stage = Stage::set(lab).await?;
    // A broker is slow in its first seconds, whoever comes first.
    Box::pin(leg(&mut stage, Contender::Plain)).await?;
    let mut measured: [Vec<[Figures; 4]>; 2] = Default::default();
    for round in 1..=rounds {
        let mut legs = Vec::new();
        for who in Contender::ROUND {
            let figures = Box::pin(leg(&mut stage, who)).await?;
            eprintln!(
                "  latency, round {round} of {rounds}, {who:<10} {} | {}",
                figures[0], figures[1]
            );
            for ((rate, ..), figures) in FLOWS.iter().zip(figures) {
                let line =
                    json!({"round": round, "who": who.to_string(), "rate": rate, "ms": figures});
                raw.note(&line)?;
            }
            legs.push(figures);
        }
        let legs: [[Figures; 2]; 4] = legs.try_into().ok().context("four legs a round")?;
        for (of_rate, runs) in measured.iter_mut().enumerate() {
            runs.push(legs.map(|leg| leg.get(of_rate).copied().unwrap_or_default()));
        }
    }
    let mut targets = Vec::new();
    println!("\nLatency from commit to arrival, in ms (medians of {rounds} rounds, twice each)");
    for ((rate, ..), rounds) in FLOWS.iter().zip(&measured) {
        targets.extend(tell(*rate, rounds));
    }
    targets.extend(Box::pin(held::run(&mut stage)).await?);
    Ok(targets)
}

/// Prints the table of one rate.
fn tell(rate: u32, rounds: &[[Figures; 4]]) -> Vec<Target> {
    let both = |pick: fn(&[Figures; 4]) -> [Figures; 2]| rounds.iter().map(pick);
    let relay: Vec<[Figures; 2]> = both(|&[first, _, _, last]| [first, last]).collect();
    let plain: Vec<[Figures; 2]> = both(|&[_, second, third, _]| [second, third]).collect();
    println!("{rate:>6} events/s {}", Figures::HEADING);
    println!("  relay         {}", Figures::medians(relay.as_flattened()));
    println!("  plain loop    {}", Figures::medians(plain.as_flattened()));
    let target = |name: &str, most: f64, figure: fn(&Figures) -> f64| {
        let sum = |pair: &[Figures; 2]| pair.iter().map(figure).sum::<f64>();
        let ratios = relay.iter().zip(&plain);
        let ratio = Ratio::of(ratios.map(|(ours, plain)| sum(ours) / sum(plain)))?;
        println!("  relay / plain loop, {name}: {ratio}");
        let (least, greatest) = ratio.range();
        let line = format!("latency at {rate}/s, {name}, relay / plain loop");
        let note = format!("{least:.2} to {greatest:.2}");
        Some(Target::at_most(line, ratio.median(), most).note(note))
    };
    let p50 = target("p50", 1.5, |figures| figures.p50);
    let p99 = target("p99", 2.0, |figures| figures.p99);
    let hoped = Figures::medians(relay.as_flattened());
    let hope = |name, figure, most| {
        Target::at_most(format!("latency at {rate}/s, {name}, ms"), figure, most)
    };
    let absolute = [hope("p50", hoped.p50, 5.0), hope("p99", hoped.p99, 20.0)];
    [p50, p99].into_iter().flatten().chain(absolute).collect()
}
