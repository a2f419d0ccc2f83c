//! What `outbox_publish` costs over a plain insert of the same row.

use anyhow::{Context, Result};
use outbox_tests::servers::Database;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::Instant;

use super::publisher::PAD;
use super::raw::Raw;
use crate::stats::{Ratio, median};
use crate::target::Target;

const STATEMENTS: u32 = 500;

const WAYS: [&str; 4] = [INSERT, PUBLISH, PUBLISH, INSERT];
const PUBLISH: &str = "select outbox_publish('node.connected', 'ten_1', 'node/1', $1::text)";
const INSERT: &str = "
insert into outbox (topic, payload) values ('node.connected', ('{
    \"id\": \"evt_01kbckfxnyfs5rgvg60wn4x1zb\", \"type\": \"node.connected\", \"tenantId\": \"ten_1\",
    \"subject\": \"node/1\", \"time\": \"2026-09-24T10:15:02.114Z\", \"data\": ' || $1::text || '}')::jsonb)";

/// Compares the two on one connection, within transactions that are rolled back: no commit's
/// flush is in the figures.
pub(super) async fn run(database: &Database, rounds: u32) -> Result<Vec<Target>> {
    let mut connection = database.connect().await;
    for way in WAYS {
        many(&mut connection, way).await?;
    }
    let mut raw = Raw::create("publish-cost")?;
    let (mut insert, mut publish) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let [mut inserting, mut publishing] = [0.0, 0.0];
        for way in WAYS {
            let us = many(&mut connection, way).await?;
            *if way == INSERT {
                &mut inserting
            } else {
                &mut publishing
            } += us / 2.0;
        }
        let line = json!({"round": round, "insert_us": inserting, "outbox_publish_us": publishing});
        raw.note(&line)?;
        insert.push(inserting);
        publish.push(publishing);
    }
    let more = insert
        .iter()
        .zip(&publish)
        .map(|(insert, publish)| publish - insert);
    let more = Ratio::of(more).context("there was a round")?;
    let (insert, publish) = (median(insert), median(publish));
    println!(
        "\nOne event through outbox_publish: {publish:.0} us, by a plain insert: {insert:.0} us, the way to the server included"
    );
    println!("  outbox_publish costs more: {more} us");
    Ok(Vec::new())
}

/// Microseconds a statement.
async fn many(connection: &mut PgConnection, sql: &'static str) -> Result<f64> {
    let data = format!("{{\"n\": 1, \"pad\": \"{PAD}\"}}");
    let mut transaction = connection.begin().await?;
    let start = Instant::now();
    for _ in 0..STATEMENTS {
        transaction.execute(sqlx::query(sql).bind(&data)).await?;
    }
    let us = start.elapsed().as_secs_f64() * 1e6 / f64::from(STATEMENTS);
    transaction.rollback().await?;
    Ok(us)
}
