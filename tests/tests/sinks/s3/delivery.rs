//! Completeness, order, repetition.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::{Event, Position};
use outbox_sinks::{Batch, Delivery, ErrorKind, Verdict};
use outbox_tests::servers::S3;
use serde_json::{Value, json};

use super::bucket::Bucket;
use super::{batch, connector, event, open, with};

/// `txid.seq` as numbers.
fn position(line: &Value) -> (u64, i64) {
    let (txid, seq) = line["sequence"].as_str().unwrap().split_once('.').unwrap();
    (txid.parse().unwrap(), seq.parse().unwrap())
}

#[tokio::test]
async fn every_event_arrives_once_and_each_type_in_order_whatever_the_compression() {
    for compression in ["zstd", "gzip", "none"] {
        let bucket = Bucket::new().await;
        let settings = json!({"prefix": "outbox", "compression": compression, "partition_by": ["type", "date"]});
        let mut sink = open(with(bucket.settings(), settings)).await;
        for first in [1, 1_001, 2_001] {
            assert_eq!(
                sink.deliver(&batch(first, first + 999)).await.unwrap(),
                Delivery::All
            );
        }
        sink.close().await.unwrap();

        let lines = bucket.read_by_manifests().await;
        assert_eq!(lines.len(), 3_000, "{compression}");
        let mut seen = BTreeMap::<_, Vec<_>>::new();
        for line in &lines {
            seen.entry(line["type"].to_string())
                .or_default()
                .push(position(line));
        }
        assert_eq!(seen.len(), 3);
        assert!(
            seen.values()
                .all(|positions| positions.is_sorted_by(|a, b| a < b))
        );
    }
}

#[tokio::test]
async fn another_content_for_the_same_range_gets_a_name_of_its_own() {
    // The settings changed between two attempts, or another database writes here.
    let bucket = Bucket::new().await;
    open(bucket.settings())
        .await
        .deliver(&batch(1, 10))
        .await
        .unwrap();
    let before = bucket.objects().await;
    let mut other = open(with(bucket.settings(), json!({"format": "cloudevents"}))).await;
    assert_eq!(other.deliver(&batch(1, 10)).await.unwrap(), Delivery::All);
    let after = bucket.objects().await;
    assert_eq!(after.len(), 2 * before.len());
    assert!(
        before
            .iter()
            .all(|(key, bytes)| after.get(key) == Some(bytes))
    );
}

#[tokio::test]
async fn an_event_that_can_not_be_sent_does_not_hold_up_its_batch() {
    let bucket = Bucket::new().await;
    let events = vec![
        event(1, 1, "node.up", "2026-09-24T10:15:02Z"),
        Event::new(Position::new(1, 2), "node.up", "no json"),
        event(1, 3, "node.up", "2026-09-24T10:15:02Z"),
    ];
    let mut sink = open(with(bucket.settings(), json!({"partition_by": ["type"]}))).await;
    let delivery = sink.deliver(&Batch::new(events).unwrap()).await.unwrap();
    let Delivery::Each(verdicts) = delivery else {
        panic!("one of them can't be sent");
    };
    let [
        Verdict::Delivered,
        Verdict::Undeliverable(refusal),
        Verdict::Delivered,
    ] = verdicts.as_slice()
    else {
        panic!("{verdicts:?}");
    };
    assert_eq!(refusal.code(), "MALFORMED_PAYLOAD");
    assert_eq!(bucket.read_by_manifests().await.len(), 2);

    let alone = Batch::new(vec![Event::new(Position::new(1, 2), "node.up", "no json")]).unwrap();
    assert!(matches!(
        sink.deliver(&alone).await.unwrap(),
        Delivery::Each(_)
    ));
    assert_eq!(
        bucket.objects().await.len(),
        2,
        "nothing was written for it"
    );
}

#[tokio::test]
async fn a_probe_tells_a_bucket_that_is_there_from_one_that_is_not() {
    let bucket = Bucket::new().await;
    connector(bucket.settings()).probe().await.unwrap();
    assert!(bucket.objects().await.is_empty(), "a probe changes nothing");

    let missing = with(
        bucket.settings(),
        json!({"bucket": "there-is-no-such-bucket"}),
    );
    let error = connector(missing).probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.advice().unwrap().contains("create the bucket"));
}

#[tokio::test]
async fn wrong_credentials_are_told_apart_and_not_shown() {
    let bucket = Bucket::new().await;
    for changes in [
        json!({"secret_access_key": "hush"}),
        json!({"access_key_id": "AKIAHUSH"}),
    ] {
        let wrong = with(bucket.settings(), changes);
        let error = connector(wrong.clone()).probe().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(
            !format!("{error:?}").to_lowercase().contains("hush"),
            "{error:?}"
        );
        let error = open(wrong).await.deliver(&batch(1, 3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(
            !format!("{error:?}").to_lowercase().contains("hush"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_an_outage_and_the_same_sink_goes_on_when_it_is_back() {
    let mut server = S3::start().await;
    let bucket = Bucket::on(&server);
    let mut sink = open(bucket.settings()).await;
    sink.deliver(&batch(1, 100)).await.unwrap();
    server.stop().await;
    for _ in 0..2 {
        let error = sink.deliver(&batch(101, 200)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    server.start_again().await;
    assert_eq!(sink.deliver(&batch(101, 200)).await.unwrap(), Delivery::All);
    assert_eq!(bucket.read_by_manifests().await.len(), 200);
}

#[tokio::test]
async fn a_large_object_is_put_in_one_piece() {
    let bucket = Bucket::new().await;
    let data = "x".repeat(4_000);
    let events: Vec<_> = (1..=4_000)
        .map(|seq| {
            let payload = json!({"id": format!("evt_{seq}"), "type": "node.up", "data": data});
            Event::new(Position::new(1, seq), "node.up", payload.to_string())
        })
        .collect();
    let mut sink = open(with(bucket.settings(), json!({"compression": "none"}))).await;
    assert_eq!(
        sink.deliver(&Batch::new(events).unwrap()).await.unwrap(),
        Delivery::All
    );
    let sizes: Vec<_> = bucket
        .objects()
        .await
        .into_values()
        .map(|bytes| bytes.len())
        .collect();
    assert!(sizes.iter().any(|size| *size > 16_000_000), "{sizes:?}");
    assert_eq!(bucket.read_by_manifests().await.len(), 4_000);
}

#[test]
fn batches_are_large_and_wait() {
    // F7: ten events and then silence are written after `max_wait`.
    let limits = connector(json!({"bucket": "b"})).batch_limits();
    assert_eq!(limits.max_bytes, 64 << 20);
    assert_eq!(limits.max_wait, Duration::from_secs(300));
}
