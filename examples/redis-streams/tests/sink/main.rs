//! The sink against a real server.
#![cfg(test)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in the functions that its tests share"
)]

mod access;
mod delivery;
mod durability;
mod outages;
mod refusals;

use std::time::Duration;

use example_redis_streams::RedisStreams;
use outbox_sinks::{
    Batch, Connector, Delivery, Event, Position, Session, Sink, SinkError, SinkKind, Verdict,
};
use outbox_tests::servers::{Redis, RedisEntry};
use serde_json::{Value, json};

/// Stands for every secret: no error may contain it.
const SECRET: &str = "hush-hush";

fn connector(url: &str, settings: Value) -> Box<dyn Connector> {
    let mut table = json!({ "url": url });
    let Value::Object(settings) = settings else {
        panic!("settings are a table")
    };
    table.as_object_mut().unwrap().extend(settings);
    RedisStreams::connector("test", serde_json::from_value(table).unwrap()).unwrap()
}

async fn open(connector: &dyn Connector) -> Result<Box<dyn Sink>, SinkError> {
    let session = Session::new("test", 1, Duration::from_secs(4));
    connector.open(&session).await
}

/// A sink that adds to this stream, or to a stream by this template.
async fn sink(url: &str, stream: &str) -> Box<dyn Sink> {
    open(&*connector(url, json!({ "stream": stream })))
        .await
        .unwrap()
}

fn event(seq: i64, subject: &str) -> Event {
    sized(seq, subject, 0)
}

fn sized(seq: i64, subject: &str, bytes: usize) -> Event {
    let payload = json!({
        "id": format!("evt_{seq}"), "type": "node.up", "subject": subject, "data": "x".repeat(bytes),
    });
    Event::new(Position::new(1, seq), "node.up", payload.to_string())
}

fn events(count: i64) -> Batch {
    batch((1..=count).map(|seq| event(seq, "node/7")).collect())
}

fn batch(events: Vec<Event>) -> Batch {
    Batch::new(events).unwrap()
}

async fn ids(redis: &Redis, stream: &str) -> Vec<String> {
    let entries = redis.entries(stream).await;
    let id = |entry: &RedisEntry| entry.field("id").to_owned();
    entries.iter().map(id).collect()
}

fn expected(batch: &Batch) -> Vec<String> {
    batch.iter().map(|event| event.id().to_owned()).collect()
}

/// What became of each event, in words.
fn codes(delivery: Delivery) -> Vec<String> {
    let Delivery::Each(verdicts) = delivery else {
        panic!("{delivery:?}")
    };
    let code = |verdict| match verdict {
        Verdict::Delivered => "delivered".to_owned(),
        Verdict::Unconfirmed => "unconfirmed".to_owned(),
        Verdict::Undeliverable(refusal) => refusal.code().to_owned(),
        Verdict::Refused(refusal) => format!("refused {}", refusal.code()),
        other => panic!("{other:?}"),
    };
    verdicts.into_iter().map(code).collect()
}
