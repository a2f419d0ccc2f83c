//! A broker that is away for minutes (D43): an outage dead-letters nothing, however long it lasts.

use std::time::Duration;

use outbox_tests::servers::Kafka;
use tokio::time::{Instant, sleep_until};

use super::fixture::{Scene, assert_complete_by_key, in_kafka, publish};

const OUTAGE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_broker_that_is_down_for_two_minutes_costs_no_event() {
    let (mut kafka, scene) = tokio::join!(Kafka::start(), Scene::new());
    kafka.create_topic("events", 2).await;
    scene.configure(&format!(
        "[sinks.x]\ndelivery_timeout = \"5s\"\nretry = {{ initial = \"100ms\", max = \"3s\" }}\n\
         poison = {{ attempts = 1 }}\n\
         [sinks.x.kafka]\nbrokers = [\"{}\"]\ntopic = \"events\"\n\
         librdkafka = {{ \"reconnect.backoff.max.ms\" = 1000 }}\n",
        kafka.bootstrap()
    ));
    let mut worker = scene.run("worker");
    let before = publish(scene.database(), 50).await;
    scene.up_to_date("x").await;

    kafka.kill().await;
    let since = Instant::now();
    publish(scene.database(), 100).await;
    // A worker that is replaced meanwhile goes on where the other was: one is stopped, one killed.
    sleep_until(since + OUTAGE / 3).await;
    let row = scene
        .status_when("x", |row| row["attempts"].as_u64() >= Some(5))
        .await;
    worker.stop().await;
    let mut worker = scene.run("second");
    sleep_until(since + OUTAGE * 2 / 3).await;
    worker.kill().await;
    let mut worker = scene.run("third");
    publish(scene.database(), 100).await;
    sleep_until(since + OUTAGE).await;

    let last = scene.status("x").await;
    assert!(
        last["attempts"].as_u64() > row["attempts"].as_u64(),
        "{row} {last}"
    );
    assert_eq!(last["last_error_kind"], "unavailable", "{last}");
    assert_eq!(last["position"], before[49].position.to_string(), "{last}");
    assert_eq!(
        scene.dead_letters("x").await,
        Vec::<serde_json::Value>::new()
    );
    kafka.start_again().await;
    let published = publish(scene.database(), 50).await;
    scene.up_to_date("x").await;
    worker.stop().await;
    assert_eq!(
        scene.dead_letters("x").await,
        Vec::<serde_json::Value>::new()
    );
    assert_complete_by_key("kafka", &in_kafka(&kafka, "events").await, &published);
}
