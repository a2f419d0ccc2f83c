//! Requests that a broker refuses for good: nobody is blamed at once, and nothing of the
//! same key overtakes.

use std::time::Duration;

use outbox_sinks::{Delivery, Event, Sink, Verdict};
use outbox_tests::servers::{KafkaMessage, shared};
use tokio::time::Instant;

use super::{PATIENT, assert_order, batch, by_key, event, open, topic_name};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_broker_refuses_blames_nobody_for_good_and_nothing_overtakes_it() {
    let kafka = shared::kafka().await;
    let topic = topic_name("small");
    kafka
        .create_topic_with(&topic, 1, &[("max.message.bytes", "20000")])
        .await;
    let settings = format!(
        "topic = \"{topic}\"\ncompression = \"none\"\nlibrdkafka = {{ \"batch.num.messages\" = 3 }}"
    );
    let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
    let padding = |seq| if seq == 4 { 30_000 } else { 100 };
    let events: Vec<_> = (0..30)
        .map(|seq| event(seq, "node/7", padding(seq)))
        .collect();
    let start = Instant::now();
    let delivery = sink
        .deliver(&batch(events.clone()))
        .await
        .expect("some arrive");
    let Delivery::Each(verdicts) = delivery else {
        panic!("one is too large for the broker")
    };
    let first = verdicts
        .iter()
        .position(|verdict| *verdict != Verdict::Delivered);
    let first = first.expect("not all were delivered");
    assert!(
        first <= 4 && first + 3 > 4,
        "the request of three that holds the fifth: {first}"
    );
    assert!(
        verdicts
            .iter()
            .all(|verdict| !matches!(verdict, Verdict::Undeliverable(_)))
    );
    let refused = |verdict: &&Verdict| matches!(verdict, Verdict::Refused(_));
    // Who shares a request with it is not told from it.
    assert!(verdicts.iter().filter(refused).count() <= usize::from(refused(&&verdicts[4])));
    assert!(
        verdicts[first..]
            .iter()
            .all(|verdict| *verdict != Verdict::Delivered)
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "nothing waits for a timeout"
    );
    assert_eq!(
        kafka.messages(&topic).await.len(),
        first,
        "nothing after it was written"
    );

    let (poison, rest): (Vec<_>, Vec<_>) = events
        .into_iter()
        .skip(first)
        .partition(|event| event.position().seq == 4);
    refused_alone_and_the_rest_goes_on(sink.as_mut(), poison, rest).await;
    let keys = by_key(&kafka.messages(&topic).await);
    assert_eq!(keys["node/7"].len(), 29);
    assert_order(&keys["node/7"]);
}

/// Alone it is refused again; without it the rest goes on.
async fn refused_alone_and_the_rest_goes_on(
    sink: &mut dyn Sink,
    poison: Vec<Event>,
    rest: Vec<Event>,
) {
    let alone = sink.deliver(&batch(poison)).await.expect("a verdict");
    let Delivery::Each(verdicts) = alone else {
        panic!("it is still too large for the broker")
    };
    let [Verdict::Refused(refusal)] = verdicts.as_slice() else {
        panic!("{verdicts:?}")
    };
    assert_eq!(refusal.code(), "TOO_LARGE");
    let delivery = sink.deliver(&batch(rest)).await;
    assert_eq!(delivery.expect("the rest arrives"), Delivery::All);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_overtakes_the_first_request_of_a_new_producer_if_it_is_refused() {
    let kafka = shared::kafka().await;
    let topic = topic_name("first");
    kafka
        .create_topic_with(&topic, 1, &[("max.message.bytes", "20000")])
        .await;
    let settings = format!(
        "topic = \"{topic}\"\ncompression = \"none\"\nlibrdkafka = {{ \"batch.num.messages\" = 1 }}"
    );
    for attempt in 0..10 {
        let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
        let padding = |seq| if seq == 0 { 30_000 } else { 100 };
        let events = (0..30)
            .map(|seq| event(seq, "node/7", padding(seq)))
            .collect();
        let delivery = sink.deliver(&batch(events)).await.expect("a verdict");
        let Delivery::Each(verdicts) = delivery else {
            panic!("one is too large for the broker")
        };
        assert!(matches!(&verdicts[0], Verdict::Refused(refusal) if refusal.code() == "TOO_LARGE"));
        assert!(!verdicts.contains(&Verdict::Delivered));
        let written = kafka.messages(&topic).await.len();
        assert_eq!(written, 0, "a successor was written in attempt {attempt}");
    }
}

/// A producer that has delivered something is not known to every partition: least of all one that
/// was asked for a single event, as in a trial or for a replay.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_overtakes_the_first_request_to_a_partition_that_is_new_to_a_running_producer() {
    let kafka = shared::kafka().await;
    let topic = topic_name("partition");
    kafka
        .create_topic_with(&topic, 7, &[("max.message.bytes", "20000")])
        .await;
    let settings = format!(
        "topic = \"{topic}\"\ncompression = \"none\"\nlibrdkafka = {{ \"batch.num.messages\" = 1 }}"
    );
    for attempt in 0..10 {
        let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
        let ahead = batch(vec![event(99, "node/6", 10)]);
        let ahead = if attempt % 2 == 0 {
            ahead
        } else {
            ahead.apart()
        };
        assert_eq!(
            sink.deliver(&ahead).await.expect("it arrives"),
            Delivery::All
        );
        let padding = |seq| if seq == 0 { 30_000 } else { 100 };
        let events = (0..30)
            .map(|seq| event(seq, "node/7", padding(seq)))
            .collect();
        let delivery = sink.deliver(&batch(events)).await.expect("a verdict");
        let Delivery::Each(verdicts) = delivery else {
            panic!("one is too large for the broker")
        };
        assert!(matches!(&verdicts[0], Verdict::Refused(refusal) if refusal.code() == "TOO_LARGE"));
        assert!(!verdicts.contains(&Verdict::Delivered));
        let messages = kafka.messages(&topic).await;
        let partition = |key: &[u8]| {
            let of_key = |m: &&KafkaMessage| m.key.as_deref() == Some(key);
            messages.iter().find(of_key).map(|m| m.partition)
        };
        assert_eq!(
            partition(b"node/7"),
            None,
            "a successor was written in attempt {attempt}"
        );
    }
}
