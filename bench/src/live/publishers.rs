//! What a worker costs those who publish: their throughput with it and without it.
//!
//! Everybody shares the same cores here, so a worker takes time away that in the field would be
//! another machine's. Its process (and not its sessions in Postgres, which burden the publishers'
//! server wherever it runs) is therefore counted out: the throughput is compared for each unit
//! of processor time that the worker's process has left to all others.

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use outbox_tests::servers::Database;
use serde_json::json;
use sqlx::{Executor, PgConnection};
use tokio::time::Instant;

use super::lines::Lines;
use super::publish_cost;
use super::publisher::PAD;
use super::raw::Raw;
use crate::cpu::Cost;
use crate::lab::Lab;
use crate::stats::{Ratio, median};
use crate::target::Target;

const CLIENTS: [u32; 3] = [1, 8, 32];
const SETTLE: Duration = Duration::from_millis(150);
const LASTING: Duration = Duration::from_secs(1);
/// The form that takes text.
const PUBLISH: &str = "select outbox_publish('node.connected', 'ten_1', $1::text, $2::text)";

/// Clients, each with a key of its own and a number that rises.
struct Clients {
    connections: Vec<(PgConnection, u32)>,
    backends: Vec<u32>,
}

/// What a leg gave.
#[derive(Clone, Copy)]
struct Leg {
    events_a_second: f64,
    /// Processor time of the publishers' sessions for each event, in microseconds.
    backend_us: f64,
    /// The share of all cores that the worker's process took.
    worker_share: f64,
}

/// Measures what publishers feel.
///
/// # Errors
/// If something fails, or an event is lost or out of order.
pub async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let database = lab.database().await?;
    let mut raw = Raw::create("publishers")?;
    let mut targets = Vec::new();
    let mut tables = Vec::new();
    for clients in CLIENTS {
        let mut measured = Vec::new();
        for number in 1..=rounds {
            let name = format!("publishers-{clients}-{number}");
            let legs = Box::pin(round(&mut raw, &database, &name, clients)).await?;
            eprintln!(
                "  publishers, {clients} clients, round {number} of {rounds}: events/s off {:.0}, on {:.0} {:.0}, off {:.0}",
                legs[0].events_a_second,
                legs[1].events_a_second,
                legs[2].events_a_second,
                legs[3].events_a_second
            );
            measured.push(legs);
        }
        let (table, target) = tell(clients, &measured)?;
        tables.push(table);
        targets.push(target);
    }
    println!(
        "\nPublishers with one event a transaction, without and with a worker (medians of {rounds} rounds, twice each)"
    );
    println!(
        "           events/s            server us/event     worker's   with / without        the same for          without / without\n  clients   without    with     without    with    share                          the CPU that is left"
    );
    tables.iter().for_each(|table| println!("{table}"));
    targets.extend(Box::pin(publish_cost::run(&database, rounds)).await?);
    Ok(targets)
}

async fn round(raw: &mut Raw, database: &Database, name: &str, clients: u32) -> Result<[Leg; 4]> {
    let mut clients = Clients::connect(database, clients).await?;
    let mut admin = database.connect().await;
    admin.execute("truncate outbox").await?;
    let first = clients.leg(None).await?;
    admin.execute("truncate outbox").await?;
    let mut lines = Lines::start(database, name, 1)?;
    let probed = clients.publish_one_each().await?;
    lines.until_complete(probed).await?;
    let second = clients.leg(Some(&mut lines)).await?;
    let third = clients.leg(Some(&mut lines)).await?;
    let events: i64 = sqlx::query_scalar("select count(*) from outbox")
        .fetch_one(&mut admin)
        .await?;
    lines.until_complete(usize::try_from(events)?).await?;
    lines.worker.stop().await?;
    admin.execute("truncate outbox").await?;
    let last = clients.leg(None).await?;
    let legs = [first, second, third, last];
    for (leg, on) in legs.iter().zip([false, true, true, false]) {
        let line = json!({
            "name": name, "worker": on, "events_a_second": leg.events_a_second,
            "backend_us": leg.backend_us, "worker_share": leg.worker_share,
        });
        raw.note(&line)?;
    }
    Ok(legs)
}

impl Clients {
    async fn connect(database: &Database, clients: u32) -> Result<Self> {
        let (mut connections, mut backends) = (Vec::new(), Vec::new());
        for _ in 0..clients {
            let mut connection = database.connect().await;
            let query = sqlx::query_scalar("select pg_backend_pid()");
            let pid: i32 = query.fetch_one(&mut connection).await?;
            backends.push(u32::try_from(pid)?);
            connections.push((connection, 0));
        }
        Ok(Self {
            connections,
            backends,
        })
    }

