//! Where objects are put.

use std::collections::BTreeSet;

use outbox_sinks::Batch;
use serde_json::json;

use super::bucket::{Bucket, unpacked};
use super::{batch, event, open, with};

#[tokio::test]
async fn events_lie_in_the_folders_of_their_type_and_day() {
    let bucket = Bucket::new().await;
    let events = vec![
        event(1, 1, "node.up", "2026-09-24T23:59:59.999Z"),
        event(1, 2, "node.up", "2026-09-25T01:00:00+02:00"),
        event(1, 3, "node.up", "2026-09-25T00:00:00Z"),
        event(1, 4, "node.down", "2026-09-25T00:00:00Z"),
        // F8
        event(1, 5, "node.down", "n/a"),
        event(1, 6, "node.down", "292277026596-12-04T15:30:08Z"),
    ];
    let settings = json!({"prefix": "o", "partition_by": ["type", "date"], "compression": "none"});
    let mut sink = open(with(bucket.settings(), settings)).await;
    sink.deliver(&Batch::new(events).unwrap()).await.unwrap();

    let mut found = BTreeSet::new();
    for (key, bytes) in bucket.objects().await {
        let (folder, name) = key.rsplit_once('/').unwrap();
        assert!(
            name.starts_with("00000000000000000001.00000000000000000001-00000000000000000001.00000000000000000006-"),
            "the batch's range: {name}"
        );
        found.insert((folder.to_owned(), unpacked(&key, &bytes).lines().count()));
    }
    let expected = [
        ("o/_manifests", 1),
        ("o/type=node.down/dt=2026-09-25", 1),
        ("o/type=node.down/dt=__HIVE_DEFAULT_PARTITION__", 2),
        ("o/type=node.up/dt=2026-09-24", 2),
        ("o/type=node.up/dt=2026-09-25", 1),
    ];
    assert_eq!(
        found,
        expected
            .map(|(folder, lines)| (folder.to_owned(), lines))
            .into()
    );
}

#[tokio::test]
async fn keys_are_stored_exactly_as_they_are() {
    // F34. The prefix goes in as it is; a partition's value is encoded as Hive does, once.
    for (prefix, event_type, folder) in [
        ("a b", "x.y", "a b/type=x.y/"),
        ("a%20b", "x.y", "a%20b/type=x.y/"),
        ("a+b&c#d", "x.y", "a+b&c#d/type=x.y/"),
        ("ü→🙂", "x.y", "ü→🙂/type=x.y/"),
        ("p", "x. +&", "p/type=x. +&/"),
        ("p", "x.%20#", "p/type=x.%2520%23/"),
        ("p", "x.ü🙂", "p/type=x.ü🙂/"),
        ("p", "../x.y", "p/type=..%2Fx.y/"),
    ] {
        let bucket = Bucket::new().await;
        let settings = json!({"prefix": prefix, "partition_by": ["type"]});
        let mut sink = open(with(bucket.settings(), settings)).await;
        let one = Batch::new(vec![event(1, 1, event_type, "2026-09-24T10:15:02Z")]).unwrap();
        // Twice: the second time the name is looked up.
        for _ in 0..2 {
            sink.deliver(&one).await.unwrap();
        }
        let keys: Vec<_> = bucket.objects().await.into_keys().collect();
        assert_eq!(keys.len(), 2, "{keys:?}");
        assert!(
            keys.iter().any(|key| key.starts_with(folder)),
            "{folder}: {keys:?}"
        );
        assert_eq!(bucket.read_by_manifests().await.len(), 1);
    }
}

#[tokio::test]
async fn both_kinds_of_checksums_work() {
    for checksums in ["when-required", "when-supported"] {
        let bucket = Bucket::new().await;
        let mut sink = open(with(bucket.settings(), json!({"checksums": checksums}))).await;
        sink.deliver(&batch(1, 50)).await.unwrap();
        assert_eq!(bucket.read_by_manifests().await.len(), 50);
    }
}
