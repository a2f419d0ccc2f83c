//! The sink `nats` against a real server with JetStream.

mod access;
mod delivery;
mod limits;
mod outages;
mod replays;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use outbox_sinks::nats::Nats as NatsKind;
use outbox_sinks::{
    Batch, Connector, Delivery, Event, Position, Session, Sink, SinkError, SinkKind, Verdict,
};
use serde_json::{Value, json};

fn connector(server: &str, settings: Value) -> Box<dyn Connector> {
    let mut table = json!({ "servers": [server] });
    let Value::Object(settings) = settings else {
        panic!("settings are a table")
    };
    table.as_object_mut().unwrap().extend(settings);
    NatsKind::connector("test", serde_json::from_value(table).unwrap()).unwrap()
}

async fn open(connector: &dyn Connector) -> Result<Box<dyn Sink>, SinkError> {
    let session = Session::new("test", 1, Duration::from_secs(4));
    connector.open(&session).await
}

/// A stream of its own for `<name>.>`.
async fn stream(jetstream: &Context, name: &str, change: impl FnOnce(&mut Config)) {
    let mut config = Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        ..Config::default()
    };
    change(&mut config);
    jetstream.create_stream(config).await.unwrap();
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

fn batch(events: Vec<Event>) -> Batch {
    Batch::new(events).unwrap()
}

/// Everything in a stream, in its order.
async fn stored(jetstream: &Context, name: &str) -> Vec<StreamMessage> {
    let mut stream: jetstream::stream::Stream = jetstream.get_stream(name).await.unwrap();
    let state = stream.info().await.unwrap().state.clone();
    let mut messages = Vec::new();
    if state.messages > 0 {
        for sequence in state.first_sequence..=state.last_sequence {
            messages.push(stream.get_raw_message(sequence).await.unwrap());
        }
    }
    messages
}

fn header<'a>(message: &'a StreamMessage, name: &str) -> &'a str {
    message.headers.get(name).map_or("", |value| value.as_str())
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
        _ => panic!("{verdict:?} is not known to this test"),
    };
    verdicts.into_iter().map(code).collect()
}

/// The first copy of each event, by key: all of them in outbox order is OB-4.
fn assert_complete_and_in_order(messages: &[StreamMessage], events: &[Event]) {
    let mut seen = HashSet::new();
    let mut by_key: HashMap<String, Vec<String>> = HashMap::new();
    for message in messages {
        let id = header(message, "event-id").to_owned();
        if seen.insert(id.clone()) {
            let body: Value = serde_json::from_slice(&message.payload).unwrap();
            let key = body["subject"].as_str().unwrap().to_owned();
            by_key.entry(key).or_default().push(id);
        }
    }
    let mut expected: HashMap<String, Vec<String>> = HashMap::new();
    for event in events {
        let key = event.subject().to_owned();
        expected.entry(key).or_default().push(event.id().to_owned());
    }
    assert_eq!(by_key, expected);
}
