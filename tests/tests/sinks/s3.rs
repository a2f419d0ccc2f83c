//! The sink `s3` against a real S3 API, and against a scripted one for the faults that a real one
//! does not show on demand.

mod bucket;
mod delivery;
mod faults;
mod layout;
mod ranges;
mod replays;
mod scripted;
mod taken;

use std::time::Duration;

use outbox::{Event, Position};
use outbox_sinks::{Batch, Connector, Session, Sink, SinkError, SinkKind, s3::Kind};
use serde_json::{Value, json};

/// A connector with these settings.
fn connector(settings: Value) -> Box<dyn Connector> {
    let settings = serde_json::from_value(settings).expect("the settings of a test can be read");
    Kind::connector("warehouse", settings).expect("the settings of a test are right")
}

/// The settings, with some of them changed.
fn with(mut settings: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else {
        panic!("changes are an object")
    };
    settings.as_object_mut().unwrap().extend(changes);
    settings
}

/// An open sink whose deliveries may take `timeout`.
async fn open_within(settings: Value, timeout: Duration) -> Result<Box<dyn Sink>, SinkError> {
    let session = Session::new("warehouse", 1, timeout);
    connector(settings).open(&session).await
}

/// An open sink.
async fn open(settings: Value) -> Box<dyn Sink> {
    open_within(settings, Duration::from_secs(30))
        .await
        .expect("a sink opens")
}

fn event(txid: u64, seq: i64, event_type: &str, time: &str) -> Event {
    let payload = json!({
        "id": format!("evt_{seq}"), "type": event_type, "tenantId": "ten_1",
        "subject": format!("node/{}", seq % 7), "time": time, "data": {"n": seq},
    });
    Event::new(
        Position::new(txid, seq),
        event_type.to_owned(),
        payload.to_string(),
    )
}

/// Events `first..=last`, of a few types, two to a transaction.
fn batch(first: i64, last: i64) -> Batch {
    let types = ["node.up", "node.down", "command.queued"];
    let events: Vec<_> = (first..=last)
        .map(|seq| {
            let event_type = types[usize::try_from(seq).unwrap() % types.len()];
            event(
                seq.unsigned_abs() / 2,
                seq,
                event_type,
                "2026-09-24T10:15:02.114Z",
            )
        })
        .collect();
    Batch::new(events).expect("a batch of some events")
}
