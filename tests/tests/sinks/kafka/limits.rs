//! Sizes, names and queues at their limits.

use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind, Event, Position, Refusal, Verdict};
use outbox_tests::servers::shared;
use tokio::time::Instant;

use super::{PATIENT, assert_order, batch, by_key, connector, event, open, topic_name};

fn undeliverable(verdict: &Verdict) -> Option<&Refusal> {
    if let Verdict::Undeliverable(refusal) = verdict {
        Some(refusal)
    } else {
        None
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_an_event_that_is_too_large_takes_no_other_with_it() {
    let kafka = shared::kafka().await;
    let topic = topic_name("d1");
    kafka.create_topic(&topic, 1).await;
    let mut sink = open(&kafka.bootstrap(), &format!("topic = \"{topic}\""), PATIENT).await;
    let padding = |seq| if seq == 4 { 2_000_000 } else { 1_000 };
    let events = (0..10)
        .map(|seq| event(seq, "node/7", padding(seq)))
        .collect();
    let Delivery::Each(verdicts) = sink.deliver(&batch(events)).await.expect("nine arrive") else {
        panic!("one event is too large");
    };
    let refusal = undeliverable(&verdicts[4]).expect("the fifth is too large");
    assert_eq!(refusal.code(), "TOO_LARGE");
    assert!(refusal.reason().contains("1000000"), "{refusal}");
    assert!(refusal.reason().contains("2000"), "{refusal}");
    assert_eq!(
        verdicts
            .iter()
            .filter(|verdict| **verdict == Verdict::Delivered)
            .count(),
        9
    );
    assert_eq!(kafka.messages(&topic).await.len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_sizes_around_the_limit_are_decided_at_once_and_one_by_one() {
    let kafka = shared::kafka().await;
    let topic = topic_name("d3");
    kafka.create_topic(&topic, 1).await;
    let mut sink = open(&kafka.bootstrap(), &format!("topic = \"{topic}\""), PATIENT).await;
    let start = Instant::now();
    let mut fitted = 0;
    // Data that is this many bytes short of a million; key, headers and framing come on top.
    for missing in (100..400).step_by(5) {
        let large = event(1, "node/7", 1_000_000 - missing);
        let pair = vec![large, event(2, "node/8", 1)];
        match sink
            .deliver(&batch(pair))
            .await
            .expect("the small one arrives")
        {
            Delivery::All => fitted += 1,
            Delivery::Each(verdicts) => {
                let refusal = undeliverable(&verdicts[0]).expect("it is too large");
                let told: Vec<usize> = refusal
                    .reason()
                    .split(' ')
                    .filter_map(|word| word.parse().ok())
                    .collect();
                assert!(told[0] > told[1], "decided to the byte: {refusal}");
                assert!(told[0] < 1_000_000 + 500, "{refusal}");
                assert_eq!(verdicts[1], Verdict::Delivered);
                assert_eq!(fitted, 0, "what is smaller than one that fits, fits");
            }
            other => panic!("{other:?} is not known to this test"),
        }
    }
    assert!(
        fitted > 0 && fitted < 60,
        "the limit was among the sizes: {fitted} fitted"
    );
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "nothing waits for a timeout"
    );
    assert_eq!(kafka.messages(&topic).await.len(), 60 + fitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn d17_a_missing_topic_is_a_misconfiguration_until_it_exists() {
    let kafka = shared::kafka().await;
    let topic = topic_name("d17");
    let settings = format!("topic = \"{topic}\"");
    let connector = connector(&kafka.bootstrap(), &settings);
    let probed = connector.probe().await.expect_err("the topic is missing");
    assert_eq!(probed.kind(), ErrorKind::Misconfigured, "{probed:?}");
    let mut sink = open(&kafka.bootstrap(), &settings, Duration::from_secs(8)).await;
    let events: Vec<_> = (0..100).map(|seq| event(seq, "node/7", 10)).collect();
    for _ in 0..2 {
        let error = sink
            .deliver(&batch(events.clone()))
            .await
            .expect_err("the topic is missing");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(error.to_string().contains(&topic), "{error}");
        assert!(
            error
                .advice()
                .is_some_and(|advice| advice.contains("create the topic"))
        );
    }
    kafka.create_topic(&topic, 1).await;
    connector.probe().await.expect("the topic is there");
    assert_eq!(
        sink.deliver(&batch(events))
            .await
            .expect("the topic is there"),
        Delivery::All
    );
    assert_eq!(kafka.messages(&topic).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn d21_illegal_topic_names_are_undeliverable_and_the_rest_flows() {
    let kafka = shared::kafka().await;
    let topic = topic_name("d21");
    kafka.create_topic(&topic, 1).await;
    let mut sink = open(&kafka.bootstrap(), "topic = \"{subject}\"", PATIENT).await;
    let long = "a".repeat(255);
    let subjects = ["abc!@#$", long.as_str(), ".", "..", " abc", topic.as_str()];
    let events = (0..)
        .zip(subjects)
        .map(|(seq, subject)| event(seq, subject, 1));
    let no_event = Event::new(Position::new(7, 99), "node.up", "[1]");
    let events = events.chain([no_event]).collect();
    let Delivery::Each(verdicts) = sink.deliver(&batch(events)).await.expect("one arrives") else {
        panic!("most names are illegal");
    };
    for verdict in &verdicts[..5] {
        assert_eq!(
            undeliverable(verdict).expect("an illegal name").code(),
            "ILLEGAL_TOPIC"
        );
    }
    assert_eq!(verdicts[5], Verdict::Delivered);
    assert_eq!(
        undeliverable(&verdicts[6]).expect("no event").code(),
        "MALFORMED_PAYLOAD"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn d25_a_full_local_queue_is_back_pressure() {
    let kafka = shared::kafka().await;
    let topic = topic_name("d25");
    kafka.create_topic(&topic, 2).await;
    let settings =
        format!("topic = \"{topic}\"\nlibrdkafka = {{ \"queue.buffering.max.messages\" = 10 }}");
    let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
    let events = (0..2_000)
        .map(|seq| event(seq, &format!("node/{}", seq % 5), 10))
        .collect();
    assert_eq!(
        sink.deliver(&batch(events))
            .await
            .expect("it takes its time"),
        Delivery::All
    );
    let messages = kafka.messages(&topic).await;
    assert_eq!(messages.len(), 2_000);
    by_key(&messages).values().for_each(|ids| assert_order(ids));
}
