//! The plainest live loop: every millisecond one query, produce what it finds, wait for the
//! acknowledgements. It holds no lease, saves no cursor, and gives up at the first error: what
//! it does not do is what the relay's guarantees may cost.

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::join_all;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde::Deserialize;
use sqlx::{Connection, PgConnection};
use tokio::time::{MissedTickBehavior, interval};

use crate::floor::kafka::options;

/// Rows after a position and below the horizon, which the same statement looks at. The order names
/// the table: `txid` alone would be the text that is selected.
const READ: &str = "
select txid::text, seq, topic, payload::text from outbox
where (txid, seq) > ($1::text::xid8, $2) and txid >= $1::text::xid8
    and txid < pg_snapshot_xmin(pg_current_snapshot())
order by outbox.txid, seq limit 5000";

type Row = (String, i64, String, String);

#[derive(Deserialize)]
struct Fields<'a> {
    id: &'a str,
    subject: &'a str,
}

/// Ships from the beginning of the outbox until it is killed.
///
/// # Errors
/// At the first one.
pub async fn run(database: &str, brokers: &str, topic: &str) -> Result<()> {
    let mut connection = PgConnection::connect(database).await?;
    let producer: FutureProducer = options(brokers).create()?;
    let (mut txid, mut seq) = ("0".to_owned(), 0_i64);
    let mut tick = interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let query = sqlx::query_as(READ).bind(&txid).bind(seq);
        let rows: Vec<Row> = query.fetch_all(&mut connection).await?;
        let sent: Vec<_> = rows
            .iter()
            .map(|row| send(&producer, topic, row))
            .collect::<Result<_>>()?;
        for report in join_all(sent).await {
            report?.map_err(|(error, _)| error)?;
        }
        if let Some(last) = rows.into_iter().next_back() {
            (txid, seq, ..) = last;
        }
    }
}

/// Sends the bytes that the relay would.
fn send(
    producer: &FutureProducer,
    topic: &str,
    (txid, seq, event_type, payload): &Row,
) -> Result<rdkafka::producer::DeliveryFuture> {
    let fields: Fields<'_> = serde_json::from_str(payload)?;
    let open = payload.strip_suffix('}').context("an event is an object")?;
    let body = format!("{open},\"sequence\":\"{txid}.{seq}\"}}");
    let header = |key, value| Header {
        key,
        value: Some(value),
    };
    let headers = OwnedHeaders::new()
        .insert(header("id", fields.id))
        .insert(header("type", event_type.as_str()))
        .insert(header("content-type", "application/json"));
    let record = FutureRecord::to(topic)
        .key(fields.subject)
        .payload(&body)
        .headers(headers);
    producer
        .send_result(record)
        .map_err(|(error, _)| error.into())
}
