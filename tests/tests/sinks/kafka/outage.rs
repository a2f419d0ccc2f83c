//! Brokers that die, hang, or never were there.

use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind};
use outbox_tests::servers::{Kafka, Mode, free_port};
use tokio::time::Instant;

use super::{assert_order, batch, by_key, connector, deliver_all, event, id_of, open, topic_name};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_in_a_batch_and_comes_back_loses_nothing_and_keeps_the_order() {
    let mut kafka = Kafka::start().await;
    let topic = topic_name("killed");
    kafka.create_topic(&topic, 3).await;
    let bootstrap = kafka.bootstrap();
    let settings = format!("topic = \"{topic}\"");
    let mut sink = open(&bootstrap, &settings, Duration::from_secs(5)).await;
    let events: Vec<_> = (0..30_000)
        .map(|seq| event(seq, &format!("node/{}", seq % 23), 300))
        .collect();
    let mut deliveries = tokio::task::JoinSet::new();
    deliveries.spawn(async move {
        for chunk in events.chunks(1_000) {
            deliver_all(sink.as_mut(), chunk.to_vec(), 60).await;
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    kafka.kill().await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(
        deliveries.try_join_next().is_none(),
        "the broker was killed while events were delivered"
    );
    kafka.start_again().await;
    let ended = deliveries.join_next().await.expect("a task was spawned");
    ended.expect("all is delivered in the end");
    let messages = kafka.messages(&topic).await;
    let ids: std::collections::BTreeSet<_> = messages.iter().map(id_of).collect();
    assert_eq!(ids.len(), 30_000, "nothing is lost");
    by_key(&messages).values().for_each(|ids| assert_order(ids));
}

#[tokio::test(flavor = "multi_thread")]
async fn d43_an_absent_broker_is_an_outage_within_the_deadline() {
    let nowhere = format!("127.0.0.1:{}", free_port());
    let deadline = Duration::from_secs(3);
    let mut sink = open(&nowhere, "", deadline).await;
    for _ in 0..2 {
        let start = Instant::now();
        let error = sink
            .deliver(&batch(vec![event(1, "a", 1)]))
            .await
            .expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(
            error.to_string().contains(&nowhere),
            "it says which broker: {error}"
        );
        assert!(start.elapsed() < deadline, "{:?}", start.elapsed());
    }
    let error = connector(&nowhere, "")
        .probe()
        .await
        .expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d27_nothing_that_was_given_up_is_sent_afterwards() {
    let (kafka, proxy) = Kafka::options().start_behind_proxy().await;
    let topic = topic_name("d27");
    kafka.create_topic(&topic, 1).await;
    let settings = format!("topic = \"{topic}\"");
    let deadline = Duration::from_secs(3);
    let mut sink = open(&proxy.addr().to_string(), &settings, deadline).await;
    let events = |from: i64| {
        (from..from + 50)
            .map(|seq| event(seq, "node/7", 10))
            .collect()
    };
    assert_eq!(
        sink.deliver(&batch(events(0))).await.expect("all is well"),
        Delivery::All
    );

    proxy.set(Mode::Hang);
    let start = Instant::now();
    let error = sink
        .deliver(&batch(events(50)))
        .await
        .expect_err("nothing answers");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(start.elapsed() < deadline, "{:?}", start.elapsed());
    // What the stalled network swallowed is gone with its connections.
    proxy.cut();
    proxy.set(Mode::Pass);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        kafka.messages(&topic).await.len(),
        50,
        "the client sends nothing of its own"
    );
    assert_eq!(
        sink.deliver(&batch(events(50))).await.expect("all is well"),
        Delivery::All
    );
    assert_eq!(kafka.messages(&topic).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_dropped_sends_nothing_afterwards() {
    let (kafka, proxy) = Kafka::options().start_behind_proxy().await;
    let topic = topic_name("dropped");
    kafka.create_topic(&topic, 1).await;
    proxy.set(Mode::Hang);
    let mut sink = open(
        &proxy.addr().to_string(),
        &format!("topic = \"{topic}\""),
        Duration::from_secs(30),
    )
    .await;
    let batch = batch(vec![event(1, "node/7", 10)]);
    let dropped = tokio::time::timeout(Duration::from_secs(1), sink.deliver(&batch)).await;
    assert!(dropped.is_err(), "nothing answers");
    proxy.cut();
    proxy.set(Mode::Pass);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(kafka.messages(&topic).await.len(), 0);
    assert_eq!(
        sink.deliver(&batch).await.expect("all is well"),
        Delivery::All
    );
    assert_eq!(kafka.messages(&topic).await.len(), 1);
}
