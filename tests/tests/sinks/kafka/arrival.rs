//! Events arrive completely, in order, in the right partition and in the right form.

use outbox_sinks::Delivery;
use outbox_tests::servers::shared;

use super::{PATIENT, assert_order, batch, by_key, event, open, topic_name};

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_events_arrive_once_and_in_order_of_their_key() {
    let kafka = shared::kafka().await;
    let topic = topic_name("order");
    kafka.create_topic(&topic, 3).await;
    let settings = format!("topic = \"{topic}\"");
    let mut seq = 0;
    // A fresh sink in between: its first batch meets a client without metadata.
    for _lease in 0..5 {
        let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
        for _batch in 0..2 {
            let events = (0..500).map(|i| event(seq + i, &format!("node/{}", i % 17), 100));
            let delivery = sink
                .deliver(&batch(events.collect()))
                .await
                .expect("all is well");
            assert_eq!(delivery, Delivery::All);
            seq += 500;
        }
        sink.close().await.expect("closing does not fail");
    }
    let messages = kafka.messages(&topic).await;
    assert_eq!(messages.len(), 5_000);
    let keys = by_key(&messages);
    assert_eq!(keys.len(), 17);
    let mut all = 0;
    for ids in keys.values() {
        assert_order(ids);
        all += ids.len();
    }
    assert_eq!(all, 5_000, "each event came once");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_lie_in_the_partition_that_a_java_producer_chooses() {
    // Kafka's own test of its murmur2 (UtilsTest.testMurmur2).
    const HASHES: [(&str, i32); 5] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("abc", 479_470_107),
    ];
    let kafka = shared::kafka().await;
    let topic = topic_name("partitions");
    kafka.create_topic(&topic, 7).await;
    let mut sink = open(&kafka.bootstrap(), &format!("topic = \"{topic}\""), PATIENT).await;
    let events = (0..).zip(HASHES).map(|(seq, (key, _))| event(seq, key, 0));
    sink.deliver(&batch(events.collect()))
        .await
        .expect("all is well");
    for message in kafka.messages(&topic).await {
        let key = message.key.expect("every message has a key");
        let (_, hash) = HASHES
            .iter()
            .find(|(name, _)| name.as_bytes() == key)
            .expect("our key");
        assert_eq!(message.partition, (hash & 0x7fff_ffff) % 7, "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_has_its_body_and_its_headers() {
    let kafka = shared::kafka().await;
    let topic = topic_name("formats");
    kafka.create_topic(&topic, 1).await;
    for format in ["native", "cloudevents", "cloudevents-binary"] {
        let settings = format!("topic = \"{topic}\"\nsource = \"/shop\"\nformat = \"{format}\"");
        let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
        sink.deliver(&batch(vec![event(1, "node/7", 1)]))
            .await
            .expect("all is well");
    }
    let messages = kafka.messages(&topic).await;
    let body = |i: usize| {
        let payload: &Option<Vec<u8>> = &messages[i].payload;
        String::from_utf8(payload.clone().expect("a body")).expect("bodies are text")
    };
    let headers = |i: usize| -> Vec<String> {
        let shown = |(name, value): &(String, Vec<u8>)| {
            format!("{name}={}", String::from_utf8_lossy(value))
        };
        messages[i].headers.iter().map(shown).collect()
    };
    let common = ["id=evt_000001", "type=node.up"];
    assert!(
        body(0).ends_with(r#""data":{"n":1.10,"pad":"x"},"sequence":"7.1"}"#),
        "{}",
        body(0)
    );
    assert_eq!(
        headers(0),
        [&common[..], &["content-type=application/json"]].concat()
    );
    assert!(body(1).starts_with(r#"{"specversion":"1.0","id":"evt_000001","source":"/shop""#));
    assert_eq!(
        headers(1),
        [&common[..], &["content-type=application/cloudevents+json"]].concat()
    );
    assert_eq!(body(2), r#"{"n":1.10,"pad":"x"}"#);
    let binary = [
        "content-type=application/json",
        "ce_specversion=1.0",
        "ce_id=evt_000001",
        "ce_source=/shop",
        "ce_type=node.up",
        "ce_sequence=00000000000000000007.00000000000000000001",
        "ce_subject=node/7",
        "ce_time=2026-09-24T10:15:02.114Z",
        "ce_tenantid=ten_1",
    ];
    assert_eq!(headers(2), [&common[..], &binary].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_key_is_no_key() {
    let kafka = shared::kafka().await;
    let topic = topic_name("keyless");
    kafka.create_topic(&topic, 1).await;
    let settings = format!("topic = \"{topic}\"\nkey = \"\"");
    let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
    sink.deliver(&batch(vec![event(1, "node/7", 1)]))
        .await
        .expect("all is well");
    assert_eq!(kafka.messages(&topic).await[0].key, None);
}
