//! One sink far behind beside one at the head: a failing or new sink should delay no other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use outbox_tests::servers::{Database, Kafka};
use serde_json::json;
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use super::consumer::{Consumer, PARTITIONS};
use super::contender::kafka_sink;
use super::figures::Figures;
use super::journal::{Journal, PROBE};
use super::publisher::Publisher;
use super::raw::Raw;
use crate::lab::Lab;
use crate::target::Target;
use crate::worker::Setup;
use crate::workload::Workload;

const BACKLOG: Workload = Workload {
    name: "300 B",
    bytes: 300,
    events: 500_000,
};
const RATE: u32 = 1_000;
const LASTING: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(60);
/// Fewer events than these while the backlog lasts say nothing.
const ENOUGH: usize = 500;

/// Measures the head's latency with and without a backlog beside it.
pub(super) async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let database = lab.database().await?;
    let kafka = lab.kafka().await;
    let mut publisher = Publisher::connect(&database).await;
    let mut connection = database.connect().await;
    eprintln!("  scale: filling a backlog of {} events", BACKLOG.events);
    BACKLOG.fill(&mut connection).await?;
    let mut raw = Raw::create("beside")?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    // The first pair is for the broker to get warm.
    for pair in 0..=rounds.div_ceil(3) {
        for behind in [false, true] {
            let name = format!("{}-{pair}", if behind { "beside" } else { "alone" });
            let leg = Box::pin(leg(&database, &kafka, &mut publisher, &name, behind));
            let figures = leg.await.context(name)?;
            eprintln!("  scale, pair {pair}, backlog beside: {behind}: {figures}");
            raw.note(&json!({"pair": pair, "backlog": behind, "ms": figures}))?;
            if pair > 0 {
                if behind { &mut beside } else { &mut alone }.push(figures);
            }
        }
    }
    let (alone, beside) = (Figures::medians(&alone), Figures::medians(&beside));
    println!("\nLatency of a sink at the head, at {RATE} events/s, in ms (medians)");
    println!("                     {}", Figures::HEADING);
    println!("  alone              {alone}");
    println!("  beside a backlog   {beside}");
    let note = format!(
        "{:.1} ms alone, {:.1} ms beside a sink that drains a backlog",
        alone.p50, beside.p50
    );
    let name = "latency at the head beside a backlog, p50, ms";
    Ok(vec![Target::at_most(name, beside.p50, 20.0).note(note)])
}

async fn leg(
    database: &Database,
    kafka: &Kafka,
    publisher: &mut Publisher,
    name: &str,
    behind: bool,
) -> Result<Figures> {
    let (head, drain) = (format!("{name}-head"), format!("{name}-drain"));
    kafka.create_topic(&head, PARTITIONS).await;
    kafka.create_topic(&drain, PARTITIONS).await;
    let mut tables = format!(
        "[sinks.{head}]\nstart = \"head\"\n{}",
        kafka_sink(&head, kafka)
    );
    if behind {
        tables.push_str(&kafka_sink(&drain, kafka));
    }
    let journal = Arc::new(Journal::of(200_000));
    let consumer = Consumer::start(kafka, &head, Arc::clone(&journal))?;
    let setup = Setup::new(database, &tables)?;
    let mut connection = database.connect().await;
    let end = newest(&mut connection).await?;
    let worker = setup.run()?;
    let deadline = Instant::now() + PATIENCE;
    while journal.arrived_at(PROBE) == 0 {
        ensure!(
            Instant::now() < deadline,
            "the sink at the head never began"
        );
        publisher.probe(&journal).await?;
        sleep(Duration::from_millis(20)).await;
    }
    let drained = async {
        match behind {
            true => passed(&mut connection, &drain, end, &journal).await,
            false => Ok(u64::MAX),
        }
    };
    let (flowed, drained) = tokio::join!(publisher.flow(RATE, LASTING, &journal), drained);
    let (numbers, drained) = (flowed?, drained?);
    journal.until_arrived(numbers.clone(), PATIENCE).await?;
    worker.stop().await?;
    consumer.finish()?;
    let during = numbers.filter(|&number| journal.committed_at(number) < drained);
    let mut latencies: Vec<_> = during
        .flat_map(|number| journal.latencies(number..number + 1))
        .collect();
    let count = latencies.len();
    ensure!(count >= ENOUGH, "the backlog was gone after {count} events");
    latencies.sort_by(f64::total_cmp);
    Ok(Figures::of(&latencies))
}

/// The last event of the backlog.
async fn newest(connection: &mut PgConnection) -> Result<(String, i64)> {
    let sql = "select txid::text, seq from outbox order by outbox.txid desc, seq desc limit 1";
    Ok(sqlx::query_as(sql).fetch_one(connection).await?)
}

/// When the sink's cursor has passed `end`.
async fn passed(
    connection: &mut PgConnection,
    sink: &str,
    (txid, seq): (String, i64),
    journal: &Journal,
) -> Result<u64> {
    let sql = "select exists (select from outbox_cursors
               where consumer = 'sink:' || $1 and (txid, seq) >= ($2::text::xid8, $3))";
    let deadline = Instant::now() + PATIENCE;
    loop {
        let query = sqlx::query_scalar(sql).bind(sink).bind(&txid).bind(seq);
        if query.fetch_one(&mut *connection).await? {
            return Ok(journal.now());
        }
        ensure!(Instant::now() < deadline, "the backlog was never drained");
        sleep(Duration::from_millis(50)).await;
    }
}
