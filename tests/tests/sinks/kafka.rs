//! The Kafka sink against a real broker, and against librdkafka's mock cluster for the
//! faults that a real one can't be made to show.

mod arrival;
mod faults;
mod limits;
mod outage;
mod refusals;
mod replays;
mod security;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outbox_sinks::kafka::Kind;
use outbox_sinks::{Batch, Connector, Delivery, Event, Position, Session, Sink, SinkKind, Verdict};
use outbox_tests::servers::KafkaMessage;

/// How long one delivery may take in tests that expect none to fail.
const PATIENT: Duration = Duration::from_secs(60);

/// A topic name of one's own.
fn topic_name(purpose: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{purpose}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The connector that these lines of TOML make.
fn connector(bootstrap: &str, settings: &str) -> Box<dyn Connector> {
    let brokers: Vec<_> = bootstrap.split(',').collect();
    let settings = format!("brokers = {brokers:?}\n{settings}");
    let settings = toml::from_str(&settings).expect("the settings are right");
    Kind::connector("test", settings).expect("the settings are right")
}

async fn open(bootstrap: &str, settings: &str, delivery_timeout: Duration) -> Box<dyn Sink> {
    let session = Session::new("test", 1, delivery_timeout);
    connector(bootstrap, settings)
        .open(&session)
        .await
        .expect("a client can be made")
}

/// Event `seq` about a subject, with `padding` bytes of data.
fn event(seq: i64, subject: &str, padding: usize) -> Event {
    let data = "x".repeat(padding);
    let payload = format!(
        r#"{{"id":"evt_{seq:06}","type":"node.up","tenantId":"ten_1","subject":"{subject}","time":"2026-09-24T10:15:02.114Z","data":{{"n":1.10,"pad":"{data}"}}}}"#
    );
    Event::new(Position::new(7, seq), "node.up", payload)
}

fn batch(events: Vec<Event>) -> Batch {
    Batch::new(events).expect("there are events")
}

/// Delivers as the runtime does: what is not delivered is sent again. Gives up after
/// as many attempts.
async fn deliver_all(sink: &mut dyn Sink, events: Vec<Event>, attempts: usize) {
    let mut rest = events;
    for _ in 0..attempts {
        let verdicts = match sink.deliver(&batch(rest.clone())).await {
            Ok(Delivery::All) => return,
            Ok(Delivery::Each(verdicts)) => verdicts,
            Ok(other) => panic!("{other:?} is not known to this test"),
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                continue;
            }
        };
        let left = rest.into_iter().zip(verdicts);
        rest = left
            .filter(|(_, verdict)| *verdict != Verdict::Delivered)
            .map(|(event, _)| event)
            .collect();
    }
    panic!(
        "{} events were not delivered in {attempts} attempts",
        rest.len()
    );
}

fn id_of(message: &KafkaMessage) -> String {
    let (_, id) = message
        .headers
        .iter()
        .find(|(name, _)| name == "id")
        .expect("a header `id`");
    String::from_utf8(id.clone()).expect("an id is text")
}

/// The ids of each key, in the order in which they lie in the topic. A key must lie in one
/// partition.
fn by_key(messages: &[KafkaMessage]) -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, (i32, Vec<String>)> = BTreeMap::new();
    for message in messages {
        let key = message.key.clone().expect("every message has a key");
        let key = String::from_utf8(key).expect("keys are text");
        let (partition, ids) = keys.entry(key).or_insert((message.partition, Vec::new()));
        assert_eq!(*partition, message.partition, "a key lies in one partition");
        ids.push(id_of(message));
    }
    keys.into_iter().map(|(key, (_, ids))| (key, ids)).collect()
}

/// The first appearance of each id is in order: nothing is newer than what comes after
/// it for the first time (OB-4).
fn assert_order(ids: &[String]) {
    let mut newest: Option<&String> = None;
    let mut seen = std::collections::BTreeSet::new();
    for id in ids {
        if seen.insert(id) {
            assert!(
                newest.is_none_or(|newest| newest < id),
                "{id} came after {newest:?}"
            );
            newest = Some(id);
        }
    }
}
