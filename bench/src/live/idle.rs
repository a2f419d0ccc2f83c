//! What a worker costs while nothing happens: itself and its sessions in Postgres together.

use std::time::Duration;

use anyhow::Result;
use outbox_tests::servers::{Database, Kafka};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep};

use super::consumer::PARTITIONS;
use super::contender::kafka_sink;
use super::lines::Lines;
use super::raw::Raw;
use crate::cpu::Cost;
use crate::lab::{Lab, backends};
use crate::target::Target;
use crate::worker::{SESSIONS, Setup, Worker};

const SETTLE: Duration = Duration::from_secs(5);
/// A round is so long; one look at all of them together.
const ROUND: Duration = Duration::from_secs(3);

/// What idling costs.
struct Idle {
    /// Of one core, in percent.
    worker: f64,
    backends: f64,
    transactions_a_minute: f64,
    worker_switches_a_second: f64,
    backend_switches_a_second: f64,
}

/// Watches idle workers with 1, 8 and 32 sinks.
///
/// # Errors
/// If one can't be started.
pub async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let mut raw = Raw::create("idle")?;
    let lasting = ROUND * rounds;
    println!(
        "\nIdle for {lasting:?} (percent of one core; transactions a minute; context switches a second)"
    );
    println!("  sinks        worker  Postgres  together  transactions  switches: worker  Postgres");
    let mut targets = Vec::new();
    for sinks in [1, 8, 32] {
        let database = lab.database().await?;
        let mut lines = Lines::start(&database, "idle", sinks)?;
        let idle = watch(lab, &database, &mut lines.worker, lasting).await?;
        lines.worker.stop().await?;
        tell(&mut raw, &idle, "file", sinks)?;
        if sinks == 32 {
            let together = idle.worker + idle.backends;
            targets.push(Target::at_most(
                "idle with 32 sinks, % of a core",
                together,
                0.5,
            ));
        }
    }
    // Each Kafka sink is a client with threads of its own, which wake up by themselves.
    let kafka = lab.kafka().await;
    let idle = kafka_sinks(lab, &kafka, 32, lasting).await?;
    tell(&mut raw, &idle, "Kafka", 32)?;
    Ok(targets)
}

async fn kafka_sinks(lab: &Lab, kafka: &Kafka, sinks: usize, lasting: Duration) -> Result<Idle> {
    let database = lab.database().await?;
    let mut tables = String::new();
    for i in 1..=sinks {
        let topic = format!("idle-{i}");
        kafka.create_topic(&topic, PARTITIONS).await;
        tables.push_str(&kafka_sink(&topic, kafka));
    }
    let setup = Setup::new(&database, &tables)?;
    let mut worker = setup.run()?;
    let idle = watch(lab, &database, &mut worker, lasting).await?;
    worker.stop().await?;
    Ok(idle)
}

async fn watch(
    lab: &Lab,
    database: &Database,
    worker: &mut Worker,
    lasting: Duration,
) -> Result<Idle> {
    sleep(SETTLE).await;
    let mut inside = database.connect().await;
    let sessions = backends(&mut inside, SESSIONS).await?;
    inside.close().await?;
    let pid = worker.pid()?;
    // From another database, so that asking is not counted.
    let mut outside = PgConnection::connect(&lab.postgres.url()).await?;
    let commits = commits(&mut outside, database.name()).await?;
    let (start, before, backends_before) =
        (Instant::now(), Cost::of(pid)?, Cost::of_all(&sessions));
    sleep(lasting).await;
    let seconds = start.elapsed().as_secs_f64();
    let (cost, backends) = (
        Cost::of(pid)? - before,
        Cost::of_all(&sessions) - backends_before,
    );
    let commits = self::commits(&mut outside, database.name()).await? - commits;
    worker.pid()?;
    let percent = |cost: Cost| 100.0 * cost.cpu.as_secs_f64() / seconds;
    Ok(Idle {
        worker: percent(cost),
        backends: percent(backends),
        transactions_a_minute: 60.0 * commits / seconds,
        worker_switches_a_second: cost.switches as f64 / seconds,
        backend_switches_a_second: backends.switches as f64 / seconds,
    })
}

/// The transactions of a database so far. Sessions report them once a second.
async fn commits(connection: &mut PgConnection, database: &str) -> Result<f64> {
    let sql = "select xact_commit::float8 from pg_stat_database where datname = $1";
    let query = sqlx::query_scalar(sql).bind(database);
    Ok(query.fetch_one(connection).await?)
}

fn tell(raw: &mut Raw, idle: &Idle, kind: &str, sinks: usize) -> Result<()> {
    let together = idle.worker + idle.backends;
    println!(
        "  {sinks:>2} {kind:<8}{:>8.3}{:>10.3}{together:>10.3}{:>14.0}{:>18.1}{:>10.1}",
        idle.worker,
        idle.backends,
        idle.transactions_a_minute,
        idle.worker_switches_a_second,
        idle.backend_switches_a_second,
    );
    let line = json!({
        "kind": kind, "sinks": sinks, "worker_percent": idle.worker,
        "backends_percent": idle.backends,
        "transactions_a_minute": idle.transactions_a_minute,
        "worker_switches_a_second": idle.worker_switches_a_second,
        "backend_switches_a_second": idle.backend_switches_a_second,
    });
    raw.note(&line)
}
