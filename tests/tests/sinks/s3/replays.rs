//! What is delivered apart from the flow: replays, and events ahead of their turn.

use std::collections::BTreeMap;

use outbox_sinks::{Batch, Delivery};
use serde_json::{Value, json};

use super::bucket::{Bucket, manifests, unpacked};
use super::{batch, open, with};

/// The events at these places of `batch(1, 100)` as replays.
fn replays(count: u32, places: &[usize]) -> Batch {
    let all = batch(1, 100);
    let event = |place: &usize| all[*place].clone().as_replay(count);
    Batch::new(places.iter().map(event).collect::<Vec<_>>())
        .unwrap()
        .apart()
}

/// The lines of all data objects: what a reader of the partitions sees.
fn lines(objects: &BTreeMap<String, Vec<u8>>) -> Vec<Value> {
    let data = objects
        .iter()
        .filter(|(key, _)| !key.contains("_manifests"));
    data.flat_map(|(key, bytes)| {
        let text = unpacked(key, bytes);
        let parsed = text.lines().map(|line| serde_json::from_str(line).unwrap());
        parsed.collect::<Vec<_>>()
    })
    .collect()
}

#[tokio::test]
async fn replays_lie_beside_the_originals_and_claim_nothing() {
    let bucket = Bucket::new().await;
    let settings = json!({"prefix": "o", "partition_by": ["type"], "compression": "none"});
    let mut sink = open(with(bucket.settings(), settings)).await;
    sink.deliver(&batch(1, 100)).await.unwrap();
    let flow = bucket.objects().await;
    let places = [3, 4, 99];
    // The second time as after a lost answer.
    for _ in 0..2 {
        let delivery = sink.deliver(&replays(1, &places)).await.unwrap();
        assert_eq!(delivery, Delivery::All);
    }
    let once = bucket.objects().await;
    assert!(flow.iter().all(|(key, bytes)| once.get(key) == Some(bytes)));
    let new: BTreeMap<_, _> = once
        .clone()
        .into_iter()
        .filter(|(key, _)| !flow.contains_key(key))
        .collect();
    let folders = |objects: &BTreeMap<String, _>| -> Vec<String> {
        let data = objects.keys().filter(|key| !key.contains("_manifests"));
        data.map(|key| key.rsplit_once('/').unwrap().0.to_owned())
            .collect()
    };
    assert_eq!(folders(&new), ["o/type=command.queued", "o/type=node.down"]);
    assert!(
        folders(&flow)
            .iter()
            .any(|folder| *folder == folders(&new)[0])
    );
    assert!(new.keys().all(|key| key.contains("-apart.")));

    let replayed = lines(&new);
    let originals = lines(&flow);
    assert_eq!(replayed.len(), places.len());
    for line in &replayed {
        assert_eq!(line["replay"], 1);
        let original = originals
            .iter()
            .find(|original| original["id"] == line["id"]);
        assert_eq!(original.unwrap()["sequence"], line["sequence"]);
    }
    let [manifest] = &manifests(&once, "o/_manifests_apart/")[..] else {
        panic!("one manifest for the replays")
    };
    assert_eq!(manifest["apart"], true);
    assert_eq!(manifest["complete_up_to"], Value::Null);
    assert_eq!(manifest["events"], places.len());
    let [manifest] = &manifests(&once, "o/_manifests/")[..] else {
        panic!("the flow's manifest is alone in its folder")
    };
    assert_eq!(manifest["complete_up_to"], "50.100");
    assert_eq!(manifest["apart"], Value::Null);

    sink.deliver(&replays(2, &places)).await.unwrap();
    assert_eq!(bucket.objects().await.len(), once.len() + new.len());
}

#[tokio::test]
async fn an_event_ahead_of_its_turn_is_stored_apart_and_again_in_its_turn() {
    let bucket = Bucket::new().await;
    let mut sink = open(bucket.settings()).await;
    let one = batch(1, 1);
    for batch in [one.clone().apart(), one] {
        assert_eq!(sink.deliver(&batch).await.unwrap(), Delivery::All);
    }
    let objects = bucket.objects().await;
    assert_eq!(objects.len(), 4);
    let complete = |folder| {
        let found = manifests(&objects, folder);
        assert_eq!(found.len(), 1);
        found[0]["complete_up_to"].clone()
    };
    assert_eq!(complete("_manifests/"), "0.1");
    assert_eq!(complete("_manifests_apart/"), Value::Null);
}
