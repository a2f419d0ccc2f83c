use std::time::Duration;

use outbox_tests::servers::{Kafka, Mode, shared};
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};

fn producer(bootstrap: &str) -> FutureProducer {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "30000")
        .set("reconnect.backoff.max.ms", "500")
        .create()
        .unwrap()
}

async fn send(producer: &FutureProducer, topic: &str, value: &str) {
    let record = FutureRecord::to(topic).key("key").payload(value);
    producer
        .send(record, Duration::from_secs(30))
        .await
        .expect("Kafka takes the message");
}

async fn values(kafka: &Kafka, topic: &str) -> Vec<String> {
    let messages = kafka.messages(topic).await;
    messages
        .into_iter()
        .map(|m| String::from_utf8(m.payload.unwrap()).unwrap())
        .collect()
}

#[tokio::test]
async fn what_is_produced_can_be_read() {
    let kafka = shared::kafka().await;
    kafka.create_topic("read", 3).await;
    assert_eq!(kafka.messages("read").await, []);
    let producer = producer(&kafka.bootstrap());
    send(&producer, "read", "one").await;
    send(&producer, "read", "two").await;
    let messages = kafka.messages("read").await;
    assert_eq!(
        messages.iter().map(|m| m.offset).collect::<Vec<_>>(),
        [0, 1]
    );
    assert!(messages.iter().all(|m| m.key.as_deref() == Some(b"key")));
    assert_eq!(values(kafka, "read").await, ["one", "two"]);
}

#[tokio::test]
async fn topics_exist_only_when_created_and_take_settings() {
    let kafka = shared::kafka().await;
    kafka
        .create_topic_with("small", 1, &[("max.message.bytes", "200")])
        .await;
    let producer = producer(&kafka.bootstrap());
    let large = "x".repeat(1_000);
    let record = FutureRecord::<str, _>::to("small").payload(&large);
    let (error, _) = producer
        .send(record, Duration::ZERO)
        .await
        .expect_err("200 is the limit");
    assert!(error.to_string().contains("MessageSizeTooLarge"), "{error}");
    let record = FutureRecord::<str, _>::to("never-created").payload("x");
    assert!(producer.send(record, Duration::ZERO).await.is_err());
}

#[tokio::test]
async fn acknowledged_messages_survive_kill_and_stop() {
    let mut kafka = Kafka::start().await;
    let bootstrap = kafka.bootstrap();
    kafka.create_topic("kept", 1).await;
    let producer = producer(&bootstrap);
    send(&producer, "kept", "before the kill").await;
    kafka.kill().await;
    kafka.start_again().await;
    send(&producer, "kept", "before the stop").await;
    kafka.stop().await;
    kafka.start_again().await;
    assert_eq!(kafka.bootstrap(), bootstrap);
    assert_eq!(
        values(&kafka, "kept").await,
        ["before the kill", "before the stop"]
    );
}

#[tokio::test]
async fn a_client_behind_the_proxy_stays_behind_it() {
    let (kafka, proxy) = Kafka::options().start_behind_proxy().await;
    kafka.create_topic("proxied", 1).await;
    let producer = producer(&proxy.addr().to_string());
    send(&producer, "proxied", "passes").await;

    proxy.set(Mode::Refuse);
    let record = FutureRecord::<str, _>::to("proxied").payload("waits");
    let waiting = tokio::spawn({
        let producer = producer.clone();
        async move {
            producer
                .send(record, Duration::from_secs(30))
                .await
                .map(drop)
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        !waiting.is_finished(),
        "nothing passes a proxy that refuses"
    );
    // The test itself goes past the proxy.
    assert_eq!(values(&kafka, "proxied").await, ["passes"]);

    proxy.set(Mode::Pass);
    waiting
        .await
        .unwrap()
        .expect("the message goes through in the end");
    assert_eq!(values(&kafka, "proxied").await, ["passes", "waits"]);
}
