//! Destinations go down during flow and come back: nothing is lost, no other sink waits, and the
//! operator sees which one it is.

use async_nats::jetstream::stream::Config;
use outbox_tests::servers::{Kafka, Nats, S3};
use serde_json::Value;

use super::fixture::{
    Scene, assert_complete_by_key, assert_complete_in_order, assert_each_once, eventually, in_file,
    in_kafka, in_nats, in_s3, publish, s3_settings,
};

const REMOTE: [&str; 3] = ["kafka", "nats", "s3"];

fn sinks(kafka: &Kafka, nats: &Nats, s3: &S3) -> String {
    let common = |name: &str| {
        format!(
            "[sinks.{name}]\ndelivery_timeout = \"5s\"\n\
             [sinks.{name}.retry]\ninitial = \"200ms\"\nmax = \"1s\"\n"
        )
    };
    format!(
        "{}[sinks.kafka.kafka]\nbrokers = [\"{}\"]\ntopic = \"events\"\n\
         {}[sinks.nats.nats]\nservers = [\"{}\"]\n\
         {}[sinks.s3.batch]\nmax_wait = \"100ms\"\n[sinks.s3.s3]\n{}\
         [sinks.file.file]\npath = \"events.ndjson\"\n",
        common("kafka"),
        kafka.bootstrap(),
        common("nats"),
        nats.url(),
        common("s3"),
        s3_settings(s3, "events")
    )
}

#[tokio::test]
async fn destinations_that_go_down_and_come_back_get_everything_and_delay_nobody() {
    let (mut kafka, mut nats, mut s3) = tokio::join!(Kafka::start(), Nats::start(), S3::start());
    kafka.create_topic("events", 2).await;
    let stream = Config {
        name: "EVENTS".into(),
        subjects: vec!["events.>".into()],
        ..Config::default()
    };
    nats.jetstream().await.create_stream(stream).await.unwrap();
    s3.create_bucket("events");
    let scene = Scene::new().await;
    scene.configure(&sinks(&kafka, &nats, &s3));
    let file = scene.path("events.ndjson");

    let mut worker = scene.run("worker");
    publish(scene.database(), 50).await;
    for sink in ["kafka", "nats", "s3", "file"] {
        scene.up_to_date(sink).await;
    }

    tokio::join!(kafka.kill(), nats.kill(), s3.stop());
    let published = publish(scene.database(), 150).await;
    let in_time = async || (in_file(&file).len() == 200).then_some(());
    eventually("the file does not wait for the others", in_time).await;
    for sink in REMOTE {
        let failing = |row: &Value| row["attempts"].as_u64() >= Some(2) && row["lag_events"] == 150;
        let row = scene.status_when(sink, failing).await;
        assert_eq!(row["state"], "backing-off", "{row}");
        assert_eq!(row["last_error_kind"], "unavailable", "{row}");
        assert!(
            row["last_error"]
                .as_str()
                .is_some_and(|error| error.len() > 10),
            "{row}"
        );
    }
    assert_each_once("the file, in the outage", &in_file(&file), &published);

    let (again, and_again) = (kafka.start_again(), nats.start_again());
    tokio::join!(again, and_again, s3.start_again());
    let published = publish(scene.database(), 50).await;
    for sink in REMOTE {
        scene.up_to_date(sink).await;
        let row = scene.status(sink).await;
        assert_eq!(
            (&row["attempts"], &row["last_error"]),
            (&0.into(), &Value::Null),
            "{row}"
        );
    }
    // One line when it began and one when it ended, for each.
    worker.says("delivering again", REMOTE.len()).await;
    let complaints = worker.count("WARN") + worker.count("ERROR");
    assert!(
        complaints <= 4 * REMOTE.len(),
        "{complaints} complaints about 3 outages"
    );
    worker.stop().await;

    assert_complete_by_key("kafka", &in_kafka(&kafka, "events").await, &published);
    let jetstream = nats.jetstream().await;
    assert_complete_by_key("nats", &in_nats(&jetstream, "EVENTS").await, &published);
    assert_complete_in_order("s3", &in_s3(&s3, "events"), &published);
    assert_each_once("file", &in_file(&file), &published);
}
