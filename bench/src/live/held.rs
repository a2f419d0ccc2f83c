//! A transaction that writes and stays open for five seconds: nothing that was begun after it may
//! be read meanwhile. How long after its commit is everything as before?

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::sleep;

use super::contender::Contender;
use super::journal::Journal;
use super::latency::Stage;
use super::raw::Raw;
use crate::stats::quantile;
use crate::target::Target;

const RATE: u32 = 1_000;
const BEFORE: Duration = Duration::from_secs(3);
const OPEN: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(3);
/// The events that a median is taken of, once they flow again: those of 50 ms.
const WINDOW: u32 = 50;
/// What counts as before: a median of at most so many times what it was.
const AS_BEFORE: f64 = 2.0;

/// What a contender made of it, in milliseconds.
struct Recovery {
    /// The median before.
    before: f64,
    /// How many events had waited.
    held: u32,
    /// From the commit until the last of them arrived.
    caught_up: f64,
    /// From the commit until new events are as quick as before.
    as_before: f64,
}

/// Both contenders, once each.
pub(super) async fn run(stage: &mut Stage) -> Result<Vec<Target>> {
    println!(
        "\nA transaction holds the horizon for {OPEN:?}, at {RATE} events/s (ms after its commit)"
    );
    println!(
        "                  held  caught up  as before (median at most {AS_BEFORE} times that before)"
    );
    let mut raw = Raw::create("held")?;
    let mut recoveries = Vec::new();
    for who in [Contender::Plain, Contender::Relay] {
        let recovery = Box::pin(leg(stage, who)).await?;
        let Recovery {
            before,
            held,
            caught_up,
            as_before,
        } = recovery;
        println!("  {who:<12}{held:>8}{caught_up:>11.1}{as_before:>11.1}");
        let line = json!({
            "who": who.to_string(), "p50_before_ms": before, "held": held,
            "caught_up_ms": caught_up, "as_before_ms": as_before,
        });
        raw.note(&line)?;
        recoveries.push(recovery);
    }
    let [plain, relay] = recoveries.as_slice() else {
        anyhow::bail!("two contenders, two recoveries");
    };
    let note = format!(
        "{:.0} ms; the plain loop {:.0} ms",
        relay.caught_up, plain.caught_up
    );
    let ratio = relay.caught_up / plain.caught_up;
    Ok(vec![
        Target::at_most(
            "catching up with a held horizon, relay / plain loop",
            ratio,
            2.0,
        )
        .note(note),
    ])
}

async fn leg(stage: &mut Stage, who: Contender) -> Result<Recovery> {
    let run = stage.begin(who).await?;
    let mut holder = stage.database().connect().await;
    stage.publisher.flow(RATE, BEFORE / 3, &run.journal).await?;
    let before = stage.publisher.flow(RATE, BEFORE, &run.journal).await?;
    let journal = &run.journal;
    let lasting = OPEN + AFTER;
    let (opened, after) = tokio::join!(
        hold(&mut holder, journal),
        stage.publisher.flow(RATE, lasting, journal)
    );
    let ((opened, committed), after) = (opened?, after?);
    holder.close().await?;
    let journal = run.finish(after.end).await?;
    judge(&journal, before, after, opened, committed)
}

/// Writes an event, and keeps the transaction open. Returns when it began and when its commit
/// was acknowledged.
async fn hold(connection: &mut PgConnection, journal: &Journal) -> Result<(u64, u64)> {
    // An event without a number, so that nobody takes it for one that is measured.
    let write = "insert into outbox (topic, payload) select topic,
                     jsonb_set(payload, '{data}', '{}') from outbox
                 where payload #>> '{data,n}' = '0'";
    let mut transaction = connection.begin().await?;
    transaction.execute(write).await?;
    let opened = journal.now();
    sleep(OPEN).await;
    transaction.commit().await?;
    Ok((opened, journal.now()))
}

fn judge(
    journal: &Journal,
    before: Range<u32>,
    after: Range<u32>,
    opened: u64,
    committed: u64,
) -> Result<Recovery> {
    let before = quantile(&journal.latencies(before), 0.5);
    let waited = |number: &u32| (opened..committed).contains(&journal.committed_at(*number));
    let held = after.clone().filter(waited);
    let last = held.clone().map(|number| journal.arrived_at(number)).max();
    let since = |moment: u64| moment.saturating_sub(committed) as f64 / 1e6;
    let fresh = after
        .clone()
        .find(|&number| journal.committed_at(number) >= committed);
    let fresh = fresh.context("events were published after the commit")?;
    let windows = (fresh..after.end.saturating_sub(WINDOW)).step_by(10);
    let calm = windows.into_iter().find(|&from| {
        let median = quantile(&journal.latencies(from..from + WINDOW), 0.5);
        median <= AS_BEFORE * before
    });
    let calm = calm.context("the latency never became what it was before")?;
    Ok(Recovery {
        before,
        held: u32::try_from(held.count())?,
        caught_up: since(last.context("events were held")?),
        as_before: since(journal.committed_at(calm)),
    })
}
