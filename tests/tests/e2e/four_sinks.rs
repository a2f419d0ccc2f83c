//! All four sinks at once, while the application publishes in every manner it has, through a
//! `kill -9` of the worker and a restart.

use async_nats::jetstream::stream::Config;
use outbox_tests::servers::{Postgres, shared};
use tokio::task::JoinSet;

use super::fixture::{
    Load, Outcome, Scene, assert_complete_by_key, assert_complete_in_order, eventually, in_file,
    in_kafka, in_nats, in_s3, published, s3_settings,
};

const SINKS: [&str; 4] = ["kafka", "nats", "s3", "file"];

async fn scene(postgres: &Postgres) -> Scene {
    let (kafka, nats, s3) = tokio::join!(shared::kafka(), shared::nats(), shared::s3());
    kafka.create_topic("four", 3).await;
    let stream = Config {
        name: "FOUR".into(),
        subjects: vec!["four.>".into()],
        ..Config::default()
    };
    nats.jetstream().await.create_stream(stream).await.unwrap();
    s3.create_bucket("four");
    let scene = Scene::on(postgres).await;
    scene.configure(&format!(
        r#"
[sinks.kafka.kafka]
brokers = ["{}"]
topic = "four"
[sinks.nats.nats]
servers = ["{}"]
subject = "four.{{type}}"
stream = "FOUR"
[sinks.s3.batch]
max_events = 150
max_wait = "300ms"
[sinks.s3.s3]
{}
[sinks.file.file]
path = "events.ndjson"
"#,
        kafka.bootstrap(),
        nats.url(),
        s3_settings(s3, "four"),
    ));
    scene
}

#[tokio::test]
async fn every_committed_event_is_at_four_destinations_in_order_through_a_kill_and_a_restart() {
    // One of its own: what is open in this cluster is part of the test.
    let postgres = Postgres::newest().await;
    let scene = Box::pin(scene(&postgres)).await;
    let file = scene.path("events.ndjson");
    let mut publishing = JoinSet::new();
    let before = Load {
        publishers: 6,
        transactions: 60,
        long: 2,
    };
    publishing.spawn(before.run(scene.database().clone()));

    let mut first = scene.run("first");
    let part = async || (in_file(&file).len() > 300).then_some(());
    eventually("a part is delivered", part).await;
    // However far the first ones have come: these are published while nobody delivers, and go on.
    let meanwhile = Load {
        publishers: 4,
        transactions: 40,
        long: 2,
    };
    publishing.spawn(meanwhile.run(scene.database().clone()));
    first.kill().await;
    let at_the_kill = in_file(&file).len();

    let mut second = scene.run("second");
    let mut outcome = Outcome::default();
    for part in publishing.join_all().await {
        outcome.extend(part);
    }
    for sink in SINKS {
        scene.up_to_date(sink).await;
    }
    second.stop().await;

    let published = published(scene.database()).await;
    assert!(
        published.len() > 1_000,
        "{} events are too few",
        published.len()
    );
    assert!(
        at_the_kill < published.len(),
        "the kill came after the last event"
    );
    assert!(!outcome.rolled_back.is_empty());
    let known = published
        .iter()
        .filter(|event| outcome.committed.contains(&event.id));
    assert_eq!(
        known.count(),
        outcome.committed.len(),
        "the outbox holds what was committed"
    );
    assert_eq!(
        published.len(),
        outcome.committed.len(),
        "and nothing that was rolled back"
    );

    let in_kafka = in_kafka(shared::kafka().await, "four").await;
    assert_complete_by_key("kafka", &in_kafka, &published);
    let jetstream = shared::nats().await.jetstream().await;
    assert_complete_by_key("nats", &in_nats(&jetstream, "FOUR").await, &published);
    assert_complete_in_order("s3", &in_s3(shared::s3().await, "four"), &published);
    assert_complete_in_order("file", &in_file(&file), &published);
}
