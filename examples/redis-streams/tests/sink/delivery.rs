//! What arrives, in which order and in which form.

use outbox_sinks::{Delivery, Event, Position};
use outbox_tests::servers::shared;
use serde_json::json;

use super::{batch, codes, connector, event, events, expected, ids, open, sink};

#[tokio::test]
async fn a_batch_arrives_in_its_order() {
    let redis = shared::redis().await;
    let mut sink = sink(&redis.url(), "order").await;
    let all = events(1_500);
    let (first, second) = all.halves().unwrap();
    for part in [first, second] {
        assert_eq!(sink.deliver(&part).await.unwrap(), Delivery::All);
    }
    assert_eq!(ids(redis, "order").await, expected(&all));
}

#[tokio::test]
async fn numbers_keep_their_digits() {
    let redis = shared::redis().await;
    let data = r#"{"n":1234567890123456789,"m":1.10,"k":18446744073709551616}"#;
    let payload = format!(r#"{{"id":"e","type":"node.up","subject":"node/7","data":{data}}}"#);
    let events = batch(vec![Event::new(Position::new(3, 4), "node.up", payload)]);
    for format in ["native", "cloudevents", "cloudevents-binary"] {
        let stream = format!("digits-{format}");
        let settings = json!({ "stream": stream, "format": format });
        let mut sink = open(&*connector(&redis.url(), settings)).await.unwrap();
        assert_eq!(sink.deliver(&events).await.unwrap(), Delivery::All);
        let entry = redis.entries(&stream).await.remove(0);
        assert!(entry.field("data").contains(data), "{entry:?}");
        let fields = ["id", "type", "sequence", "subject"].map(|name| entry.field(name));
        assert_eq!(fields, ["e", "node.up", "3.4", "node/7"]);
        let is_binary = format == "cloudevents-binary";
        assert_eq!(entry.field("ce-id"), if is_binary { "e" } else { "" });
    }
}

#[tokio::test]
async fn a_replay_has_the_same_id_and_is_marked() {
    let redis = shared::redis().await;
    let mut sink = sink(&redis.url(), "replays").await;
    for count in [0, 1, 2] {
        let again = batch(vec![event(1, "node/7").as_replay(count)]).apart();
        assert_eq!(sink.deliver(&again).await.unwrap(), Delivery::All);
    }
    let entries = redis.entries("replays").await;
    let marks: Vec<_> = entries.iter().map(|e| e.field("outbox-replay")).collect();
    assert_eq!(marks, ["", "1", "2"]);
    assert!(entries.iter().all(|entry| entry.field("id") == "evt_1"));
}

#[tokio::test]
async fn an_event_that_can_never_be_sent_holds_nobody_back() {
    let redis = shared::redis().await;
    let mut sink = sink(&redis.url(), "never.{subject}").await;
    let broken = Event::new(Position::new(1, 2), "node.up", "[1]");
    let nameless = event(3, "");
    let some = batch(vec![
        event(1, "a"),
        broken.clone(),
        nameless.clone(),
        event(4, "a"),
    ]);
    let delivery = sink.deliver(&some).await.unwrap();
    let expected = ["delivered", "MISSING_FIELD", "MISSING_FIELD", "delivered"];
    assert_eq!(codes(delivery), expected);
    assert_eq!(ids(redis, "never.a").await, ["evt_1", "evt_4"]);
    let nothing_left = sink.deliver(&batch(vec![nameless])).await.unwrap();
    assert_eq!(codes(nothing_left), ["MISSING_FIELD"]);
    let settings = json!({ "stream": "never" });
    let mut fixed = open(&*connector(&redis.url(), settings)).await.unwrap();
    let delivery = fixed.deliver(&batch(vec![broken])).await.unwrap();
    assert_eq!(codes(delivery), ["MALFORMED_PAYLOAD"]);
}

#[tokio::test]
async fn a_stream_with_a_largest_length_drops_its_oldest_entries() {
    let redis = shared::redis().await;
    let settings = json!({ "stream": "short", "max_len": 100 });
    let mut sink = open(&*connector(&redis.url(), settings)).await.unwrap();
    let all = events(1_000);
    assert_eq!(sink.deliver(&all).await.unwrap(), Delivery::All);
    let left = ids(redis, "short").await;
    // Redis drops whole nodes of 100 entries, so it is about the length and never less.
    assert!((100..=300).contains(&left.len()), "{}", left.len());
    assert!(expected(&all).ends_with(&left));
}

#[tokio::test]
async fn the_database_of_the_url_is_used() {
    let redis = shared::redis().await;
    let mut sink = sink(&format!("{}/3", redis.url()), "third").await;
    assert_eq!(sink.deliver(&events(2)).await.unwrap(), Delivery::All);
    assert!(ids(redis, "third").await.is_empty());
    let keyspace: String = redis.run("INFO keyspace").await;
    assert!(keyspace.contains("db3:keys=1"), "{keyspace}");
}

#[tokio::test]
async fn the_order_is_that_of_the_streams() {
    let by_area = connector("redis://h", json!({}));
    assert_eq!(by_area.key(&event(1, "node/7")), "events.node");
    let by_tenant = connector("redis://h", json!({ "stream": "{tenantId}" }));
    assert_eq!(by_tenant.key(&event(1, "node/7")), "node/7");
}