    async fn publish_one_each(&mut self) -> Result<usize> {
        for (client, (connection, number)) in self.connections.iter_mut().enumerate() {
            publish(connection, client, number).await?;
        }
        Ok(self.connections.len())
    }

    /// Everybody publishes as fast as it can.
    async fn leg(&mut self, lines: Option<&mut Lines>) -> Result<Leg> {
        self.for_a_while(SETTLE).await?;
        let worker = lines.map(|lines| lines.worker.pid()).transpose()?;
        let worker: Vec<_> = worker.into_iter().collect();
        let before = (Cost::of_all(&self.backends), Cost::of_all(&worker));
        let start = Instant::now();
        let events = self.for_a_while(LASTING).await?;
        let seconds = start.elapsed().as_secs_f64();
        let backends = Cost::of_all(&self.backends) - before.0;
        let worker = Cost::of_all(&worker) - before.1;
        let cores = std::thread::available_parallelism()?.get() as f64;
        Ok(Leg {
            events_a_second: f64::from(events) / seconds,
            backend_us: backends.cpu.as_secs_f64() * 1e6 / f64::from(events.max(1)),
            worker_share: worker.cpu.as_secs_f64() / (seconds * cores),
        })
    }

    async fn for_a_while(&mut self, lasting: Duration) -> Result<u32> {
        let deadline = Instant::now() + lasting;
        let clients = self.connections.iter_mut().enumerate();
        let each = clients.map(|(client, (connection, number))| async move {
            let first = *number;
            while Instant::now() < deadline {
                publish(connection, client, number).await?;
            }
            anyhow::Ok(*number - first)
        });
        Ok(try_join_all(each).await?.into_iter().sum())
    }
}

async fn publish(connection: &mut PgConnection, client: usize, number: &mut u32) -> Result<()> {
    let data = format!("{{\"n\": {number}, \"pad\": \"{PAD}\"}}");
    let query = sqlx::query(PUBLISH)
        .bind(format!("node/{client}"))
        .bind(data);
    connection
        .execute(query)
        .await
        .context("publish an event")?;
    *number += 1;
    Ok(())
}

/// The table's line, and the target.
fn tell(clients: u32, rounds: &[[Leg; 4]]) -> Result<(String, Target)> {
    let off = |&[first, _, _, last]: &[Leg; 4]| [first, last];
    let on = |&[_, second, third, _]: &[Leg; 4]| [second, third];
    let mean = |legs: [Leg; 2], of: fn(&Leg) -> f64| legs.iter().map(of).sum::<f64>() / 2.0;
    let rate = |leg: &Leg| leg.events_a_second;
    let ratio = |of: fn(&Leg) -> f64| {
        let ratios = rounds
            .iter()
            .map(|legs| mean(on(legs), of) / mean(off(legs), of));
        Ratio::of(ratios).context("there was a round")
    };
    let (plain, left) = (
        ratio(|leg| leg.events_a_second)?,
        ratio(|leg| leg.events_a_second / (1.0 - leg.worker_share))?,
    );
    let noise = rounds.iter().map(|legs| rate(&legs[0]) / rate(&legs[3]));
    let noise = Ratio::of(noise).context("there was a round")?;
    // What a typical pair of equal legs differs by, and not the worst: that would excuse anything.
    let typical = median(
        rounds
            .iter()
            .map(|legs| (rate(&legs[0]) / rate(&legs[3]) - 1.0).abs()),
    );
    let off_median = |of: fn(&Leg) -> f64| median(rounds.iter().map(|legs| mean(off(legs), of)));
    let on_median = |of: fn(&Leg) -> f64| median(rounds.iter().map(|legs| mean(on(legs), of)));
    let [shown, left_shown, noise_shown] = [&plain, &left, &noise].map(ToString::to_string);
    let table = format!(
        "  {clients:>7}{:>10.0}{:>8.0}{:>12.0}{:>8.0}{:>8.1} %   {shown:<22}{left_shown:<22}{noise_shown}",
        off_median(|leg| leg.events_a_second),
        on_median(|leg| leg.events_a_second),
        off_median(|leg| leg.backend_us),
        on_median(|leg| leg.backend_us),
        100.0 * on_median(|leg| leg.worker_share),
    );
    let name = format!("{clients} publishers with a worker / without, for CPU left");
    let least = (100.0 * (1.0 - typical)).floor() / 100.0;
    let target = Target::at_least(name, left.median(), least);
    let note = format!(
        "as it is {plain}; two legs without a worker: {noise}, typically {:.0} % apart",
        100.0 * typical
    );
    Ok((table, target.note(note)))
}
