//! A range has one set of names and bytes, whoever writes it and however often (OB-8).

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::{Event, Position};
use outbox_sinks::{Batch, Delivery, Verdict};
use outbox_tests::servers::{Mode, Proxy, shared};
use serde_json::json;
use tokio::task::JoinSet;

use super::bucket::{Bucket, manifests};
use super::{batch, connector, event, open, open_within, with};

#[test]
fn a_batch_that_was_begun_comes_again_as_it_was() {
    assert!(connector(json!({"bucket": "b"})).frozen_ranges());
}

/// Whoever changes one of these names stores what is under way in some bucket once more, and
/// changes what the guide promises.
#[tokio::test]
async fn the_names_that_a_range_has_today_are_the_ones_it_always_had() {
    let bucket = Bucket::new().await;
    let settings = json!({"prefix": "outbox", "partition_by": ["type", "date"]});
    let mut sink = open(with(bucket.settings(), settings)).await;
    let event = |(seq, event_type)| {
        let payload = format!(
            r#"{{"id": "evt_{seq}", "type": "{event_type}", "time": "2026-09-24T10:15:02.114Z", "data": {{"n": 1.10}}}}"#
        );
        Event::new(Position::new(7, seq), event_type, payload)
    };
    let events = (1..).zip(["node.up", "node.down", "node.up"]).map(event);
    let range = Batch::new(events.collect::<Vec<_>>()).unwrap();
    sink.deliver(&range).await.unwrap();
    let keys: Vec<_> = bucket.objects().await.into_keys().collect();
    let range =
        "00000000000000000007.00000000000000000001-00000000000000000007.00000000000000000003";
    let expected = [
        format!("outbox/_manifests/{range}-7b5d4d23c2afe3ec.json"),
        format!("outbox/type=node.down/dt=2026-09-24/{range}-f9f3d3bf61e960a6.ndjson.zst"),
        format!("outbox/type=node.up/dt=2026-09-24/{range}-e24cf6ea7549e46c.ndjson.zst"),
    ];
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn a_range_has_the_same_names_and_bytes_however_it_comes() {
    for compression in ["zstd", "gzip", "none"] {
        let bucket = Bucket::new().await;
        let settings = json!({"partition_by": ["type"], "compression": compression});
        let settings = with(bucket.settings(), settings);
        let mut sink = open(settings.clone()).await;
        assert_eq!(sink.deliver(&batch(1, 100)).await.unwrap(), Delivery::All);
        let stored = bucket.objects().await;
        assert_eq!(stored.len(), 4, "three types and a manifest");
        // Cut out of a larger page; by another owner; with puts that overwrite.
        let cut = batch(1, 5_000).slice(0..100).unwrap();
        for conditional_put in [true, false] {
            let changes = json!({"conditional_put": conditional_put});
            let mut other = open(with(settings.clone(), changes)).await;
            assert_eq!(other.deliver(&cut).await.unwrap(), Delivery::All);
            assert_eq!(bucket.objects().await, stored, "{compression}");
        }
    }
}

/// Three events, of which the second and fourth can never be stored.
fn partly_undeliverable() -> Batch {
    let time = "2026-09-24T10:15:02Z";
    let events = vec![
        event(1, 1, "node.up", time),
        Event::new(Position::new(1, 2), "node.up", "no json"),
        event(1, 3, "node.down", time),
        event(1, 4, &format!("node.{}", "x".repeat(1_000)), time),
        event(1, 5, "node.up", time),
    ];
    Batch::new(events).unwrap()
}

#[tokio::test]
async fn a_range_with_undeliverable_events_is_complete_without_them_and_always_the_same() {
    let bucket = Bucket::new().await;
    let settings = with(bucket.settings(), json!({"partition_by": ["type"]}));
    let mut stored = BTreeMap::new();
    for conditional_put in [true, true, false] {
        let changes = json!({"conditional_put": conditional_put});
        let mut sink = open(with(settings.clone(), changes)).await;
        let delivery = sink.deliver(&partly_undeliverable()).await.unwrap();
        let Delivery::Each(verdicts) = delivery else {
            panic!("two of them can't be sent");
        };
        let codes: Vec<_> = verdicts
            .iter()
            .map(|verdict| match verdict {
                Verdict::Delivered => "",
                Verdict::Undeliverable(refusal) => refusal.code(),
                Verdict::Refused(_) | Verdict::Unconfirmed | _ => {
                    panic!("a range is settled as a whole: {verdict:?}")
                }
            })
            .collect();
        assert_eq!(codes, ["", "MALFORMED_PAYLOAD", "", "KEY_TOO_LONG", ""]);
        let now = bucket.objects().await;
        assert!(stored.is_empty() || stored == now);
        stored = now;
    }
    let [manifest] = &manifests(&stored, "_manifests/")[..] else {
        panic!("one manifest for the range")
    };
    assert_eq!(manifest["events"], 3);
    assert_eq!(manifest["complete_up_to"], "1.5");
    assert_eq!(manifest["undeliverable"], json!(["1.2", "1.4"]));
}

/// F1: the owner stands still in an upload, another one finishes the range and goes on, and then
/// the first one's requests arrive.
#[tokio::test]
async fn what_an_owner_that_was_thought_dead_uploads_late_changes_nothing() {
    for conditional_put in [true, false] {
        let server = shared::s3().await;
        let bucket = Bucket::on(server);
        let proxy = Proxy::start(server.addr()).await;
        let changes = json!({"partition_by": ["type"], "conditional_put": conditional_put});
        let by_proxy = bucket.settings_through(&format!("http://{}", proxy.addr()));
        let by_proxy = with(by_proxy, changes.clone());
        proxy.set(Mode::Hang);
        let mut stopped = open_within(by_proxy, Duration::from_secs(30))
            .await
            .unwrap();
        let mut late = JoinSet::new();
        late.spawn(async move { stopped.deliver(&batch(1, 100)).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(bucket.objects().await.is_empty(), "it stands still");

        let mut next = open(with(bucket.settings(), changes)).await;
        for range in [batch(1, 100), batch(101, 200)] {
            assert_eq!(next.deliver(&range).await.unwrap(), Delivery::All);
        }
        let stored = bucket.objects().await;
        assert!(late.try_join_next().is_none(), "it still stands still");
        proxy.set(Mode::Pass);
        let delivery = late.join_next().await.expect("a task was spawned");
        assert_eq!(delivery.unwrap().unwrap(), Delivery::All);
        assert_eq!(bucket.objects().await, stored);
        assert_eq!(bucket.read_by_manifests().await.len(), 200);
    }
}
